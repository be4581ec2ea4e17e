package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/deadline"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// messageBytesMax is what one message carries of envelopes that wait.
const messageBytesMax = 256 << 10

// clockInterval is how often the others are told what this node's clock says.
const clockInterval = 30 * time.Second

// peer is one node to send to: a queue, and a goroutine that empties it.
type peer struct {
	target  Target
	options *PeersOptions
	waiting *atomic.Int64 // bytes that wait for all peers
	conn    *grpc.ClientConn
	cancel  context.CancelFunc
	ended   chan struct{}
	wake    chan struct{} // has one element when the queue may have something
	admit   *deadline.Adaptive

	mu struct {
		sync.Mutex
		queue   queue
		counted int // bytes of the queue that are in waiting
		closed  bool
		stats   PeerStats // all but what is counted in the queue
	}
}

func startPeer(t Target, o *PeersOptions, waiting *atomic.Int64) (*peer, error) {
	options := append(transport.DialOptions(o.Names.Credentials(o.Credentials, t.Node)), handshake.DialOptions(o.Self, t.Node, t.Incarnation)...)
	conn, err := grpc.NewClient("passthrough:///"+t.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("node %s at %q: %w", t.Node, t.Address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &peer{
		target: t, options: o, waiting: waiting, conn: conn, cancel: cancel,
		ended: make(chan struct{}), wake: make(chan struct{}, 1),
		admit: deadline.New(o.AdmitTimeout, admitFactorMax*o.AdmitTimeout),
	}
	p.mu.queue.bytesLimit = o.DownQueueBytesMax
	p.mu.stats.Target = t
	go p.run(ctx)
	return p, nil
}

func (p *peer) close() {
	p.cancel()
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
	p.mu.queue.trim(0)
	p.countLocked()
}

// countLocked updates the count of bytes that wait for all peers.
func (p *peer) countLocked() {
	p.waiting.Add(int64(p.mu.queue.bytes - p.mu.counted))
	p.mu.counted = p.mu.queue.bytes
}

// limitLocked returns what may wait for a peer that is up when an envelope of some cost comes: no
// more than is left free for others, but for a queue that is short, or that has nothing else.
func (p *peer) limitLocked(cost int) int {
	left := p.options.OutboxBytesMax - p.waiting.Load() + int64(p.mu.queue.bytes)
	share := int(min(max(left, 0)/2, int64(p.options.QueueBytesMax)))
	least := p.options.DownQueueBytesMax
	if p.mu.queue.bytes == 0 {
		least = max(least, cost)
	}
	return min(max(share, least), p.options.QueueBytesMax)
}

func (p *peer) push(envelope []byte) {
	p.mu.Lock()
	if p.mu.closed { // since it was looked up: what it queued would count as waiting for ever
		p.mu.Unlock()
		return
	}
	if p.mu.stats.Up {
		p.mu.queue.bytesLimit = p.limitLocked(costOf(envelope))
	}
	p.mu.queue.push(envelope)
	p.countLocked()
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // somebody has said so already
	}
}

func (p *peer) stats() PeerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.mu.stats
	s.QueueBytes, s.DroppedEnvelopes = p.mu.queue.bytes, p.mu.queue.dropped
	return s
}

// run opens one stream after the other until the peer is closed.
func (p *peer) run(ctx context.Context) {
	defer close(p.ended)
	defer p.conn.Close()
	logged := ""
	for attempts := 1; ; attempts++ {
		admitted, err := p.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if admitted {
			attempts, logged = 1, ""
		}
		if text := err.Error(); text != logged {
			p.options.Logger.Warn("no stream to a node; trying again", "peer", p.target.Node, "address", p.target.Address, "error", text)
			logged = text
		}
		timer := time.NewTimer(p.options.Backoff.Delay(attempts))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// session opens a stream and sends until it is lost. Its error is never nil.
func (p *peer) session(ctx context.Context) (admitted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	known := p.options.Self().Entries
	stream, err := p.open(ctx, cancel)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		p.end(err)
		return false, err
	}
	p.begin()
	p.options.Up(p.target.Node)
	received := make(chan struct{})
	go func() { // the peer sends nothing but the end of the stream
		defer close(received)
		cancel(ended(stream))
	}()
	if err := p.send(ctx, stream, known); err != nil {
		cancel(err)
	}
	<-received
	err = context.Cause(ctx)
	p.end(err)
	p.options.Down(p.target.Node)
	return true, err
}

// admitFactorMax is how many times AdmitTimeout a slow peer is allowed at most.
const admitFactorMax = 6

// open opens a stream and waits until the peer lets this node in. A peer that took too
// long is allowed longer the next time.
func (p *peer) open(ctx context.Context, cancel context.CancelCauseFunc) (grpc.BidiStreamingClient[nodev1.ExchangeRequest, nodev1.ExchangeResponse], error) {
	limit, start := p.admit.Allowed(), time.Now()
	timer := time.AfterFunc(limit, func() {
		p.admit.Expired(limit)
		cancel(fmt.Errorf("%w: it did not answer in %v", series.ErrUnavailable, limit))
	})
	defer timer.Stop()
	stream, err := nodev1.NewNodeServiceClient(p.conn).Exchange(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := stream.Recv(); err != nil { // says that this node is let in, see Server.Exchange
		return nil, reason(err)
	}
	if !timer.Stop() {
		return nil, context.Cause(ctx)
	}
	p.admit.Took(time.Since(start))
	return stream, nil
}

// ended waits for the end of a stream and returns its reason.
func ended(stream grpc.BidiStreamingClient[nodev1.ExchangeRequest, nodev1.ExchangeResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return reason(err)
	}
	return fmt.Errorf("%w: a second answer to Exchange, which has one", wire.ErrInvalid)
}

// reason returns the error that a stream has ended with.
func reason(err error) error {
	if err == io.EOF { //nolint:errorlint // gRPC returns io.EOF itself
		return fmt.Errorf("%w: the peer has ended the stream", series.ErrUnavailable)
	}
	return wire.FromStatus(err)
}

// send empties the queue into the stream until the context or the stream ends; its
// error is nil when the receiving side has the reason. What waits goes as one
// message, what comes alone goes at once. The first message, and one in a while, tells
// this node's clock. The stream ends when this node does not know any more the same of kinds of entries as when the
// peer let it in: a peer that does not understand them must not get any.
func (p *peer) send(ctx context.Context, stream grpc.BidiStreamingClient[nodev1.ExchangeRequest, nodev1.ExchangeResponse], known handshake.Entries) error {
	var message nodev1.ExchangeRequest
	clocks := time.NewTicker(clockInterval)
	defer clocks.Stop()
	for tell := true; ; {
		if p.options.Self().Entries != known {
			return fmt.Errorf("%w: the data folder may have other kinds of entries from now on, so nodes introduce themselves again", series.ErrUnavailable)
		}
		p.take(&message)
		select {
		case <-clocks.C:
			tell = true
		default:
		}
		if len(message.Envelopes) == 0 && !tell {
			select {
			case <-p.wake:
				continue
			case <-clocks.C:
				tell = true
			case <-ctx.Done():
				return nil
			}
		}
		message.ClockMs, message.Forgets, message.Thins, message.Hours, message.Exemplars = nil, 0, 0, 0, 0
		if tell {
			now := p.options.Self().Entries
			message.Forgets, message.Thins, message.Hours, message.Exemplars = uint32(now.Forgets), uint32(now.Thins), uint32(now.Hours), uint32(now.Exemplars)
			message.ClockMs = proto.Int64(p.options.Clock().UnixMilli())
			tell = false
		}
		err := stream.SendMsg(exchangeMessage(&message))
		if err == io.EOF { //nolint:errorlint // gRPC returns io.EOF itself
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *peer) take(message *nodev1.ExchangeRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(message.Envelopes)
	message.Envelopes = p.mu.queue.take(message.Envelopes[:0], messageBytesMax)
	p.countLocked()
	for _, e := range message.Envelopes {
		p.mu.stats.SentBytes += uint64(len(e))
	}
	p.mu.stats.SentEnvelopes += uint64(len(message.Envelopes))
}

func (p *peer) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.stats.Up = true
	p.mu.stats.Streams++
}

func (p *peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.queue.bytesLimit = p.options.DownQueueBytesMax
	p.mu.queue.trim(p.options.DownQueueBytesMax)
	p.countLocked()
	p.mu.stats.Up = false
	p.mu.stats.LastError = err.Error()
}
