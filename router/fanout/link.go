package fanout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// attempt is one try to write some parts of a frame on one node.
type attempt struct {
	call     *call
	node     *node
	sequence uint64
	parts    []int    // indices into the frame's parts
	shards   []uint16 // of the parts
	encoded  encoded
	bytes    int64
	expires  time.Time // then another node is asked, though this one may still answer

	// What became of it, set before it is delivered. A nil err comes with an outcome
	// for each part.
	outcomes []wire.PartOutcome
	err      error
}

// link is one stream of writes to a node, opened when it is needed and again when it
// was lost. What is lost with a stream goes back to its calls.
type link struct {
	node     *node
	bytesMax int64
	logger   *slog.Logger
	metrics  *metrics
	wake     chan struct{} // has one element when something was queued

	mu struct {
		sync.Mutex
		queue  []*attempt          // to be sent
		flying map[uint64]*attempt // sent and not answered, by sequence
		bytes  int64               // of both
		closed bool
	}
}

func newLink(n *node, c *Cluster) *link {
	l := &link{
		node: n, bytesMax: c.options.Limits.StreamBytesMax, metrics: c.metrics, wake: make(chan struct{}, 1),
		logger: c.options.Logger.With("node", n.id, "address", n.address),
	}
	l.mu.flying = map[uint64]*attempt{}
	return l
}

// submit queues an attempt, which is then delivered to its call. Errors:
// series.ErrOverloaded, series.ErrUnavailable; then it is not.
func (l *link) submit(a *attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return fmt.Errorf("%w: the connection to node %s was given up", series.ErrUnavailable, l.node.id)
	}
	if l.mu.bytes > 0 && l.mu.bytes+a.bytes > l.bytesMax {
		l.metrics.full.Inc()
		return fmt.Errorf("%w: %d bytes wait for node %s", series.ErrOverloaded, l.mu.bytes, l.node.id)
	}
	l.mu.queue = append(l.mu.queue, a)
	l.mu.bytes += a.bytes
	select {
	case l.wake <- struct{}{}:
	default: // it was said already
	}
	return nil
}

// run serves the link until ctx ends.
func (l *link) run(ctx context.Context) {
	defer func() {
		l.mu.Lock()
		l.mu.closed = true
		l.mu.Unlock()
		l.lose(errClosed)
	}()
	for logged := ""; ; {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		answered, err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if answered {
			logged = ""
		}
		if text := err.Error(); text != logged {
			l.logger.Warn("the stream of writes to a node was lost; what it had is sent again", "error", err)
			logged = text
		}
		l.metrics.streamsLost.Inc()
		l.lose(err)
	}
}

// session opens a stream and serves it until it is lost. Its error is never nil.
func (l *link) session(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.node.client.Write(ctx)
	if err != nil {
		return false, err
	}
	received := make(chan error, 1)
	go func() {
		defer cancel() // ends send
		for {
			m, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			answered = true
			l.answer(m)
		}
	}()
	l.send(ctx, stream)
	cancel()
	return answered, <-received
}

// send sends what is queued until ctx or the stream ends; then the receiver knows why.
func (l *link) send(ctx context.Context, stream grpc.BidiStreamingClient[nodev1.WriteRequest, nodev1.WriteResponse]) {
	for {
		a := l.next()
		if a == nil {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := stream.SendMsg(a.encoded); err != nil {
			return
		}
		a.encoded = nil // gRPC has it
	}
}

// next gives the oldest queued attempt that anybody still waits for, and counts it
// as sent.
func (l *link) next() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.mu.queue) > 0 {
		a := l.mu.queue[0]
		l.mu.queue[0] = nil
		l.mu.queue = l.mu.queue[1:]
		if a.call.ended.Load() {
			l.mu.bytes -= a.bytes
			continue
		}
		l.mu.flying[a.sequence] = a
		return a
	}
	l.mu.queue = nil
	return nil
}

func (l *link) answer(m *nodev1.WriteResponse) {
	l.mu.Lock()
	a := l.mu.flying[m.GetSequence()]
	if a != nil {
		delete(l.mu.flying, a.sequence)
		l.mu.bytes -= a.bytes
	}
	l.mu.Unlock()
	if a == nil {
		l.logger.Warn("a node has answered a frame that was not sent", "sequence", m.GetSequence())
		return
	}
	if m.GetError() != nil {
		a.err = wire.ToError(m.GetError())
	} else {
		a.outcomes, a.err = wire.ToPartOutcomes(m.GetResults(), a.shards)
	}
	a.call.deliver(a)
}

// lose gives all attempts back to their calls.
func (l *link) lose(err error) {
	if !errors.Is(err, series.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", series.ErrUnavailable, err)
	}
	l.mu.Lock()
	lost := l.mu.queue
	for _, a := range l.mu.flying {
		lost = append(lost, a)
	}
	l.mu.queue, l.mu.bytes = nil, 0
	clear(l.mu.flying)
	l.mu.Unlock()
	for _, a := range lost {
		a.err = err
		a.call.deliver(a)
	}
}

// waiting gives the bytes that are not answered yet.
func (l *link) waiting() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes
}
