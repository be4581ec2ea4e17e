package transport

import (
	"net"
	"sync"
	"sync/atomic"
)

// Listener is a listener for a gRPC server that can be stopped. A gRPC server that stops waits for
// each connection that stands and has not begun to speak HTTP/2, until the time for handshakes is
// up; whoever connects and says nothing would hold it.
type Listener struct {
	net.Listener

	mu      sync.Mutex
	conns   map[*listenedConn]struct{}
	closing bool // who has said nothing is not waited for
	closed  bool // nor is anybody else
}

// NewListener returns a listener that accepts the connections of another.
func NewListener(l net.Listener) *Listener {
	return &Listener{Listener: l, conns: map[*listenedConn]struct{}{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &listenedConn{Conn: accepted, listener: l}
	l.mu.Lock()
	refused := l.closing || l.closed
	if !refused {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if refused {
		_ = c.Conn.Close() // its reader is told
	}
	return c, nil
}

// CloseSilent closes the connections from which nothing has come: no call is lost by that. It is to
// be called before GracefulStop.
func (l *Listener) CloseSilent() {
	l.closeAll(func() { l.closing = true }, func(c *listenedConn) bool { return !c.spoke.Load() })
}

// CloseConnections closes all connections. It is to be called before Stop.
func (l *Listener) CloseConnections() {
	l.closeAll(func() { l.closed = true }, func(*listenedConn) bool { return true })
}

func (l *Listener) closeAll(mark func(), which func(*listenedConn) bool) {
	l.mu.Lock()
	mark()
	var all []*listenedConn
	for c := range l.conns {
		if which(c) {
			all = append(all, c)
		}
	}
	l.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// listenedConn is a connection that its listener counts.
type listenedConn struct {
	net.Conn
	listener *Listener
	spoke    atomic.Bool // something was read
}

// Read implements net.Conn.
func (c *listenedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
	}
	return n, err
}

// Close implements net.Conn.
func (c *listenedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
