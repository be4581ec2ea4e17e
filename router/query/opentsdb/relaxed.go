package opentsdb

import (
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/relax"
)

// reader is where the scans of one request read.
type reader struct {
	scan.Source
	relaxation scan.Relaxation
	missing    func() []uint16
}

// reader gives the source that a request asks for.
func (h *handler) reader(c *call) (*reader, error) {
	relaxation, err := relax.Of(c.Header, c.parameters)
	if err != nil {
		return nil, invalid("%s", err)
	}
	x := &reader{Source: h.source, relaxation: relaxation, missing: func() []uint16 { return nil }}
	if h.relaxed != nil && relaxation != (scan.Relaxation{}) {
		x.Source, x.missing = h.relaxed(relaxation)
	}
	return x, nil
}

// tellMissing puts the shards that the answer is without into its header. All reads
// have ended; nothing of the answer is out.
func (h *handler) tellMissing(a *answer, x *reader) {
	shards := x.missing()
	if len(shards) == 0 {
		return
	}
	h.metrics.partial.Inc()
	a.w.Header().Set(relax.MissingHeader, relax.Missing(shards))
}
