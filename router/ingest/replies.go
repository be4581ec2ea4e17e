package ingest

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// replies sends what a TCP connection is told without ever waiting for a client
// that does not read: what the socket does not take is held up to a bound, and
// then dropped and counted.
type replies struct {
	conn     *conn
	bytesMax int
	waiting  *waiting
	dropped  *atomic.Int64

	mu struct {
		sync.Mutex
		held    []byte
		sending bool // a goroutine empties held
	}
	sending sync.WaitGroup
}

// send queues whole lines.
func (r *replies) send(lines []byte) {
	if len(lines) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := false // the first line
	if !r.mu.sending {
		n, err := r.conn.writeNow(lines)
		begun = n > 0
		if err != nil && !errors.Is(err, errWouldBlock) {
			return // the client has gone; the next read sees it
		}
		if lines = lines[n:]; len(lines) == 0 {
			return
		}
	}
	if room := r.bytesMax - len(r.mu.held); len(lines) > room {
		kept := bytes.LastIndexByte(lines[:max(0, room)], '\n') + 1
		r.dropped.Add(int64(len(lines) - kept))
		lines = lines[:kept]
	}
	if !r.waiting.take(len(lines)) {
		kept := 0
		if begun { // its end must follow
			kept = bytes.IndexByte(lines, '\n') + 1
		}
		r.dropped.Add(int64(len(lines) - kept))
		r.waiting.used.Add(int64(kept))
		lines = lines[:kept]
	}
	if len(lines) == 0 {
		return
	}
	r.mu.held = append(r.mu.held, lines...)
	if !r.mu.sending {
		r.mu.sending = true
		r.sending.Add(1)
		go r.empty()
	}
}

// empty sends what is held, as fast as the client reads.
func (r *replies) empty() {
	defer r.sending.Done()
	var sending []byte
	for {
		r.mu.Lock()
		sending, r.mu.held = r.mu.held, nil
		if len(sending) == 0 {
			r.mu.sending = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		_, err := r.conn.Write(sending)
		r.waiting.giveBack(len(sending))
		if err != nil {
			r.mu.Lock()
			r.dropped.Add(int64(len(sending) + len(r.mu.held)))
			r.waiting.giveBack(len(r.mu.held))
			r.mu.held, r.mu.sending = nil, false
			r.mu.Unlock()
			return
		}
	}
}

// replyLinger is how long an ending connection waits for its client to read.
const replyLinger = 5 * time.Second

// finish sends what is held before the connection closes.
func (r *replies) finish() {
	_ = r.conn.SetWriteDeadline(time.Now().Add(replyLinger))
	r.sending.Wait()
}

// writeNow writes what the socket takes without waiting. TLS cannot: a record that
// was begun has to be ended.
func (c *conn) writeNow(p []byte) (n int, err error) {
	if c.secure != nil {
		return 0, errWouldBlock
	}
	errControl := c.raw.Control(func(fd uintptr) {
		for n < len(p) {
			var written int
			written, err = syscall.Write(int(fd), p[n:])
			switch {
			case err == nil:
				n += written
			case errors.Is(err, syscall.EINTR):
			case wouldBlock(err):
				err = errWouldBlock
				return
			default:
				return
			}
		}
	})
	if errControl != nil {
		return n, errControl
	}
	return n, err
}
