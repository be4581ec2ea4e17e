package ingest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// secureConn is TLS over a socket. One goroutine reads at a time. It can look whether
// there is something to read, and read what is there without waiting, as conn does
// with a bare socket.
type secureConn struct {
	*tls.Conn
	socket *quickSocket
	peek   [1]byte     // read ahead
	peeked atomic.Bool // it is not taken yet
	end    error       // how reading ended; nil: it has not
}

func newSecureConn(tcp *net.TCPConn, raw syscall.RawConn, config *tls.Config) *secureConn {
	socket := &quickSocket{TCPConn: tcp, raw: raw}
	return &secureConn{Conn: tls.Server(socket, config), socket: socket}
}

// quickSocket is the socket below TLS. While now is set it does not wait for input,
// but returns an error from which TLS recovers, as from a deadline.
type quickSocket struct {
	*net.TCPConn
	raw syscall.RawConn
	now bool
}

// Read reads what the socket holds, or waits for more.
func (q *quickSocket) Read(p []byte) (int, error) {
	if !q.now {
		return q.TCPConn.Read(p)
	}
	n, err := readRawNow(q.raw, p)
	if errors.Is(err, errWouldBlock) {
		return 0, notNowError{}
	}
	return n, err
}

// notNowError is errWouldBlock in the shape that crypto/tls takes for one that passes.
type notNowError struct{}

func (notNowError) Error() string        { return errWouldBlock.Error() }
func (notNowError) Timeout() bool        { return true }
func (notNowError) Temporary() bool      { return true }
func (notNowError) Is(target error) bool { return target == errWouldBlock }

// Read returns the byte that was read ahead first.
func (s *secureConn) Read(p []byte) (int, error) {
	if len(p) > 0 && s.peeked.Load() {
		p[0] = s.peek[0]
		s.peeked.Store(false)
		return 1, nil
	}
	if s.end != nil {
		return 0, s.end
	}
	return s.Conn.Read(p)
}

// waitReadable waits until there is something to read, the end included.
func (s *secureConn) waitReadable() error {
	if s.peeked.Load() || s.end != nil {
		return nil //nolint:nilerr // the end is for the reader
	}
	n, err := s.Conn.Read(s.peek[:])
	switch {
	case n > 0:
		s.peeked.Store(true)
	case errors.Is(err, errDeadline):
		return err
	default:
		s.end = err
	}
	return nil
}

// readNow reads what has arrived, without waiting.
func (s *secureConn) readNow(p []byte) (n int, err error) {
	s.socket.now = true
	defer func() { s.socket.now = false }()
	for n < len(p) && err == nil {
		var more int
		more, err = s.Read(p[n:])
		n += more
	}
	switch {
	case err == nil || n > 0 && errors.Is(err, errWouldBlock):
		return n, nil
	case errors.Is(err, errWouldBlock):
		return 0, errWouldBlock
	}
	s.end = err
	if n > 0 {
		return n, nil // the end comes next
	}
	return 0, err
}

// certificate returns the one that the client has shown and that was verified; nil: none.
func (c *conn) certificate() *x509.Certificate {
	if c.secure == nil {
		return nil
	}
	state := c.secure.ConnectionState()
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// handshakeTimeout bounds how long a client may take to agree on TLS.
const handshakeTimeout = 10 * time.Second

// shakeHands agrees on TLS, where there is to be TLS, and reports whether that worked. Who
// is refused is told by TLS, and the log says why.
func (l *listener) shakeHands(c *conn) bool {
	if c.secure == nil {
		return true
	}
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := c.secure.Handshake(); err != nil {
		l.metrics.unsafe.Add(1)
		if !errors.Is(err, io.EOF) && !l.draining.Load() { // a port that is only looked at is no news
			l.strange.Warn("a connection is refused: TLS", "client", c.RemoteAddr().String(), "error", err)
		}
		return false
	}
	l.metrics.accepted.Add(1)
	_ = c.SetDeadline(time.Time{}) // a drain that begins later sets its own
	return true
}
