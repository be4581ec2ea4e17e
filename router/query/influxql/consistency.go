package influxql

import (
	"net/http"

	"github.com/tickmesh/tickmesh/router/query/shell"
)

// missingTeller puts the shards that are known to be missing into the header, right before
// the first bytes go out.
type missingTeller struct {
	http.ResponseWriter
	reader *shell.Reader
	told   bool
}

// Write implements io.Writer.
func (t *missingTeller) Write(p []byte) (int, error) {
	if !t.told {
		t.told = true
		t.reader.TellMissing(t.Header())
	}
	return t.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (t *missingTeller) Flush() {
	if f, ok := t.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
