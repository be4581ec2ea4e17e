package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/router/parse"
)

// streams is what the connections of the put and line ports share.
type streams struct {
	base    context.Context //nolint:containedctx // ends when a drain's time is up
	options *Options
	workers *workers
	metrics *metrics
	room    *budget
	front   *front
	log     *limitedLog
	stats   func() string
	chunks  sync.Pool // of *[]byte, ChunkBytes and the parser's slack
}

func (s *streams) takeChunk() *[]byte {
	if b, ok := s.chunks.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, s.options.TCP.ChunkBytes+parserSlack)
	return &b
}

// stream is one connection of the put or line port. A waiting stream holds
// nothing but the start of an unfinished line.
type stream struct {
	*streams
	conn       *conn
	protocol   protocol
	replies    replies
	unfinished []byte
	insideLine bool // the rest of an over-long line is still to come
	text       []byte
	started    bool // the first byte has been seen
	leaving    bool // the client said exit
}

func (s *streams) serve(c *conn, p protocol) {
	c.busy() // a drain does not close it: it reads what has arrived
	st := &stream{streams: s, conn: c, protocol: p}
	st.replies = replies{conn: c, bytesMax: s.options.TCP.ReplyBytesMax, dropped: &s.metrics.drops[dropReply]}
	if st.run() {
		c.http.Store(true)
		c.state.Store(connIdle)
		s.front.serveConn(c)
		return
	}
	st.replies.finish()
}

// run reads chunk by chunk until the end, and says whether the connection turned
// out to speak HTTP.
func (s *stream) run() (isHTTP bool) {
	drainBytes := s.options.TCP.DrainBytesMax
	for {
		err := s.conn.waitReadable()
		draining := s.conn.listener.draining.Load()
		if err != nil && !(draining && errors.Is(err, errDeadline)) {
			return false
		}
		n, err := s.turn()
		if s.conn.http.Load() {
			return true
		}
		if draining {
			if drainBytes -= n; drainBytes <= 0 || errors.Is(err, errWouldBlock) {
				return false
			}
		}
		if (err != nil && !errors.Is(err, errWouldBlock)) || s.leaving || s.base.Err() != nil {
			return false
		}
		runtime.Gosched() // other connections first: a turn each
	}
}

// turn reads one chunk and writes it before it returns.
func (s *stream) turn() (n int, err error) {
	size := len(s.unfinished) + s.options.TCP.ChunkBytes + parserSlack
	for s.room.take(s.base, size) != nil {
		if s.base.Err() != nil {
			return 0, s.base.Err()
		}
	}
	defer s.room.giveBack(size)
	pooled := s.takeChunk()
	defer s.chunks.Put(pooled)
	buffer, start := *pooled, len(s.unfinished)
	if start > len(buffer)/2 {
		buffer = make([]byte, size)
	}
	n, err = s.conn.readNow(buffer[start : len(buffer)-parserSlack])
	fresh, ended := buffer[start:start+n], errors.Is(err, io.EOF)
	switch {
	case n == 0 && (!ended || start == 0):
		return n, err
	case n > 0 && s.isHTTP(fresh[0]):
		s.conn.prefix = slices.Clone(fresh)
		s.conn.http.Store(true)
		return n, nil
	}
	s.metrics.protocols[s.protocol].bytes.Add(int64(n))
	if !ended && start+n <= s.options.Limits.Line.LineBytesMax && bytes.IndexByte(fresh, '\n') < 0 {
		s.unfinished = append(s.unfinished, fresh...) // not parsed again and again
		return n, err
	}
	copy(buffer, s.unfinished)
	s.process(buffer[:start+n], ended)
	return n, err
}

// isHTTP looks at a put connection's first byte: no command begins with an
// upper-case letter and every HTTP method does (PipelineFactory.java of OpenTSDB).
func (s *stream) isHTTP(first byte) bool {
	started := s.started
	s.started = true
	return !started && s.protocol == protocolPutTCP && first >= 'A' && first <= 'Z'
}

// process parses a chunk, writes it and replies.
func (s *stream) process(chunk []byte, ended bool) {
	start := time.Now()
	w := s.workers.take()
	defer s.workers.rest(w)
	limits := s.options.Limits.Line
	var rest parse.Rest
	var err error
	if s.protocol == protocolPutTCP {
		rest, err = parse.Puts(&w.batch, chunk, parse.PutOptions{Limits: limits, Partial: !ended, InsideLine: s.insideLine})
	} else {
		rest, err = parse.Lines(&w.batch, chunk, parse.LineOptions{
			Limits: limits, Partial: !ended, InsideLine: s.insideLine,
			Precision: parse.PrecisionGuess, NowMs: s.options.Clock().UnixMilli(),
		})
	}
	if err != nil { // a chunk is never that large
		s.leaving = true
		return
	}
	s.insideLine = rest.InsideLine
	s.unfinished = append(s.unfinished[:0], chunk[rest.Consumed:]...)
	if len(s.unfinished) == 0 && cap(s.unfinished) > unfinishedBytesKept {
		s.unfinished = nil
	}
	pm := &s.metrics.protocols[s.protocol]
	r, err := s.writeUntilDone(w, s.options.TCP.RetryTimeout)
	pm.count(r)
	s.reply(&w.batch, r, err)
	pm.seconds.Observe(time.Since(start).Seconds())
}

const unfinishedBytesKept = 1 << 10

// writeUntilDone writes a batch and tries again, with growing delays, while the
// error is one that passes. An error means that the points are dropped.
func (s *streams) writeUntilDone(w *worker, timeout time.Duration) (result, error) {
	delay := s.options.TCP.RetryDelayMin
	var end time.Time
	for {
		r, err := w.write(nil, s.options.Limits.WriteTimeout)
		if err == nil {
			return r, nil
		}
		s.metrics.errors[errorKind(err)].Add(1)
		now := time.Now()
		if end.IsZero() {
			end = now.Add(timeout)
		}
		if !retryable(err) || !now.Before(end) || !sleep(s.base, min(delay, end.Sub(now))) {
			s.metrics.drops[dropWrite].Add(int64(r.failed))
			s.log.warn("points dropped: the storage did not take them", "points", r.failed, "error", err)
			return r, err
		}
		delay = min(2*delay, s.options.TCP.RetryDelayMax)
	}
}

// sleep waits; it is false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
