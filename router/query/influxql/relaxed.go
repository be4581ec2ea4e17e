package influxql

import (
	"net/http"

	"github.com/tickmesh/tickmesh/router/query/relax"
)

// missingTeller puts the shards that are known to be missing into the header, right before
// the first bytes go out.
type missingTeller struct {
	http.ResponseWriter
	missing func() []uint16
	count   func()
	told    bool
}

// Write implements io.Writer.
func (t *missingTeller) Write(p []byte) (int, error) {
	if !t.told {
		t.told = true
		if shards := t.missing(); len(shards) > 0 {
			t.count()
			t.Header().Set(relax.MissingHeader, relax.Missing(shards))
		}
	}
	return t.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (t *missingTeller) Flush() {
	if f, ok := t.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
