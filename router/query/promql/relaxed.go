package promql

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/relax"
)

// reader is where one request reads.
type reader struct {
	source  scan.Source
	missing func() []uint16
}

// readerOf gives the source that a request asks for.
func (h *handler) readerOf(r *http.Request, form url.Values) (reader, error) {
	relaxation, err := relax.Of(r.Header, form)
	if wrong := new(relax.Error); errors.As(err, &wrong) {
		err = invalidParameter(errors.New(wrong.Reason), wrong.Name)
	}
	x := reader{source: h.options.Source, missing: func() []uint16 { return nil }}
	if err == nil && h.options.Relaxed != nil && relaxation != (scan.Relaxation{}) {
		x.source, x.missing = h.options.Relaxed(relaxation)
	}
	return x, err
}

// tellMissing puts the shards that the answer is without into its header, and gives a
// warning about them. All reads have ended; nothing of the answer is out.
func (h *handler) tellMissing(x *exchange) []string {
	shards := x.reader.missing()
	if len(shards) == 0 {
		return nil
	}
	h.metrics.partial.Inc()
	text := relax.Missing(shards)
	x.out.w.Header().Set(relax.MissingHeader, text)
	return []string{"the answer is partial: nobody answers for shards " + text}
}
