package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/limitedlog"
)

// listener accepts the connections of one port, bounds their number and knows
// each of them.
type listener struct {
	port    port
	socket  *net.TCPListener
	max     int
	tls     *tls.Config // nil: without TLS
	refusal []byte      // what a connection beyond max is told
	serve   func(*conn)
	metrics *portMetrics
	log     *slog.Logger
	strange *limitedlog.Log // of handshakes that fail
	period  time.Duration   // of TCP keep-alive
	// headerBytesMax bounds a line of a request's header.
	headerBytesMax int
	draining       atomic.Bool
	refusing       chan struct{} // bounds the refusals under way

	mu struct {
		sync.Mutex
		conns map[*conn]struct{}
	}
	running sync.WaitGroup // the accept loop, connections and refusals
}

func listen(p port, address string, o *Options, m *metrics) (*listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w", portNames[p], err)
	}
	l := &listener{
		port: p, socket: socket.(*net.TCPListener), max: o.Limits.ConnectionsMax, metrics: &m.ports[p],
		log: o.Logger.With("port", portNames[p]), period: o.TCP.KeepAlivePeriod, tls: o.TLS,
		refusing: make(chan struct{}, refusalsMax), headerBytesMax: o.Limits.HTTPHeaderBytesMax,
	}
	l.strange = &limitedlog.Log{Logger: l.log, Clock: o.Clock}
	l.mu.conns = make(map[*conn]struct{})
	return l, nil
}

const (
	refusalsMax    = 64 // being told at once; more are closed without a word
	acceptDelayMin = 5 * time.Millisecond
	acceptDelayMax = time.Second
)

// start accepts until the socket is closed.
func (l *listener) start() {
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		l.acceptAll()
	}()
}

func (l *listener) acceptAll() {
	retry, failures := backoff.Exponential{Min: acceptDelayMin, Max: acceptDelayMax}, 0
	for {
		c, err := l.socket.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, or the client has gone
			failures++
			delay := retry.Delay(failures)
			l.log.Warn("cannot accept a connection", "error", err, "next_try_in", delay)
			time.Sleep(delay)
			continue
		}
		failures = 0
		l.admit(c)
	}
}

func (l *listener) admit(tcp *net.TCPConn) {
	_ = tcp.SetKeepAlivePeriod(l.period) // a socket without it still works
	c, err := newConn(tcp, l)
	if err != nil {
		_ = tcp.Close()
		return
	}
	l.mu.Lock()
	full := len(l.mu.conns) >= l.max
	if !full {
		l.mu.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if full {
		l.refuse(c)
		return
	}
	if c.secure == nil {
		l.metrics.accepted.Add(1)
	}
	l.metrics.open.Add(1)
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		defer l.forget(c)
		if l.shakeHands(c) && !l.draining.Load() { // else drain has not seen this connection
			l.serve(c)
		}
	}()
}

func (l *listener) forget(c *conn) {
	c.state.Store(connClosed)
	_ = c.shut()
	l.metrics.open.Add(-1)
	l.mu.Lock()
	delete(l.mu.conns, c)
	l.mu.Unlock()
}

// refuse answers a connection beyond the bound.
func (l *listener) refuse(c *conn) {
	l.metrics.refused.Add(1)
	if c.secure != nil { // it would take a handshake to say something
		_ = c.tcp.Close()
		return
	}
	select {
	case l.refusing <- struct{}{}:
	default:
		_ = c.shut()
		return
	}
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		defer func() { <-l.refusing }()
		defer func() { _ = c.shut() }()
		_ = c.SetWriteDeadline(time.Now().Add(lingerTimeout))
		if _, err := c.tcp.Write(l.refusal); err == nil {
			c.linger.Store(true)
		}
	}()
}

// drain stops accepting and closes idle connections. Those of the TCP
// ports are woken to read what has arrived.
func (l *listener) drain() {
	l.draining.Store(true)
	_ = l.socket.Close()
	for _, c := range l.connections() {
		c.closeIdle()
		if l.port != portHTTP && !c.http.Load() {
			_ = c.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

func (l *listener) connections() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*conn, 0, len(l.mu.conns))
	for c := range l.mu.conns {
		all = append(all, c)
	}
	return all
}

// wait waits until every connection has ended, and closes those that are left
// when ctx ends. Requests that go on all the same are waited for until abandon ends.
func (l *listener) wait(ctx, abandon context.Context) error {
	ended := make(chan struct{})
	go func() {
		l.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	left := l.connections()
	for _, c := range left {
		_ = c.tcp.Close()
	}
	select {
	case <-ended:
	case <-abandon.Done():
		return fmt.Errorf("%s listener: %w: %w", portNames[l.port], ErrAbandoned, context.Cause(ctx))
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%s listener: %d connections closed in the middle of their work: %w", portNames[l.port], len(left), context.Cause(ctx))
}
