package process

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/tickmesh/tickmesh/api/http1"
)

// Bounds of a port that is for those who watch or manage a process, not for clients.
const (
	connectionsMax = 1024
	headerTimeout  = 10 * time.Second // of the handshake, too
	readTimeout    = 30 * time.Second // of requests, none of which has a body that counts
	idleTimeout    = 2 * time.Minute
	headerBytesMax = 32 << 10
	// lineBytesMax is so large that net/http, which has its own bound of the whole header, is the first to
	// refuse what is too long: it says so with 431.
	lineBytesMax = headerBytesMax + 8<<10
	// httpClosingMax is how long requests that run may take to end after their contexts, so that
	// the audit log hears how they ended.
	httpClosingMax = time.Second
)

// HTTPServer serves a port for those who watch or manage a process.
type HTTPServer struct {
	server *http.Server
	failed chan error
}

// ServeHTTP serves what comes to a listener until Close, over TLS where secure is not nil. The
// contexts of requests end with ctx.
func ServeHTTP(ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, logger *slog.Logger) *HTTPServer {
	s := &HTTPServer{failed: make(chan error, 1), server: &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler:     handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}}
	go func() { s.failed <- s.server.Serve(newCheckedListener(l, secure)) }()
	return s
}

// Failed returns the channel that gets, once, the reason why nothing is served any more.
func (s *HTTPServer) Failed() <-chan error { return s.failed }

// Close ends the server. The contexts of its requests have ended, or it waits no longer than a
// second for them.
func (s *HTTPServer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), httpClosingMax)
	defer cancel()
	if s.server.Shutdown(ctx) == nil {
		return nil
	}
	return s.server.Close()
}

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
