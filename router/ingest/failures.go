package ingest

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/limitedlog"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// failures counts writes that were not taken by the kind of their error, and logs one of each kind
// now and then.
type failures struct {
	counts [refusal.Kinds]atomic.Int64
	logs   [refusal.Kinds]limitedlog.Log
}

func newFailures(logger *slog.Logger, clock func() time.Time) *failures {
	f := &failures{}
	for kind := range f.logs {
		f.logs[kind].Logger, f.logs[kind].Clock = logger, clock
	}
	return f
}

// note counts an error of a write that was parsed.
func (f *failures) note(err error) {
	kind := refusal.KindOf(err)
	f.counts[kind].Add(1)
	f.logs[kind].Warn("a write was not taken", "kind", kind.String(), "error", err)
}

// noteEarly counts an error of a write, or of what may have been one, of which nothing was
// written, if the server is the cause and not the request.
func (f *failures) noteEarly(err error) {
	if refusal.Status(err) == fasthttp.StatusServiceUnavailable || errors.Is(err, budget.ErrTooLarge) {
		f.note(err)
	}
}
