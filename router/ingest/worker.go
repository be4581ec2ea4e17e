package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/parse"
	"github.com/tickmesh/tickmesh/router/split"
)

// result says what became of the points of one request or chunk.
type result struct {
	accepted int // written
	refused  int // bad lines, or series that storage refused
	skipped  int // values that are text
	failed   int // the write gave an error
	again    int // of those refused, the ones that another try may place
	copies   int
}

// worker is the memory of one write: the parsed batch, the splitter with its memo
// of lines, the answer's text.
type worker struct {
	resolver   split.Resolver
	writer     Writer
	generation func() uint64

	batch    parse.Batch
	splitter *split.Splitter
	deadline *deadline
	text     []byte

	promise promise // of the request that is being written
}

// retryable says that an error may pass without the client's help, so that a
// port without answers tries again.
func retryable(err error) bool {
	return !errors.Is(err, series.ErrSeriesLimit) || errors.Is(err, series.ErrSeriesRate)
}

// errorKind classifies an error of a write.
func errorKind(err error) writeError {
	switch {
	case errors.Is(err, series.ErrReadOnly):
		return writeReadOnly
	case errors.Is(err, series.ErrSeriesRate):
		return writeSeriesRate
	case errors.Is(err, series.ErrSeriesLimit):
		return writeSeriesLimit
	case errors.Is(err, series.ErrOverloaded):
		return writeOverloaded
	case errors.Is(err, context.DeadlineExceeded):
		return writeTimedOut
	default:
		return writeUnavailable
	}
}

// explain words an error of a write for clients. The words never hold "partial
// write" or "hinted handoff queue not empty", which Telegraf takes for success.
func explain(err error) string {
	if copies := (*series.CopiesError)(nil); errors.As(err, &copies) {
		return copies.Error() + "; sent again with the same Idempotency-Key it waits for them and writes nothing twice"
	}
	switch errorKind(err) {
	case writeSeriesRate:
		return "not all was taken: " + harmless(err) + ", please send this request again: the same points twice do no harm"
	case writeReadOnly:
		return "the storage takes no writes now: " + harmless(err)
	case writeSeriesLimit:
		return "no room for new series now: " + harmless(err)
	case writeOverloaded:
		return "overloaded, please send this request again later: the same points twice do no harm"
	case writeTimedOut:
		return "the write took too long, please send it again: the same points twice do no harm"
	default:
		return "unavailable now, please send this request again: " + harmless(err)
	}
}

// harmless gives the text of an error without the words that clients misread.
func harmless(err error) string {
	text := err.Error()
	for _, misread := range []string{"partial write", "hinted handoff queue not empty"} {
		text = strings.ReplaceAll(text, misread, "incomplete write")
	}
	return text
}

// workers bounds the writes at work at once. Who waits is served in order of
// arrival; of the workers at rest the one used last, with the warmest memory, is
// taken first.
type workers struct {
	make    func() (*worker, error)
	slots   chan struct{} // one for each write at work
	waitMax time.Duration

	mu struct {
		sync.Mutex
		resting []*worker
		closed  bool
	}
}

// errWorkers: all workers are at work.
var errWorkers = fmt.Errorf("%w: too many writes at work", series.ErrOverloaded)

func newWorkers(ctx context.Context, o *Options) (*workers, error) {
	ws := &workers{slots: make(chan struct{}, o.Limits.WritesMax), waitMax: o.Limits.WriteTimeout}
	ws.make = func() (*worker, error) {
		s, err := split.New(split.Options{Shards: o.Shards, Limits: o.Limits.Line})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		return &worker{
			resolver: o.Resolver, writer: o.Writer, generation: o.Generation, splitter: s, deadline: newDeadline(ctx),
		}, nil
	}
	first, err := ws.make() // so that wrong options show now
	if err != nil {
		return nil, err
	}
	ws.mu.resting = append(ws.mu.resting, first)
	return ws, nil
}

// take waits for a slot, for a bounded time; errors are errWorkers or the end of
// ctx.
func (ws *workers) take(ctx context.Context) (*worker, error) {
	select {
	case ws.slots <- struct{}{}:
	default:
		if err := ws.wait(ctx); err != nil {
			return nil, err
		}
	}
	ws.mu.Lock()
	if n := len(ws.mu.resting); n > 0 {
		w := ws.mu.resting[n-1]
		ws.mu.resting = ws.mu.resting[:n-1]
		ws.mu.Unlock()
		return w, nil
	}
	ws.mu.Unlock()
	w, err := ws.make()
	if err != nil {
		<-ws.slots
	}
	return w, err
}

func (ws *workers) wait(ctx context.Context) error {
	timer := time.NewTimer(ws.waitMax)
	defer timer.Stop()
	select {
	case ws.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return errWorkers
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Bounds of what a worker at rest may hold.
const (
	restingBytesMax     = 8 << 20  // parsed and split: what a body of 1 MiB takes, some kinds of bodies aside
	restingTextBytesMax = 64 << 10 // of its answers
)

// rest gives a worker back. One that has grown goes with its memory: a short body
// may become much, as each of a line's new series has all of its tags.
func (ws *workers) rest(w *worker) {
	large := w.batch.MemoryBytes()+w.splitter.MemoryBytes() > restingBytesMax
	w.batch.Reset() // it owns no body
	w.promise = promise{}
	if cap(w.text) > restingTextBytesMax {
		w.text = nil
	}
	ws.mu.Lock()
	keep := !ws.mu.closed && !large
	if keep {
		ws.mu.resting = append(ws.mu.resting, w)
	}
	ws.mu.Unlock()
	if !keep {
		w.deadline.release()
	}
	<-ws.slots
}

// close lets go of the workers at rest, and of the others as they come to rest.
func (ws *workers) close() {
	ws.mu.Lock()
	resting := ws.mu.resting
	ws.mu.resting, ws.mu.closed = nil, true
	ws.mu.Unlock()
	for _, w := range resting {
		w.deadline.release()
	}
}
