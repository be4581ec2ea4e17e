package answer

import (
	"net/http"

	"github.com/tickmesh/tickmesh/router/query/indent"
)

// indenter answers with four spaces for each level, as encoding/json.MarshalIndent does.
type indenter struct {
	http.ResponseWriter
	text *indent.Writer
}

func newIndenter(w http.ResponseWriter) *indenter { return &indenter{w, indent.New(w, "    ")} }

// Write implements io.Writer.
func (n *indenter) Write(p []byte) (int, error) { return n.text.Write(p) }

// Flush implements http.Flusher.
func (n *indenter) Flush() {
	if f, ok := n.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
