package command

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/net/netutil"

	"github.com/tickmesh/tickmesh/api/http1"
)

// Bounds of the HTTP port.
const (
	connectionsMax = 1024
	headerTimeout  = 10 * time.Second // of the handshake, too
	headerBytesMax = 32 << 10
	// lineBytesMax lets net/http, which has its own bound of the whole header, be the first to
	// refuse what is too long: it says so with 431.
	lineBytesMax = headerBytesMax + 8<<10
)

// checkedListener accepts connections whose input http1.Checker has checked, up to
// connectionsMax at a time: net/http takes folded fields, lines that end in LF, and
// Content-Length beside Transfer-Encoding. It speaks HTTP/1.1 only, over TLS where secure is not nil.
type checkedListener struct{ net.Listener }

func newCheckedListener(l net.Listener, secure *tls.Config) net.Listener {
	l = netutil.LimitListener(l, connectionsMax)
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = []string{"http/1.1"} // the checker reads no other
		l = tls.NewListener(l, secure)
	}
	return checkedListener{l}
}

// Accept implements net.Listener.
func (l checkedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	checked := &checkedConn{Conn: c, checker: http1.NewChecker(lineBytesMax)}
	if over, ok := c.(*tls.Conn); ok {
		return secureConn{checked, over}, nil
	}
	return checked, nil
}

// checkedConn is a connection that hands on only what http1.Checker lets pass.
type checkedConn struct {
	net.Conn
	checker http1.Checker
}

// Read implements net.Conn. Errors are *http1.Error, too, and io.ErrUnexpectedEOF where the
// connection ends in the middle of a request.
func (c *checkedConn) Read(p []byte) (int, error) {
	for {
		if err := c.checker.Err(); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		passed := c.checker.Check(p[:n])
		if errors.Is(err, io.EOF) && c.checker.Unfinished() {
			err = io.ErrUnexpectedEOF
		}
		if passed > 0 || err != nil || len(p) == 0 {
			return passed, err
		}
	}
}

// secureConn is a checkedConn over TLS. Its state tells net/http of the client's certificate.
type secureConn struct {
	*checkedConn
	over *tls.Conn
}

// ConnectionState returns the state of TLS after the handshake, for which it waits no longer than
// headerTimeout. Where the handshake fails, so does each Read.
func (c secureConn) ConnectionState() tls.ConnectionState {
	ctx, cancel := context.WithTimeout(context.Background(), headerTimeout)
	defer cancel()
	_ = c.over.HandshakeContext(ctx)
	return c.over.ConnectionState()
}
