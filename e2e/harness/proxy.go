package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a proxied connection.
const (
	proxyChunkBytes  = 32 << 10
	proxyChunks      = 64 // that wait in one direction; then the sender is not read
	proxyDialTimeout = 5 * time.Second
)

// Proxy listens for one server and passes connections on to it as the network says.
type Proxy struct {
	network  *Network
	server   string
	client   string // who opens all connections; "": the kernel is asked for each
	listener net.Listener
	target   atomic.Pointer[string]
	running  sync.WaitGroup
}

// Listen opens a proxy for a server on a free port of the loopback interface. All
// its connections count as client's; with "" they count as those of the process that
// opened them, and one of a stranger is refused.
func (n *Network) Listen(client, server string) (*Proxy, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", server, err)
	}
	p := &Proxy{network: n, server: server, client: client, listener: listener}
	p.SetTarget("")
	p.running.Go(p.accept)
	return p, nil
}

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// SetTarget sets where the server listens now; "" refuses connections.
func (p *Proxy) SetTarget(address string) { p.target.Store(&address) }

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.network.mu.Lock()
	var ours []*proxied
	for conn := range p.network.mu.conns {
		if conn.proxy == p {
			ours = append(ours, conn)
		}
	}
	p.network.mu.Unlock()
	for _, conn := range ours {
		conn.reset()
	}
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // no file numbers left, for a while
			continue
		}
		p.running.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

// serve passes the bytes of one connection.
func (p *Proxy) serve(from *net.TCPConn) {
	conn := &proxied{proxy: p, client: p.client, server: p.server, from: from, ended: make(chan struct{})}
	if conn.client == "" {
		conn.client = p.owner(from)
	}
	conn.there = direction{from: conn.client, to: conn.server}
	conn.back = direction{from: conn.server, to: conn.client}
	if conn.client == "" || *p.target.Load() == "" || !p.network.enter(conn) {
		conn.reset()
		return
	}
	defer p.network.leave(conn)
	to, err := net.DialTimeout("tcp4", *p.target.Load(), proxyDialTimeout)
	if err != nil {
		conn.reset()
		return
	}
	if !conn.connected(to.(*net.TCPConn)) {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { conn.pass(&conn.there, conn.from, conn.to) })
	ways.Go(func() { conn.pass(&conn.back, conn.to, conn.from) })
	ways.Wait()
	conn.end(false)
}

// owner names the process that opened a connection.
func (p *Proxy) owner(conn *net.TCPConn) string {
	names := p.network.owners()
	pids := make([]int, 0, len(names))
	for pid := range names {
		pids = append(pids, pid)
	}
	from, fromErr := netip.ParseAddrPort(conn.RemoteAddr().String())
	to, toErr := netip.ParseAddrPort(conn.LocalAddr().String())
	if fromErr != nil || toErr != nil {
		return ""
	}
	if pid, ok := connectionOwner(from, to, pids); ok {
		return names[pid]
	}
	return ""
}

// proxied is one connection: from the client to the proxy, and on to the server.
type proxied struct {
	proxy          *Proxy
	client, server string
	from           *net.TCPConn
	there, back    direction
	ended          chan struct{}
	mu             sync.Mutex
	to             *net.TCPConn // under mu until connected
	closed         bool         // under mu
}

// direction is one of the two ways of a connection.
type direction struct {
	from, to string
	lost     atomic.Bool // bytes, or the end, were swallowed
}

// chunk is bytes on their way; none say that the sender has ended.
type chunk struct {
	bytes  []byte
	came   time.Time
	broken bool // the end came as an error
}

func (c *proxied) connected(to *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = to.Close()
		return false
	}
	c.to = to
	return true
}

// reset ends both sides at once, as a machine does that knows nothing of the
// connection.
func (c *proxied) reset() { c.end(true) }

// end closes both sides; what was written still arrives, unless it is abrupt.
func (c *proxied) end(abrupt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.ended)
	for _, side := range []*net.TCPConn{c.from, c.to} {
		if side == nil {
			continue
		}
		if abrupt {
			_ = side.SetLinger(0)
		}
		_ = side.Close()
	}
}

// pass reads from one side and writes to the other until either ends.
func (c *proxied) pass(d *direction, from io.Reader, to *net.TCPConn) {
	chunks := make(chan chunk, proxyChunks)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(chunks)
		for {
			buffer := make([]byte, proxyChunkBytes)
			n, err := from.Read(buffer)
			if n > 0 && !c.give(chunks, chunk{bytes: buffer[:n], came: time.Now()}) {
				return
			}
			if err != nil {
				c.give(chunks, chunk{came: time.Now(), broken: !errors.Is(err, io.EOF)})
				return
			}
		}
	})
	for piece := range chunks {
		if !c.deliver(d, piece, to) {
			break
		}
	}
	reading.Wait()
}

func (c *proxied) give(chunks chan<- chunk, piece chunk) bool {
	select {
	case chunks <- piece:
		return true
	case <-c.ended:
		return false
	}
}

// deliver does with bytes what the network says, when it says so. It returns false
// when the direction has ended, or the connection.
func (c *proxied) deliver(d *direction, piece chunk, to *net.TCPConn) bool {
	for {
		flow, changed := c.proxy.network.flow(d.from, d.to)
		switch {
		case flow.kind == flowSwallow:
			d.lost.Store(true)
			if flow, _ := c.proxy.network.flow(d.from, d.to); flow.kind != flowSwallow {
				c.reset() // it passes again, since just now
			}
			return len(piece.bytes) > 0
		case flow.kind == flowRefuse || d.lost.Load():
			c.reset()
			return false
		case flow.kind == flowPass && time.Since(piece.came) >= flow.delay:
			return c.write(piece, to)
		}
		var due <-chan time.Time
		if flow.kind == flowPass {
			due = time.After(time.Until(piece.came.Add(flow.delay)))
		}
		select {
		case <-due:
		case <-changed:
		case <-c.ended:
			return false
		}
	}
}

func (c *proxied) write(piece chunk, to *net.TCPConn) bool {
	if piece.broken {
		c.reset()
		return false
	}
	if len(piece.bytes) == 0 {
		_ = to.CloseWrite()
		return false
	}
	if _, err := to.Write(piece.bytes); err != nil {
		c.reset()
		return false
	}
	return true
}
