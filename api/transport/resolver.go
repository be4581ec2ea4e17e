package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// A name server that is asked by UDP and does not answer is asked again so often and so
// many times, each time from another port. Where its address stands for several, as that
// of a cluster's name service, a port is what chooses one of them, and one whose machine
// was lost would be asked until somebody has noticed.
const (
	askAgainAfter = 200 * time.Millisecond
	asksMax       = 12
)

// answerBytesMax is the largest answer over UDP; a longer one is asked for by TCP.
const answerBytesMax = 4096

// NewResolver makes a resolver that does as the system says (resolv.conf), and does not
// let a name server that has just been lost hold it up: without it a connection to a node
// by its name may take half a minute then, as each of the questions that a name takes is
// given up after seconds only. Programs set net.DefaultResolver to it before they do
// anything else, so that all that resolves names has it: gRPC, etcd's client and etcd.
func NewResolver() *net.Resolver { return newResolver(new(net.Dialer).DialContext) }

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newResolver(dial dialFunc) *net.Resolver {
	return &net.Resolver{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasPrefix(network, "udp") {
			return dial(ctx, network, address)
		}
		first, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		packets, ok := first.(net.PacketConn)
		if !ok {
			return first, nil
		}
		ctx, end := context.WithCancel(context.WithoutCancel(ctx))
		return &asker{
			PacketConn: packets, first: first, answers: make(chan answer, asksMax), ctx: ctx, end: end,
			dial: func() (net.Conn, error) { return dial(ctx, network, address) },
		}, nil
	}}
}

// asker is a connection to a name server that sends what was written last again and again
// until something is read, and takes the answer that comes first. Go's resolver writes
// one question and reads until the answer to it, by one goroutine, and then closes; it
// takes the connection for one of packets because it is a net.PacketConn.
type asker struct {
	net.PacketConn // of first
	first          net.Conn
	dial           func() (net.Conn, error)
	answers        chan answer // has room for one of each socket
	ctx            context.Context
	end            context.CancelFunc
	running        sync.WaitGroup

	mu struct {
		sync.Mutex
		deadline time.Time
		waiting  int // sockets that may still bring an answer
	}
}

// answer is what a socket has brought, or why it brings nothing.
type answer struct {
	packet []byte
	err    error
}

// Write sends a question, and begins to repeat it.
func (a *asker) Write(question []byte) (int, error) {
	n, err := a.first.Write(question)
	if err != nil {
		return n, err
	}
	a.receive(a.first)
	kept := append([]byte(nil), question...)
	a.running.Go(func() { a.repeat(kept) })
	return n, nil
}

// repeat asks again until the connection is closed.
func (a *asker) repeat(question []byte) {
	for range asksMax - 1 {
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(askAgainAfter):
		}
		conn, err := a.dial()
		if err != nil {
			continue // the next one may do better; the reader has a deadline
		}
		if _, err := conn.Write(question); err != nil {
			_ = conn.Close() // nothing was sent
			continue
		}
		a.receive(conn)
	}
}

// receive reads one answer from a socket, and closes it then or when the connection is
// closed.
func (a *asker) receive(conn net.Conn) {
	a.mu.Lock()
	a.mu.waiting++
	a.mu.Unlock()
	stop := context.AfterFunc(a.ctx, func() { _ = conn.Close() }) // ends the reading
	a.running.Go(func() {
		defer func() {
			if stop() {
				_ = conn.Close() // it has nothing to say any more
			}
		}()
		packet := make([]byte, answerBytesMax)
		n, err := conn.Read(packet)
		a.answers <- answer{packet[:n], err}
	})
}

// Read returns the answer that comes next. It fails at once when nobody listens at any of
// the sockets that have asked. Errors: os.ErrDeadlineExceeded, net.ErrClosed, those of a
// socket.
func (a *asker) Read(into []byte) (int, error) {
	a.mu.Lock()
	deadline := a.mu.deadline
	a.mu.Unlock()
	var late <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case answer := <-a.answers:
			a.mu.Lock()
			a.mu.waiting--
			last := a.mu.waiting == 0
			a.mu.Unlock()
			if answer.err == nil || last {
				return copy(into, answer.packet), answer.err
			}
		case <-late:
			return 0, os.ErrDeadlineExceeded
		case <-a.ctx.Done():
			return 0, net.ErrClosed
		}
	}
}

// Close ends all questions, and returns when nothing of them is left.
func (a *asker) Close() error {
	a.end()
	err := a.first.Close()
	a.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// RemoteAddr is the name server's address.
func (a *asker) RemoteAddr() net.Addr { return a.first.RemoteAddr() }

// SetDeadline bounds Read.
func (a *asker) SetDeadline(t time.Time) error {
	a.mu.Lock()
	a.mu.deadline = t
	a.mu.Unlock()
	return nil
}

// SetReadDeadline bounds Read.
func (a *asker) SetReadDeadline(t time.Time) error { return a.SetDeadline(t) }

// SetWriteDeadline does nothing: packets are not waited for.
func (a *asker) SetWriteDeadline(time.Time) error { return nil }
