package scantest

import (
	"context"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Watched is a source that remembers what samples it was asked for. It is safe for concurrent use.
type Watched struct {
	scan.Source
	mu       sync.Mutex
	requests []scan.Request
}

// Watch returns a source that remembers what it is asked for.
func Watch(s scan.Source) *Watched { return &Watched{Source: s} }

// Take returns the requests since the last call. Those for newest samples end at scan.TimeMsMax.
func (w *Watched) Take() []scan.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.requests
	w.requests = nil
	return taken
}

// Scan implements scan.Source.
func (w *Watched) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	w.note(*request)
	return w.Source.Scan(ctx, request, visit)
}

// Last implements scan.Source.
func (w *Watched) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	w.note(scan.Request{Selector: *selector, FromMs: fromMs, ToMs: scan.TimeMsMax})
	return w.Source.Last(ctx, selector, fromMs, limits, visit)
}

func (w *Watched) note(request scan.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, request)
}
