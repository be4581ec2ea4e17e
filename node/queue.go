package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
)

// Bounds of what waits for the loop.
const (
	queueBytesDefault = 64 << 20 // of writes
	queueWaitMax      = 2 * time.Second
	inboxBytesDefault = 64 << 20 // of envelopes of other nodes, with envelopeOverhead each
	// envelopeOverhead is what an envelope costs besides its bytes: the bound is one of
	// memory.
	envelopeOverhead = 64
	readsMax         = 1 << 16
)

// errClosed answers what comes after close.
var errClosed = fmt.Errorf("%w: the node is shutting down", series.ErrUnavailable)

// queue is what waits for the loop: writes, reads, envelopes and commands.
type queue struct {
	bytesMax      int64 // of writes
	roundBytesMax int64 // of writes that are taken at once
	inboxBytesMax int64 // of envelopes
	mu            struct {
		sync.Mutex
		writes     []*commit.Write
		writeBytes int64
		reads      []commit.Read
		envelopes  []commit.Envelope
		inboxBytes int64
		commands   []command
		peers      map[string]commit.PeerNews // at most one for each node
		closed     bool
	}
	ticks    atomic.Int32
	wake     chan struct{} // holds one signal for the loop
	room     chan struct{} // holds one signal for a caller that waits for room
	rejected atomic.Int64
	dropped  atomic.Int64 // envelopes
}

func newQueue(b *MemoryBounds) *queue {
	q := &queue{
		bytesMax: b.QueueBytes, inboxBytesMax: b.InboxBytes, roundBytesMax: b.roundBytes(),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	q.mu.peers = map[string]commit.PeerNews{}
	return q
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// tellRoom wakes one caller that waits for room; it passes the word on.
func (q *queue) tellRoom() {
	select {
	case q.room <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.Unlock()
	q.signal()
}

// enqueue queues a write, and waits for room for a bounded time.
func (q *queue) enqueue(ctx context.Context, w *commit.Write) error {
	var deadline <-chan time.Time
	for {
		q.mu.Lock()
		if q.mu.closed {
			q.mu.Unlock()
			q.tellRoom() // for the next one that waits
			return errClosed
		}
		if q.mu.writeBytes == 0 || q.mu.writeBytes+w.Bytes <= q.bytesMax {
			q.mu.writes = append(q.mu.writes, w)
			q.mu.writeBytes += w.Bytes
			first, room := len(q.mu.writes) == 1, q.mu.writeBytes < q.bytesMax
			q.mu.Unlock()
			if first {
				q.signal()
			}
			if room && deadline != nil {
				q.tellRoom()
			}
			return nil
		}
		q.mu.Unlock()
		if deadline == nil {
			timer := time.NewTimer(queueWaitMax)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-q.room:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", series.ErrOverloaded, ctx.Err())
		case <-deadline:
			q.rejected.Add(1)
			return fmt.Errorf("%w: %d bytes of writes wait for the log", series.ErrOverloaded, q.bytesMax)
		}
	}
}

// hasRoom reports whether a write of so many bytes would not wait now.
func (q *queue) hasRoom(bytes int64) bool {
	waiting := q.writeBytes()
	return waiting == 0 || waiting+bytes <= q.bytesMax
}

// writeBytes returns the bytes of writes that wait for the log.
func (q *queue) writeBytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.writeBytes
}

// inboxBytes returns the memory of envelopes that wait for the loop.
func (q *queue) inboxBytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.inboxBytes
}

// command is something that the loop does between two rounds.
type command struct {
	run  func()
	done chan error // holds one: nil when it was run
}

// do has the loop run a command, and waits for it. An error says that it was not run
// and will not be.
func (q *queue) do(run func()) error {
	c := command{run, make(chan error, 1)}
	q.mu.Lock()
	if q.mu.closed {
		q.mu.Unlock()
		return errClosed
	}
	q.mu.commands = append(q.mu.commands, c)
	q.mu.Unlock()
	q.signal()
	return <-c.done
}

// peer passes a connection to another node to the loop, without waiting for it.
func (q *queue) peer(name string, up bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return
	}
	if up {
		q.mu.peers[name] = commit.PeerNews{Down: q.mu.peers[name].Down, Up: true}
	} else {
		q.mu.peers[name] = commit.PeerNews{Down: true}
	}
	q.signal()
}

// reject answers all writes, reads and commands that wait.
func (q *queue) reject(err error) {
	q.mu.Lock()
	writes, reads, commands := q.mu.writes, q.mu.reads, q.mu.commands
	q.mu.writes, q.mu.writeBytes, q.mu.reads, q.mu.commands = nil, 0, nil, nil
	q.mu.Unlock()
	q.tellRoom()
	failWrites(writes, err)
	failReads(reads)
	for _, c := range commands {
		c.done <- err
	}
}

// read queues reads.
func (q *queue) read(reads []commit.Read) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return errClosed
	}
	if len(q.mu.reads)+len(reads) > readsMax {
		return fmt.Errorf("%w: %d reads wait to be confirmed", series.ErrOverloaded, len(q.mu.reads))
	}
	q.mu.reads = append(q.mu.reads, reads...)
	q.signal()
	return nil
}

// receive queues an envelope, or drops it when too much waits: Raft sends again.
func (q *queue) receive(from string, bytes []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	cost := int64(len(bytes)) + envelopeOverhead
	// One larger envelope alone is taken: it would be sent for ever otherwise.
	if q.mu.closed || q.mu.inboxBytes > 0 && q.mu.inboxBytes+cost > q.inboxBytesMax {
		q.dropped.Add(1)
		return
	}
	q.mu.envelopes = append(q.mu.envelopes, commit.Envelope{From: from, Bytes: bytes})
	q.mu.inboxBytes += cost
	q.signal()
}

// tick counts a tick of the clock. Ticks that the loop missed are not made up for: a
// process that was stopped for long must not depose every leader when it goes on.
func (q *queue) tick() {
	if q.ticks.Load() < 2 {
		q.ticks.Add(1)
	}
	q.signal()
}

// taken is what the loop took from the queue at once.
type taken struct {
	writes    []*commit.Write
	reads     []commit.Read
	envelopes []commit.Envelope
	commands  []command
	peers     map[string]commit.PeerNews
	ticks     int32
	closed    bool
}

// take moves what waits into t, of writes so many that they fill a round.
func (q *queue) take(t *taken) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.ticks = q.ticks.Swap(0)
	t.reads, q.mu.reads = q.mu.reads, t.reads[:0]
	t.envelopes, q.mu.envelopes, q.mu.inboxBytes = q.mu.envelopes, t.envelopes[:0], 0
	t.commands, q.mu.commands = q.mu.commands, t.commands[:0]
	if t.peers = nil; len(q.mu.peers) > 0 {
		t.peers, q.mu.peers = q.mu.peers, map[string]commit.PeerNews{}
	}
	t.writes, t.closed = t.writes[:0], q.mu.closed
	n, bytes := 0, int64(0)
	for n < len(q.mu.writes) && (n == 0 || bytes+q.mu.writes[n].Bytes <= q.roundBytesMax) {
		bytes += q.mu.writes[n].Bytes
		n++
	}
	if n == 0 {
		return
	}
	t.writes = append(t.writes, q.mu.writes[:n]...)
	left := copy(q.mu.writes, q.mu.writes[n:])
	clear(q.mu.writes[left:])
	q.mu.writes = q.mu.writes[:left]
	q.mu.writeBytes -= bytes
	q.tellRoom()
}

func (t *taken) empty() bool {
	return len(t.writes) == 0 && len(t.reads) == 0 && len(t.envelopes) == 0 && len(t.commands) == 0 && len(t.peers) == 0 && t.ticks == 0
}

// clear releases what was taken.
func (t *taken) clear() {
	clear(t.writes)
	clear(t.reads)
	clear(t.envelopes)
	clear(t.commands)
}

func failWrites(writes []*commit.Write, err error) {
	for _, w := range writes {
		w.Fail(err)
	}
}
