package fanout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// attempt is one try to write some parts of a frame on one node.
type attempt struct {
	call      *call
	node      *node
	sequence  uint64
	parts     []int    // indices into the frame's parts
	shards    []uint16 // of the parts
	bytes     int64    // at most, as it is sent
	began     time.Time
	allowed   time.Duration // until expires, but for level all
	expires   time.Time     // then another node is asked, though this one may still answer
	doubts    time.Time     // then it is asked whether the node is there
	timeoutMs uint32
	givenUp   bool // it has expired; for the call alone

	// What became of it, set before it is delivered. A nil err comes with an outcome
	// for each part, or without any: then all were written in so many copies.
	outcomes []wire.PartOutcome
	copies   int
	err      error
}

// Bounds of one message, but for a single larger attempt.
const (
	messageBytesMax  = 512 << 10
	messageFramesMax = 64
)

// link is one stream of writes to a node, opened when it is needed and again when it
// was lost. What is lost with a stream goes back to its calls.
type link struct {
	node     *node
	bytesMax int64
	buffers  *transport.Buffers
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
		node: n, bytesMax: c.options.Limits.StreamBytesMax, buffers: &c.buffers, metrics: c.metrics, wake: make(chan struct{}, 1),
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
	if len(l.mu.queue) > 1 {
		return nil // who queued the first one has said so
	}
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
			var m transport.Message
			err := stream.RecvMsg(&m)
			if err == nil {
				answered = true
				err = l.answer(m.Bytes)
				m.Free()
			}
			if err != nil {
				received <- err
				return
			}
		}
	}()
	l.send(ctx, stream)
	cancel()
	return answered, <-received
}

// send sends what is queued until ctx or the stream ends; then the receiver knows why.
// What is queued by the time it sends goes as one message: under load that is what the
// calls of many clients have queued, else one attempt at once.
func (l *link) send(ctx context.Context, stream grpc.BidiStreamingClient[nodev1.WriteRequest, nodev1.WriteResponse]) {
	var attempts []*attempt
	var scratch wire.Frame
	for {
		runtime.Gosched() // lets other calls that are ready queue theirs
		attempts = l.next(attempts[:0])
		if len(attempts) == 0 {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		request := l.request(attempts, &scratch)
		clear(attempts)
		if request == nil {
			continue
		}
		l.metrics.messages.Inc()
		if err := stream.SendMsg(request); err != nil {
			return
		}
	}
}

// next returns the oldest queued attempts, as many as one message has room for, and
// counts them as sent.
func (l *link) next(attempts []*attempt) []*attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, int64(0)
	for n < len(l.mu.queue) && n < messageFramesMax && (n == 0 || bytes+l.mu.queue[n].bytes <= messageBytesMax) {
		a := l.mu.queue[n]
		bytes += a.bytes
		l.mu.flying[a.sequence] = a
		n++
	}
	attempts = append(attempts, l.mu.queue[:n]...)
	left := copy(l.mu.queue, l.mu.queue[n:])
	clear(l.mu.queue[left:])
	l.mu.queue = l.mu.queue[:left]
	return attempts
}

// request makes a message of attempts; nil when nobody waits for any of them. It counts
// those as answered that are left out.
func (l *link) request(attempts []*attempt, scratch *wire.Frame) *transport.Message {
	bytes := int64(0)
	for _, a := range attempts {
		bytes += a.bytes
	}
	buffer := l.buffers.Get(int(bytes))
	b := (*buffer)[:0]
	for _, a := range attempts {
		var wanted bool
		if b, wanted = a.call.encode(a, b, scratch); !wanted {
			l.landed(a.sequence)
		}
	}
	clear(scratch.Parts[:cap(scratch.Parts)])
	*buffer = b
	if len(b) == 0 {
		l.buffers.Put(buffer)
		return nil
	}
	return &transport.Message{Slice: mem.BufferSlice{mem.NewBuffer(buffer, l.buffers)}}
}

// landed returns the attempt of a sequence, which is not waited for any more; nil: it is
// not known.
func (l *link) landed(sequence uint64) *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.mu.flying[sequence]
	if a != nil {
		delete(l.mu.flying, sequence)
		l.mu.bytes -= a.bytes
	}
	return a
}

// answer delivers what a node has answered. Errors: wire.ErrInvalid; then the stream is
// of no use any more.
func (l *link) answer(response []byte) error {
	for {
		r, rest, ok, err := wire.NextResult(response)
		if err != nil || !ok {
			return err
		}
		response = rest
		a := l.landed(r.Sequence)
		if a == nil {
			l.logger.Warn("a node has answered a frame that was not sent", "sequence", r.Sequence)
			continue
		}
		a.copies = r.Copies
		a.outcomes, a.err = r.Outcomes(a.shards)
		a.call.deliver(a)
	}
}

// lose returns all attempts to their calls.
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

// waiting returns the bytes that are not answered yet.
func (l *link) waiting() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes
}
