package ingest

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/http1"
)

// Two servers speak HTTP on a connection: fasthttp takes points, net/http answers questions. Each
// request goes to its own as the client sent it. A server has the connection for as long as the
// requests are its own; in front of one of the other's, reading looks to it as if the client had
// closed the connection, and the other goes on with what has been read. For this the server of
// points never sees a byte of a question, and that of questions none behind the one it is at.
type httpServer uint8

const (
	points    httpServer = iota // it also answers what is no HTTP request
	questions                   // every path that is not a write
)

// border is the state of a connection between its servers. Only the goroutine that reads the
// connection uses it.
type border struct {
	server httpServer // that serves now
	next   httpServer // whose the request is that is being read, or was read last
	read   []byte     // bytes of that request that were examined and are to be read by its server
	err    error      // how reading ended behind them

	isPoints    func(start []byte) bool // of a request
	readTimeout time.Duration           // of a request whose start has come
	headerMax   int
}

// Read reads for the server of points. What it returns has been checked, and the end of the
// connection in the middle of a request is io.ErrUnexpectedEOF. Errors are *http1.Error, too.
func (c *conn) Read(p []byte) (int, error) { return c.readFor(points, p) }

// Close closes the connection unless it goes on with the other server.
func (c *conn) Close() error {
	if c.isHandedOver() {
		return nil
	}
	if len(c.prefix) > 0 || c.hasInput() { // of a client that sends on behind the last answer, as it cannot know in a drain
		c.linger.Store(true)
	}
	return c.shut()
}

// isHandedOver reports whether the next request is the other server's.
func (c *conn) isHandedOver() bool { return c.border.next != c.border.server }

// readFor reads for a server.
func (c *conn) readFor(s httpServer, p []byte) (n int, err error) {
	for b := &c.border; n == 0 && err == nil && len(p) > 0; {
		switch {
		case b.next != s:
			return 0, io.EOF
		case len(b.read) > 0:
			n = copy(p, b.read)
			if b.read = b.read[n:]; len(b.read) == 0 {
				b.read = nil
			}
		case b.err != nil:
			return 0, b.err
		case c.checker.Unfinished():
			if n, err = c.readChecked(p); s == points && err == nil {
				n = c.readMorePoints(p, n)
			}
		default:
			n, err = c.readNext(s, p)
		}
	}
	return n, err
}

// readNext reads the next request until it is known whose it is. If that is s, it returns what has
// come; else that is kept.
func (c *conn) readNext(s httpServer, p []byte) (int, error) {
	b, before := &c.border, c.checker.Requests()
	var start []byte
	for {
		n, err := c.readChecked(p)
		var refused *http1.Error
		if n == 0 && len(start) == 0 && err != nil && !errors.As(err, &refused) {
			return 0, err // there is no further request
		}
		if len(start) == 0 {
			c.busy()
			if s == points && err == nil && b.isPoints(p[:n]) {
				return c.readMorePoints(p, n), nil
			}
			_ = c.SetReadDeadline(time.Now().Add(b.readTimeout))
		}
		start = append(start, p[:n]...)
		whole := c.checker.Requests() > before
		switch {
		case whole && !b.isPoints(start): // till then it may turn out to be no HTTP, which the server of points answers
			b.next = questions
			start = bytes.TrimLeft(start, "\r\n") // net/http takes empty lines before a request behind a POST only
		case whole, err != nil, b.isPoints(start), len(start) > b.headerMax:
			b.next = points
		default:
			continue
		}
		b.read, b.err = start, err
		return 0, nil
	}
}

// readChecked reads and checks, not beyond the end of a request.
func (c *conn) readChecked(p []byte) (n int, err error) {
	if err := c.checker.Err(); err != nil {
		return 0, err
	}
	var examined int
	if len(c.prefix) > 0 {
		return c.takePrefix(p), c.checker.Err()
	}
	came, err := c.readSocket(p)
	examined, n = c.checker.CheckOne(p[:came])
	if examined < came && c.checker.Err() == nil {
		c.prefix = slices.Clone(p[examined:came])
	}
	if err == nil {
		return n, c.checker.Err()
	}
	if errors.Is(err, io.EOF) && c.checker.Unfinished() {
		c.cut, err = true, io.ErrUnexpectedEOF
	}
	return n, err
}

// takePrefix checks what was read before, to the end of a request.
func (c *conn) takePrefix(p []byte) (n int) {
	examined, n := c.checker.CheckOne(p[:copy(p, c.prefix)])
	if c.prefix = c.prefix[examined:]; len(c.prefix) == 0 {
		c.prefix = nil
	}
	return n
}

// readMorePoints reads the requests that came behind n bytes of points, if they are points, too:
// fasthttp answers those together that it has together. Of what is refused nothing is examined any more.
func (c *conn) readMorePoints(p []byte, n int) int {
	for n < len(p) && len(c.prefix) > 0 && c.checker.Err() == nil && !c.checker.Unfinished() && c.border.isPoints(c.prefix) {
		n += c.takePrefix(p[n:])
	}
	return n
}

// isPoints reports whether the start of a request shows that it is one of the server of points.
// Such are writes, and what net/http would refuse without a word.
func (f *front) isPoints(start []byte) bool {
	line, _, whole := bytes.Cut(bytes.TrimLeft(start, "\r\n"), []byte("\n"))
	if !whole {
		return false
	}
	_, target, _ := bytes.Cut(line, []byte(" "))
	target, _, _ = bytes.Cut(target, []byte(" "))
	path, _, _ := bytes.Cut(target, []byte("?"))
	if f.dialects[string(path)] != nil {
		return true
	}
	if bytes.HasPrefix(path, []byte("/")) && !bytes.ContainsAny(path, "%.#") && !bytes.Contains(path, []byte("//")) &&
		!bytes.HasPrefix(path, []byte(databasePrefix)) {
		return false
	}
	if _, err := url.ParseRequestURI(string(target)); err != nil {
		return true
	}
	var u fasthttp.URI // which normalises the path
	if u.Parse(nil, target) != nil {
		return true
	}
	if original := u.PathOriginal(); bytes.HasPrefix(original, []byte(databasePrefix)) {
		if _, rest, err := splitDatabase(original); err == nil {
			u.SetPathBytes(rest)
		}
	}
	return f.dialects[string(u.Path())] != nil
}

// serveConn serves a connection until it ends. It waits for the first byte
// itself, as servers count a connection as busy from its start.
func (f *front) serveConn(c *conn) {
	c.border.isPoints, c.border.readTimeout, c.border.headerMax = f.isPoints, f.options.Limits.HTTPReadTimeout, f.options.Limits.HTTPHeaderBytesMax
	if len(c.prefix) == 0 {
		_ = c.SetReadDeadline(time.Now().Add(f.options.Limits.HTTPIdleTimeout))
		if c.waitReadable() != nil {
			return
		}
	}
	for {
		if c.border.server = c.border.next; c.border.server == points {
			_ = f.server.ServeConn(c) // its errors concern this connection alone
		} else {
			f.asked.serve(c)
		}
		if !c.isHandedOver() {
			return
		}
	}
}

// questionConn is a connection as net/http sees it.
type questionConn struct {
	*conn
	answerTimeout time.Duration
	answering     atomic.Bool   // a request is with its handler
	ended         chan struct{} // closed when net/http is done with the connection
}

// Read reads for the server of questions. While a request is being answered net/http only looks
// whether the client has hung up.
func (c *questionConn) Read(p []byte) (int, error) {
	b := &c.border
	if !c.answering.Load() || b.next != questions || len(b.read) > 0 || b.err != nil || c.checker.Unfinished() {
		return c.readFor(questions, p)
	}
	if err := c.awaitHangUp(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// Write sends a piece of an answer, each with a deadline of its own.
func (c *questionConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.answerTimeout))
	return c.Conn.Write(p)
}
