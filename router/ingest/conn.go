package ingest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/api/http1"
)

// A connection is idle when nothing of a request has been read, so that closing
// it loses nothing that the server has begun.
const (
	connIdle int32 = iota
	connBusy
	connClosed
)

// conn is an accepted TCP connection. Its listener closes it when it is idle in
// a drain.
type conn struct {
	net.Conn // what is read and written: the socket, or TLS over it
	tcp      *net.TCPConn
	raw      syscall.RawConn
	secure   *secureConn // nil: without TLS
	listener *listener
	state    atomic.Int32
	http     atomic.Bool   // speaks HTTP on the put port
	linger   atomic.Bool   // the client may still be sending what nobody reads
	prefix   []byte        // read and not examined: by the put port before it saw that this is HTTP, or behind a request
	checker  http1.Checker // of what is read as HTTP
	cut      bool          // the client has gone in the middle of a request
	border   border
}

func newConn(tcp *net.TCPConn, l *listener) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: tcp, tcp: tcp, raw: raw, listener: l, checker: http1.NewChecker(l.headerBytesMax)}
	if l.tls != nil {
		c.secure = newSecureConn(tcp, raw, l.tls)
		c.Conn = c.secure
	}
	return c, nil
}

// readSocket reads what the client sends. In a drain an idle connection that has nothing to
// read looks as if its client had closed it, so that no new request begins.
func (c *conn) readSocket(p []byte) (int, error) {
	if c.state.Load() == connIdle && c.listener.draining.Load() && !c.hasInput() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

// Bounds of a lingering close.
const (
	lingerTimeout  = time.Second
	lingerBytesMax = 32 << 20
)

// shut closes the connection. A client that may still be sending gets the time
// to read its answer: closing a socket that holds unread bytes discards what was
// sent to the client.
func (c *conn) shut() error {
	if c.linger.Swap(false) && c.closeWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
		_, _ = io.CopyN(io.Discard, c.tcp, lingerBytesMax)
	}
	return c.Conn.Close()
}

func (c *conn) closeWrite() error {
	if c.secure != nil {
		if err := c.secure.CloseWrite(); err != nil {
			return err
		}
	}
	return c.tcp.CloseWrite()
}

// busy notes that a request has begun, unless a drain came first.
func (c *conn) busy() { c.state.CompareAndSwap(connIdle, connBusy) }

// idle notes that the last request has been answered, unless the next one has begun to come.
func (c *conn) idle() {
	if len(c.prefix) == 0 {
		c.state.CompareAndSwap(connBusy, connIdle)
	}
}

// hasInput reports whether the connection holds something to read.
func (c *conn) hasInput() (has bool) {
	if c.secure != nil && c.secure.peeked.Load() {
		return true
	}
	_ = c.raw.Control(func(fd uintptr) {
		n, err := peekSocket(fd)
		has = err == nil && n > 0
	})
	return has
}

// closeIdle closes the connection if it is idle. A request that has arrived is
// served.
func (c *conn) closeIdle() {
	if !c.hasInput() && c.state.CompareAndSwap(connIdle, connClosed) {
		_ = c.shut()
	}
}

// errWouldBlock: the socket has nothing to read now.
var errWouldBlock = errors.New("nothing to read now")

// readNow reads what the socket holds, without waiting.
func (c *conn) readNow(p []byte) (n int, err error) {
	if c.secure != nil {
		return c.secure.readNow(p)
	}
	return readRawNow(c.raw, p)
}

func readRawNow(raw syscall.RawConn, p []byte) (n int, err error) {
	if errControl := raw.Control(func(fd uintptr) { n, err = readNow(fd, p) }); errControl != nil {
		return 0, errControl
	}
	return n, err
}

// readNow reads once; at the end of the stream the error is io.EOF.
func readNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, errWouldBlock
		default:
			return 0, err
		}
	}
}

// waitReadable waits until there is something to read, the end included.
func (c *conn) waitReadable() error {
	if c.secure != nil {
		return c.secure.waitReadable()
	}
	return c.raw.Read(func(fd uintptr) bool {
		_, err := peekSocket(fd)
		return err == nil || !wouldBlock(err)
	})
}

func wouldBlock(err error) bool { return errors.Is(err, syscall.EAGAIN) }

// errDeadline is what a read returns once its deadline has passed.
var errDeadline = os.ErrDeadlineExceeded

// peekSocket looks at the next byte without taking it.
func peekSocket(fd uintptr) (n int, err error) {
	var b [1]byte
	for {
		n, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
