package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/limitedlog"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// streams is what the connections of the TCP ports share.
type streams struct {
	base    context.Context
	options *Options
	workers *workers
	metrics *metrics
	budget  *budget.Pool
	waiting *waiting
	front   *front
	log     *limitedlog.Log
	stats   func() string
	targets [protocols]target // of the ports without a way to name a database
	chunks  sync.Pool         // of *[]byte, ChunkBytes and the parser's slack
}

func (s *streams) takeChunk() *[]byte {
	if b, ok := s.chunks.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, s.options.TCP.ChunkBytes+parserSlack)
	return &b
}

// stream is one connection of a TCP port. A waiting stream holds
// nothing but the start of an unfinished line, or frame of pickles.
type stream struct {
	*streams
	conn       *conn
	lease      budget.Lease // of the chunk that is being read and written
	protocol   protocol
	principal  access.Principal // nil: not known yet
	replies    replies
	unfinished []byte
	waits      int  // bytes of unfinished that are charged to waiting
	insideLine bool // the rest of an over-long line is still to come
	text       []byte
	started    bool // the first byte has been seen
	leaving    bool // the client said exit, or is not listened to any more
	content    graphiteContent
}

func (s *streams) serve(c *conn, p protocol) {
	c.busy() // a drain does not close it: it reads what has arrived
	st := &stream{streams: s, conn: c, protocol: p, lease: s.budget.Lease(budget.Owner{Address: budget.AddressOf(c.RemoteAddr())})}
	st.replies = replies{conn: c, bytesMax: s.options.TCP.ReplyBytesMax, waiting: s.waiting, dropped: &s.metrics.drops[dropReply]}
	st.begin()
	isHTTP := st.run()
	st.dropUnended()
	s.waiting.giveBack(st.waits)
	if isHTTP {
		c.http.Store(true)
		c.state.Store(connIdle)
		s.front.serveConn(c)
		return
	}
	st.replies.finish()
	if st.leaving {
		c.linger.Store(true) // what follows exit is not read
	}
}

// run reads chunk by chunk until the end, and reports whether the connection turned
// out to speak HTTP.
func (s *stream) run() (isHTTP bool) {
	drainBytes := s.options.TCP.DrainBytesMax
	for {
		var err error
		if !s.hasFrames() {
			err = s.conn.waitReadable()
		}
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
		s.slow()
		runtime.Gosched() // other connections first: a turn each
	}
}

// slowStep bounds how long a drain waits for a connection that is being slowed.
const slowStep = 100 * time.Millisecond

// slow waits while the port's database is ahead of its rate: what is not read slows the
// client. In a drain it does not, as what has arrived is to be written.
func (s *stream) slow() {
	account := s.targets[s.protocol].account
	for ahead := account.Ahead(); ahead > 0 && s.base.Err() == nil && !s.conn.listener.draining.Load(); ahead = account.Ahead() {
		sleep(s.base, min(ahead, slowStep))
	}
}

// turn reads one chunk and writes it before it returns.
func (s *stream) turn() (n int, err error) {
	size := len(s.unfinished) + s.options.TCP.ChunkBytes + parserSlack
	for s.lease.Acquire(s.base, int64(size+s.pickleWorkBytes())) != nil {
		if s.base.Err() != nil {
			return 0, s.base.Err()
		}
		sleep(s.base, s.options.TCP.RetryDelayMin) // too many wait
	}
	defer s.lease.Close()
	pooled := s.takeChunk()
	defer s.chunks.Put(pooled)
	buffer, start := *pooled, len(s.unfinished)
	if start > len(buffer)/2 {
		buffer = make([]byte, size)
	}
	n, err = s.conn.readNow(buffer[start : len(buffer)-parserSlack])
	fresh := buffer[start : start+n]
	switch {
	case n == 0 && s.hasFrames():
		s.processPickles(buffer, nil)
		s.wait()
		return n, err
	case n == 0:
		return n, err
	case s.isHTTP(fresh[0]):
		s.conn.prefix = slices.Clone(fresh)
		s.conn.http.Store(true)
		return n, nil
	}
	s.metrics.protocols[s.protocol].bytes.Add(int64(n))
	if s.principal == nil {
		copy(buffer, s.unfinished)
		s.introduce(buffer[:start+n])
		return n, err
	}
	switch {
	case s.sendsPickles(fresh):
		s.processPickles(buffer, fresh)
	case !s.insideLine && start+n <= s.options.Limits.Line.LineBytesMax && bytes.IndexByte(fresh, '\n') < 0:
		s.unfinished = append(s.unfinished, fresh...) // not parsed again and again
	default:
		copy(buffer, s.unfinished)
		s.process(buffer[:start+n])
	}
	s.wait()
	return n, err
}

// wait charges an unfinished line that is a long one to what all connections hold.
// Where there is no room for it, it is refused as an over-long one.
func (s *stream) wait() {
	s.waiting.giveBack(s.waits)
	s.waits = len(s.unfinished)
	if s.waits <= unfinishedBytesKept {
		s.waits = 0
	}
	if s.waiting.take(s.waits) {
		return
	}
	s.waits, s.unfinished = 0, nil
	if s.insideLine {
		return // it has been refused before
	}
	s.insideLine = true
	s.leaving = s.content == graphitePickles // where the next frame begins is not known
	s.metrics.protocols[s.protocol].refused.Add(1)
	s.tell("put: Please throttle writes: ", "too many unfinished lines of more than "+strconv.Itoa(unfinishedBytesKept)+" bytes")
}

// isHTTP looks at a put connection's first byte: no command begins with an
// upper-case letter and every HTTP method does (PipelineFactory.java of OpenTSDB).
func (s *stream) isHTTP(first byte) bool {
	started := s.started
	s.started = true
	return !started && s.protocol == protocolPutTCP && first >= 'A' && first <= 'Z'
}

// dropUnended drops a line that has no end when its connection has: nobody knows whether the
// rest of a number is missing. The client is told, if it still listens.
func (s *stream) dropUnended() {
	if s.leaving || len(bytes.TrimRight(s.unfinished, "\r")) == 0 {
		return
	}
	if s.options.Authenticator != nil && s.principal == nil {
		s.deny(fmt.Errorf("%w; %s", access.ErrMissing, authAdvice))
		return
	}
	s.metrics.drops[dropUnended].Add(1)
	if s.content == graphitePickles {
		s.tell("", "the last frame is dropped: the connection ended before it did")
		return
	}
	s.tell("put: ", "the last line is dropped: the connection ended without a newline behind it")
}

// process parses the lines of a chunk that have ended, writes them and replies.
func (s *stream) process(chunk []byte) {
	start := time.Now()
	nowMs := s.options.Clock().UnixMilli()
	limits, insideLine := s.options.Limits.Line, s.insideLine
	s.writeUntilDone(attempts{
		timeout: s.options.TCP.RetryTimeout, protocol: s.protocol, principal: s.principal, bytes: len(chunk),
		denied: s.deny,
		parse: func(b *parse.Batch) (err error) {
			var rest parse.Rest
			switch s.protocol {
			case protocolPutTCP:
				rest, err = parse.Puts(b, chunk, parse.PutOptions{Limits: limits, Partial: true, InsideLine: insideLine})
			case protocolGraphiteTCP:
				rest, err = s.parseGraphite(b, chunk, parse.GraphiteOptions{
					Limits: limits, Names: s.options.GraphiteNames, Partial: true, InsideLine: insideLine, NowMs: nowMs,
				})
			default:
				rest, err = parse.Lines(b, chunk, parse.LineOptions{
					Limits: limits, Partial: true, InsideLine: insideLine, Precision: parse.PrecisionGuess, NowMs: nowMs, RefuseText: s.options.RefuseText,
				})
			}
			s.insideLine = rest.InsideLine
			s.unfinished = append(s.unfinished[:0], chunk[rest.Consumed:]...)
			return err
		},
		done: s.done,
	})
	if len(s.unfinished) == 0 && cap(s.unfinished) > unfinishedBytesKept {
		s.unfinished = nil
	}
	s.metrics.protocols[s.protocol].seconds.Observe(time.Since(start).Seconds())
}

const unfinishedBytesKept = 1 << 10

// attempts is a write that is tried again until it is done or its time is up.
type attempts struct {
	timeout  time.Duration // from the first failure on
	protocol protocol
	// principal writes. Denied hears that it may not any more.
	principal access.Principal
	denied    func(error)
	// keep: no more points are taken than the database's rate lets through. Else the
	// caller slows its client afterwards.
	keep  bool
	bytes int // as sent
	parse func(*parse.Batch) error
	// done hears what became of it; an error means that the points are dropped.
	done func(b *parse.Batch, r result, err error)
}

// writeUntilDone parses and writes, and tries again with growing delays while the
// error is one that passes. Between two attempts it holds no worker, so that
// other connections, whose shards may be well, go on.
func (s *streams) writeUntilDone(a attempts) {
	retry := backoff.Exponential{Min: s.options.TCP.RetryDelayMin, Max: s.options.TCP.RetryDelayMax}
	var end time.Time // set by the first failure
	for failures := 1; ; failures++ {
		s.options.Processors.Small()
		fl, err := s.workers.take(s.base, false)
		if err == nil {
			ended := s.attempt(fl, a, end)
			s.workers.rest(fl)
			if ended {
				return
			}
		} else if s.base.Err() != nil {
			s.log.Warn("input dropped: the server has stopped", "port", protocolNames[a.protocol])
			return
		}
		now := time.Now()
		if end.IsZero() {
			end = now.Add(a.timeout)
		}
		sleep(s.base, max(0, min(retry.Delay(failures), end.Sub(now))))
	}
}

// attempt writes once and reports whether that was the end of it.
func (s *streams) attempt(fl *inFlightWrite, a attempts, end time.Time) (ended bool) {
	if err := a.parse(fl.batch()); err != nil { // what is read at once is never too large
		s.log.Warn("input not taken", "error", err)
		return true
	}
	to := s.targets[a.protocol]
	b := fl.batch()
	points := pointsOf(b.Lines)
	switch {
	case !fl.again && !a.principal.May(to.account.Name(), access.Write):
		s.drop(a, dropDenied, result{lines: len(b.Lines), failed: points, refused: b.ErrorPoints, skipped: b.SkippedStrings})
		a.denied(&access.DeniedError{Principal: a.principal.Name(), Database: to.account.Name(), Right: access.Write})
		return true
	case fl.again: // it was charged before
	case !a.keep:
		to.account.Spend(points)
	default:
		if late, err := fl.take(to.account); err != nil {
			s.metrics.failures.note(err)
			s.drop(a, dropRate, late)
			s.log.Warn("points dropped: the database's rate", "points", points, "error", err)
			return true
		}
	}
	r, err := fl.write(to.database, s.options.Limits.WriteTimeout)
	if errors.Is(err, errParseAgain) {
		return s.attempt(fl, a, end)
	}
	if err != nil {
		to.account.Give(r.failed + r.again)
		s.metrics.failures.note(err)
		if refusal.Retryable(err) && s.base.Err() == nil && (end.IsZero() || time.Now().Before(end)) {
			return false
		}
		s.metrics.drops[dropWrite].Add(int64(r.failed + r.again))
		s.log.Warn("points dropped: the storage did not take them", "points", r.failed+r.again, "error", err)
	}
	if err == nil && r.refusal != nil {
		s.metrics.failures.note(r.refusal)
	}
	s.metrics.protocols[a.protocol].count(r)
	to.account.Wrote(r.accepted, r.refused, r.failed, a.bytes)
	a.done(fl.batch(), r, err)
	return true
}

// drop counts points that are dropped before they are written.
func (s *streams) drop(a attempts, cause dropCause, r result) {
	s.metrics.drops[cause].Add(int64(r.failed))
	s.metrics.protocols[a.protocol].count(r)
	s.targets[a.protocol].account.Wrote(0, r.refused, r.failed, a.bytes)
}
