package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Item is one thing to send.
type Item struct {
	Text   []byte
	Points int  // that it writes
	Read   bool // it is a query
}

// Feed provides what a connection sends next; ok is false at the end. The text is
// used until the next call. A feed belongs to one connection.
type Feed func() (item Item, ok bool)

// Result is what a run over many connections has measured.
type Result struct {
	Points   int64 // sent and, over HTTP, acknowledged
	Requests int64 // writes
	Reads    int64
	Errors   int64 // answers that were neither 200 nor 204, or error lines
	// ErrorFirst is the first of the errors.
	ErrorFirst error
	// Elapsed reaches from the first byte until every connection's fence.
	Elapsed time.Duration
	// Writes holds microseconds of each write: over HTTP and with TCPSync until the
	// answer, over TCP until the socket took it, which shows back-pressure and not durability.
	Writes *hdrhistogram.Histogram
	// ReadTimes holds microseconds of each query.
	ReadTimes *hdrhistogram.Histogram
	// ConnectionPointsMin and Max are of the slowest and the fastest connection.
	ConnectionPointsMin, ConnectionPointsMax int64
	// Gaps is, by connection over HTTP, the longest time between two writes that
	// were acknowledged, or between the last one and the end.
	Gaps []time.Duration
}

// PointsPerSecond is the rate over the whole run.
func (r *Result) PointsPerSecond() float64 {
	return float64(r.Points) / r.Elapsed.Seconds()
}

// newHistogram holds one microsecond to two minutes with two digits: small enough
// that one for each connection stays in the cache.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120_000_000, 2) }

// connectionResult is one connection's share.
type connectionResult struct {
	points, requests, reads, errors int64
	errorFirst                      error
	writes, readTimes               *hdrhistogram.Histogram
	gap                             time.Duration
}

func newConnectionResult() *connectionResult {
	return &connectionResult{writes: newHistogram(), readTimes: newHistogram()}
}

func (c *connectionResult) fail(err error) {
	c.errors++
	if c.errorFirst == nil {
		c.errorFirst = err
	}
}

// Options of a run.
type Options struct {
	Address string
	// Duration ends the run; 0 lets every feed run to its end.
	Duration time.Duration
	// Interval is the time from one request of a connection to the next that is answered;
	// 0: back to back. Connections begin spread over it. A request's time counts from
	// when it was due: one that waits for the answer to another is late.
	Interval time.Duration
	// SendBytes is the socket's send buffer at the client; 0: the system's choice.
	SendBytes int
	// Fence is sent at the end of a TCP connection, with TCPSync behind each item, for
	// instance "version\n"; its answer must not be empty. Without it the end of the stream is the fence.
	Fence string
	// FenceLines is the number of lines of its answer, for TCPSync; 0: one.
	FenceLines int
	// FenceTimeout bounds the wait for the fence of a connection; 0: two minutes.
	FenceTimeout time.Duration
}

// HTTP sends each feed over its own connection, one request at a time.
func HTTP(ctx context.Context, options Options, feeds []Feed) (*Result, error) {
	return run(ctx, options, feeds, serveHTTP)
}

// TCP sends each feed over its own connection without waiting for answers; at the
// end it waits until the server has read and answered everything.
func TCP(ctx context.Context, options Options, feeds []Feed) (*Result, error) {
	return run(ctx, options, feeds, serveTCP)
}

// TCPSync is TCP with the fence behind each item, and waits for its whole answer, as
// HTTP waits for its own: a write's time is that until the server has worked it off.
func TCPSync(ctx context.Context, options Options, feeds []Feed) (*Result, error) {
	return run(ctx, options, feeds, serveTCPSync)
}

// pacer describes when a connection's requests are due.
type pacer struct {
	interval time.Duration // 0: at once
	due      time.Time
}

// next waits until a request is due and returns the time from which it counts.
func (p *pacer) next() time.Time {
	if p.interval == 0 {
		return time.Now()
	}
	due := p.due
	p.due = due.Add(p.interval)
	time.Sleep(time.Until(due))
	return due
}

type serve func(conn *Conn, feed Feed, pace pacer, options Options, stop *atomic.Bool, result *connectionResult) error

func run(ctx context.Context, options Options, feeds []Feed, serve serve) (*Result, error) {
	if options.FenceTimeout == 0 {
		options.FenceTimeout = 2 * time.Minute
	}
	conns := make([]*Conn, len(feeds))
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	for i := range conns {
		conn, err := Dial(ctx, options.Address, options.SendBytes)
		if err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, len(feeds), err)
		}
		conns[i] = conn
	}
	var stop atomic.Bool
	if options.Duration > 0 {
		timer := time.AfterFunc(options.Duration, func() { stop.Store(true) })
		defer timer.Stop()
	}
	unhook := context.AfterFunc(ctx, func() {
		stop.Store(true)
		for _, conn := range conns {
			_ = conn.SetDeadline(time.Now())
		}
	})
	defer unhook()
	results := make([]*connectionResult, len(feeds))
	failures := make([]error, len(feeds))
	var group sync.WaitGroup
	start := time.Now()
	for i := range conns {
		results[i] = newConnectionResult()
		pace := pacer{interval: options.Interval, due: start.Add(options.Interval * time.Duration(i) / time.Duration(len(conns)))}
		group.Go(func() { failures[i] = serve(conns[i], feeds[i], pace, options, &stop, results[i]) })
	}
	group.Wait()
	result := merge(results)
	result.Elapsed = time.Since(start)
	return result, errors.Join(context.Cause(ctx), firstOf(failures))
}

func serveHTTP(conn *Conn, feed Feed, pace pacer, _ Options, stop *atomic.Bool, result *connectionResult) error {
	acknowledged := time.Now()
	defer func() { result.gap = max(result.gap, time.Since(acknowledged)) }()
	for !stop.Load() {
		start := pace.next()
		item, ok := feed()
		if !ok {
			return nil
		}
		status, body, err := conn.RoundTrip(item.Text)
		end := time.Now()
		micros := end.Sub(start).Microseconds()
		if err != nil {
			return err
		}
		if status != 200 && status != 204 {
			result.fail(fmt.Errorf("status %d: %.300s", status, body))
			continue
		}
		if item.Read {
			result.reads++
			_ = result.readTimes.RecordValue(min(max(micros, 1), 120_000_000))
			continue
		}
		result.gap = max(result.gap, end.Sub(acknowledged))
		acknowledged = end
		result.requests++
		result.points += int64(item.Points)
		_ = result.writes.RecordValue(min(max(micros, 1), 120_000_000))
	}
	return nil
}

func serveTCP(conn *Conn, feed Feed, _ pacer, options Options, stop *atomic.Bool, result *connectionResult) error {
	for !stop.Load() {
		item, ok := feed()
		if !ok {
			break
		}
		start := time.Now()
		if _, err := conn.Write(item.Text); err != nil {
			return err
		}
		micros := time.Since(start).Microseconds()
		result.requests++
		result.points += int64(item.Points)
		_ = result.writes.RecordValue(min(max(micros, 1), 120_000_000))
	}
	return fence(conn, options, result)
}

func serveTCPSync(conn *Conn, feed Feed, pace pacer, options Options, stop *atomic.Bool, result *connectionResult) error {
	acknowledged := time.Now()
	defer func() { result.gap = max(result.gap, time.Since(acknowledged)) }()
	for !stop.Load() {
		start := pace.next()
		item, ok := feed()
		if !ok {
			return nil
		}
		both := net.Buffers{item.Text, []byte(options.Fence)}
		if _, err := both.WriteTo(conn.Conn); err != nil {
			return err
		}
		if err := readFence(conn, options); err != nil {
			return err
		}
		end := time.Now()
		result.gap, acknowledged = max(result.gap, end.Sub(acknowledged)), end
		result.requests++
		result.points += int64(item.Points)
		_ = result.writes.RecordValue(min(max(end.Sub(start).Microseconds(), 1), 120_000_000))
	}
	return nil
}

// readFence reads the reply to a fence and nothing else.
func readFence(conn *Conn, options Options) error {
	for range max(1, options.FenceLines) {
		reply, err := conn.reader.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("no reply to %q: %w", options.Fence, err)
		}
		if bytes.HasPrefix(reply, []byte("put: ")) {
			return fmt.Errorf("the server complains: %.300s", reply)
		}
	}
	if more := conn.reader.Buffered(); more > 0 {
		return fmt.Errorf("%d bytes follow the reply to %q", more, options.Fence)
	}
	return nil
}

// fence waits until the server has read everything of this connection: it says
// "no more" and reads until the server, having worked off all, closes too.
func fence(conn *Conn, options Options, result *connectionResult) error {
	if _, err := io.WriteString(conn, options.Fence); err != nil {
		return err
	}
	tcp, ok := conn.Conn.(*net.TCPConn)
	if !ok {
		return errors.New("a TCP connection is needed")
	}
	if err := tcp.CloseWrite(); err != nil {
		return err
	}
	if err := tcp.SetReadDeadline(time.Now().Add(options.FenceTimeout)); err != nil {
		return err
	}
	replies, err := io.ReadAll(io.LimitReader(conn.reader, 1<<20))
	if err != nil {
		return fmt.Errorf("wait for the server to read all: %w", err)
	}
	if options.Fence != "" && len(replies) == 0 {
		return fmt.Errorf("no reply to %q", options.Fence)
	}
	if options.Fence == "" && len(replies) > 0 {
		result.fail(fmt.Errorf("the server complains: %.300s", replies))
	}
	return nil
}

func merge(results []*connectionResult) *Result {
	total := &Result{Writes: newHistogram(), ReadTimes: newHistogram()}
	for i, result := range results {
		total.Points += result.points
		total.Requests += result.requests
		total.Reads += result.reads
		total.Errors += result.errors
		if total.ErrorFirst == nil {
			total.ErrorFirst = result.errorFirst
		}
		total.Gaps = append(total.Gaps, result.gap)
		total.Writes.Merge(result.writes)
		total.ReadTimes.Merge(result.readTimes)
		if i == 0 || result.points < total.ConnectionPointsMin {
			total.ConnectionPointsMin = result.points
		}
		total.ConnectionPointsMax = max(total.ConnectionPointsMax, result.points)
	}
	return total
}

func firstOf(errs []error) error {
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return nil
}
