package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
	"github.com/tickmesh/tickmesh/router/split"
)

// result describes what became of the points of one request or chunk.
type result struct {
	lines    int // that were parsed
	accepted int // written
	refused  int // bad lines, or series that storage refused
	skipped  int // values that are text
	failed   int // the write gave an error
	again    int // of those refused, the ones that another try may place
	// againWhy is the first reason why these were refused, which names the bound; nil: none were.
	againWhy error
	copies   int
	// exemplars are those that are kept.
	exemplars int
	refusal   error // why series were refused for good; nil: none was
}

// fail counts the points of a write that gave an error.
func (r *result) fail(points int, err error) {
	r.failed += points
	var copies *series.CopiesError
	if errors.As(err, &copies) {
		r.copies = copies.Copies
	}
}

// worker is the memory that parses and splits: the parsed batch, and the splitter with
// its cache of lines.
type worker struct {
	resolver   split.Resolver
	generation func() uint64

	batch    parse.Batch
	splitter *split.Splitter
	// kept is the memory that it had when it came to rest last, which no request pays for.
	kept int
}

// split encodes the parsed batch.
func (w *worker) split(database []byte) *series.Frame {
	return w.splitter.Split(&w.batch, database, w.resolver, w.generation())
}

func (w *worker) memoryBytes() int { return w.batch.MemoryBytes() + w.splitter.MemoryBytes() }

// workers bounds the writes at work at once. Who waits is served in order of
// arrival; of the workers at rest the one used last, with the warmest memory, is
// taken first. There are never more workers at work, or writes, than slots. Heavy writes have at most
// half of them, so that light ones do not wait for processors behind them.
type workers struct {
	make      func() (*worker, error)
	makeWrite func() *inFlightWrite
	slots     chan struct{} // one for each write at work, until its answer
	heavy     chan struct{} // one for each of them that waits for slots of processors, too
	waitMax   time.Duration
	keptMax   int // of mu.kept

	mu struct {
		sync.Mutex
		resting []*worker
		kept    int // bytes that no request pays for: those of workers at rest, or taken from there
		idle    []*inFlightWrite
		closed  bool
	}
}

func newWorkers(ctx context.Context, o *Options) (*workers, error) {
	ws := &workers{slots: make(chan struct{}, o.Limits.WritesMax), heavy: make(chan struct{}, max(o.Limits.WritesMax/2, 1)), waitMax: o.Limits.WriteTimeout,
		keptMax: int(o.Limits.KeptBytesMax)}
	ws.make = func() (*worker, error) {
		s, err := split.New(split.Options{Shards: o.Shards, ShardKey: o.ShardKey, Limits: o.Limits.Line})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		return &worker{resolver: o.Resolver, generation: o.Generation, splitter: s}, nil
	}
	ws.makeWrite = func() *inFlightWrite {
		return &inFlightWrite{workers: ws, writer: o.Writer, deadline: newDeadline(ctx)}
	}
	first, err := ws.make() // so that wrong options show now
	if err != nil {
		return nil, err
	}
	ws.mu.resting = append(ws.mu.resting, first)
	return ws, nil
}

// take waits for a slot, for a bounded time, and returns an in-flight write with a worker; errors
// are errWorkers or the end of ctx.
func (ws *workers) take(ctx context.Context, heavy bool) (*inFlightWrite, error) {
	if heavy {
		if err := ws.wait(ctx, ws.heavy); err != nil {
			return nil, err
		}
	}
	if err := ws.wait(ctx, ws.slots); err != nil {
		if heavy {
			<-ws.heavy
		}
		return nil, err
	}
	ws.mu.Lock()
	fl, w := pop(&ws.mu.idle), pop(&ws.mu.resting)
	ws.mu.Unlock()
	if fl == nil {
		fl = ws.makeWrite()
	}
	fl.heavy = heavy
	if fl.worker = w; w != nil {
		return fl, nil
	}
	if err := ws.equip(fl); err != nil {
		ws.rest(fl)
		return nil, err
	}
	return fl, nil
}

// equip finds a worker for an in-flight write that has none.
func (ws *workers) equip(fl *inFlightWrite) (err error) {
	ws.mu.Lock()
	fl.worker = pop(&ws.mu.resting)
	ws.mu.Unlock()
	if fl.worker == nil {
		fl.worker, err = ws.make()
	}
	return err
}

// bytesKept returns the memory that no request pays for.
func (ws *workers) bytesKept() int64 {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return int64(ws.mu.kept)
}

// pop takes the last element, or nil.
func pop[T any](stack *[]*T) *T {
	n := len(*stack)
	if n == 0 {
		return nil
	}
	last := (*stack)[n-1]
	(*stack)[n-1] = nil // who takes it may let it go
	*stack = (*stack)[:n-1]
	return last
}

// wait takes one of the slots.
func (ws *workers) wait(ctx context.Context, slots chan<- struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(ws.waitMax)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timer.C:
		return refusal.ErrWorkers
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Bounds of what is at rest.
const (
	restingMax           = 128      // workers
	restingBytesMax      = 8 << 20  // of a worker, parsed and split: what a body of 1 MiB takes, some kinds of bodies aside
	restingFrameBytesMax = 1 << 20  // of an in-flight write's frames
	restingTextBytesMax  = 64 << 10 // of an in-flight write's answers
)

// takeBack takes an in-flight write's worker. One that has grown goes with its memory: a short
// body may become much, as each of a line's new series has all of its tags.
func (ws *workers) takeBack(fl *inFlightWrite) {
	w := fl.worker
	fl.worker = nil
	bytes := w.memoryBytes()
	w.batch.Memory, w.batch.Extra, w.batch.KeepExemplars = nil, parse.ExtraLabels{}, false
	w.batch.Reset() // it owns no body
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.mu.kept -= w.kept
	if !ws.mu.closed && bytes <= restingBytesMax && ws.mu.kept+bytes <= ws.keptMax && len(ws.mu.resting) < restingMax {
		w.kept = bytes
		ws.mu.kept += bytes
		ws.mu.resting = append(ws.mu.resting, w)
	}
}

// rest ends an in-flight write.
func (ws *workers) rest(fl *inFlightWrite) {
	if fl.worker != nil {
		ws.takeBack(fl)
	}
	if fl.again { // it was given up in between
		fl.endDeadline()
	}
	heavy := fl.heavy
	fl.options, fl.memory, fl.work, fl.piecePaid, fl.chunk = writeOptions{}, nil, nil, 0, chunk{}
	if cap(fl.text) > restingTextBytesMax {
		fl.text = nil
	}
	if fl.encoded.MemoryBytes() > restingFrameBytesMax {
		fl.encoded = series.EncodedFrame{}
	}
	ws.mu.Lock()
	keep := !ws.mu.closed
	if keep {
		ws.mu.idle = append(ws.mu.idle, fl)
	}
	ws.mu.Unlock()
	if !keep {
		fl.deadline.release()
	}
	if heavy {
		<-ws.heavy
	}
	<-ws.slots
}

// close lets go of what is at rest, and of the others as they come to rest.
func (ws *workers) close() {
	ws.mu.Lock()
	idle := ws.mu.idle
	ws.mu.resting, ws.mu.idle, ws.mu.closed = nil, nil, true
	ws.mu.Unlock()
	for _, fl := range idle {
		fl.deadline.release()
	}
}
