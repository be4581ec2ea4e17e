package etcdstore

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is the network between one process and etcd. While it is cut, bytes stay
// where they are, and arrive late when it is joined again.
type proxy struct {
	listener net.Listener
	mu       struct {
		sync.Mutex
		target string
		joined chan struct{} // closed: bytes pass
		open   map[net.Conn]bool
		closed bool
	}
}

func newProxy(t testing.TB, target string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener}
	p.mu.target, p.mu.open, p.mu.joined = target, map[net.Conn]bool{}, make(chan struct{})
	close(p.mu.joined)
	go p.serve()
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.forward(in)
	}
}

func (p *proxy) forward(in net.Conn) {
	<-p.gate()
	p.mu.Lock()
	target := p.mu.target
	p.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		in.Close()
		return
	}
	if !p.track(in) || !p.track(out) {
		return
	}
	go p.copy(in, out)
	p.copy(out, in)
}

func (p *proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		c.Close()
		return false
	}
	p.mu.open[c] = true
	return true
}

func (p *proxy) copy(to io.WriteCloser, from io.ReadCloser) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		<-p.gate()
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) gate() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.joined
}

// setReachable cuts or joins.
func (p *proxy) setReachable(reachable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.mu.joined:
		if !reachable {
			p.mu.joined = make(chan struct{})
		}
	default:
		if reachable {
			close(p.mu.joined)
		}
	}
}

// aim leads new connections to another server.
func (p *proxy) aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.target = target
}

// drop ends the open connections.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.open {
		c.Close()
		delete(p.mu.open, c)
	}
}

func (p *proxy) close() {
	p.setReachable(true)
	p.listener.Close()
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.drop()
}
