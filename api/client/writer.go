package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Writer gathers samples into batches and sends them. All methods may be called from
// many goroutines; samples of one goroutine keep their order.
type Writer struct {
	client  *Client
	options WriterOptions

	ctx     context.Context // ends when the writer gives up what it holds
	cancel  context.CancelFunc
	senders sync.WaitGroup

	mu struct {
		sync.Mutex
		gathered *batch
		timer    *time.Timer // sends gathered when that is BatchDelay old
		points   int         // held: gathered, in the queue, on their way
		queue    []*batch    // of at least one sample each
		batches  int         // in the queue and on their way
		changed  chan struct{}
		closed   bool
		lost     WriteError // since it was told last
	}
}

// NewWriter makes a Writer. Errors: ErrOptions, ErrClosed.
func (c *Client) NewWriter(o WriterOptions) (*Writer, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	w := &Writer{client: c, options: o}
	w.ctx, w.cancel = context.WithCancel(c.ctx)
	w.mu.gathered, w.mu.changed = newBatch(), make(chan struct{})
	ids := newWindow()
	for range o.BatchesInFlight {
		x := &sender{client: c, window: ids}
		w.senders.Go(func() { w.send(x) })
	}
	return w, nil
}

// Append takes a sample. It waits while the buffer is full. Errors: ErrInvalid for a
// time out of range, ErrClosed, ErrBufferFull where the writer may not wait, the
// context's. What becomes of the sample is told by Flush, Close and OnError.
func (w *Writer) Append(ctx context.Context, s *Series, timeMs int64, value float64) error {
	if s == nil || timeMs < scan.TimeMsMin || timeMs > scan.TimeMsMax {
		return fmt.Errorf("%w: a sample without a series, or at %d ms", ErrInvalid, timeMs)
	}
	w.mu.Lock()
	for w.mu.points >= w.options.BufferPoints && !w.mu.closed {
		if w.options.FailWhenFull {
			w.mu.Unlock()
			return ErrBufferFull
		}
		w.submitLocked()
		if err := w.awaitLocked(ctx); err != nil {
			w.mu.Unlock()
			return err
		}
	}
	defer w.mu.Unlock()
	if w.mu.closed {
		return ErrClosed
	}
	b := w.mu.gathered
	if b.points() > 0 && b.bytes+b.cost(s, timeMs) > w.options.BatchBytes {
		w.submitLocked()
		b = w.mu.gathered
	}
	b.add(s, timeMs, value)
	w.mu.points++
	switch {
	case b.points() >= w.options.BatchPoints:
		w.submitLocked()
	case b.points() == 1:
		w.mu.timer = time.AfterFunc(w.options.BatchDelay, func() { w.submitOld(b) })
	}
	return nil
}

// awaitLocked waits for a change, without the lock.
func (w *Writer) awaitLocked(ctx context.Context) error {
	changed := w.mu.changed
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// submitOld sends what is gathered if that is still b.
func (w *Writer) submitOld(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.gathered == b {
		w.submitLocked()
	}
}

// submitLocked hands what is gathered to the senders.
func (w *Writer) submitLocked() {
	b := w.mu.gathered
	if b.points() == 0 || w.mu.closed {
		return
	}
	if w.mu.timer != nil {
		w.mu.timer.Stop()
		w.mu.timer = nil
	}
	w.mu.batches++
	w.mu.gathered = newBatch()
	w.mu.queue = append(w.mu.queue, b)
	w.changeLocked()
}

// changeLocked wakes whoever waits.
func (w *Writer) changeLocked() {
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
}

// next waits for a batch. Nil: the writer is closed, and everything is sent.
func (w *Writer) next() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.queue) == 0 {
		if w.mu.closed {
			return nil
		}
		_ = w.awaitLocked(context.Background()) // Close wakes it
	}
	b := w.mu.queue[0]
	w.mu.queue = slices.Delete(w.mu.queue, 0, 1)
	return b
}

// send sends batches until the writer is closed and has none.
func (w *Writer) send(x *sender) {
	defer x.close()
	for b := w.next(); b != nil; b = w.next() {
		points := b.points()
		refused, lost, err := x.deliver(w.ctx, b)
		for _, r := range refused {
			w.fail(int64(r.Points), r)
		}
		if err != nil {
			w.fail(int64(lost), fmt.Errorf("a batch of %d points: %w", lost, err))
		}
		w.mu.Lock()
		w.mu.points -= points
		w.mu.batches--
		w.changeLocked()
		w.mu.Unlock()
	}
}

// errorsKept bounds the errors that wait to be told.
const errorsKept = 16

func (w *Writer) fail(points int64, err error) {
	w.mu.Lock()
	lost := &w.mu.lost
	lost.Points += points
	lost.Total++
	if len(lost.Errors) < errorsKept {
		lost.Errors = append(lost.Errors, err)
	}
	w.mu.Unlock()
	if w.options.OnError != nil {
		w.options.OnError(err)
	}
}

// Flush sends what is gathered and waits until every sample that was appended before
// is written or given up. Errors: a *WriteError when some were given up since the
// last Flush, the context's.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.submitLocked()
	for w.mu.batches > 0 {
		if err := w.awaitLocked(ctx); err != nil {
			return err
		}
	}
	return w.takeLostLocked()
}

func (w *Writer) takeLostLocked() error {
	if w.mu.lost.Total == 0 {
		return nil
	}
	lost := w.mu.lost
	w.mu.lost = WriteError{}
	return &lost
}

// Close takes no more samples, sends what it holds, and waits for that until the
// context ends; then it gives up the rest. Errors as of Flush. A second call waits,
// too, and has nothing to tell.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.mu.closed {
		w.submitLocked()
		w.mu.closed = true
		w.changeLocked()
	}
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, w.cancel)
	w.senders.Wait()
	stop()
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takeLostLocked()
}

// Buffered returns the samples that the writer holds.
func (w *Writer) Buffered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.points
}
