package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// SyncMode says when the log is made durable against a power cut. In every mode
// a write is answered after it stands in the operating system's file, so that a
// killed process loses nothing.
type SyncMode string

// The modes of --wal-sync.
const (
	SyncAlways   SyncMode = "always"   // before each answer, in groups
	SyncInterval SyncMode = "interval" // once a second
	SyncOff      SyncMode = "off"      // when the operating system likes
)

// proposal is what one entry says of one shard.
type proposal struct {
	kind  storage.EntryKind
	shard uint16
	body  []byte // for samples one encoded batch, else the entry's body
}

// write is one caller's proposals on their way through the log.
type write struct {
	proposals []proposal
	id        series.BatchID // of all proposals that are samples
	bytes     int64
	remaining atomic.Int32 // proposals that are not applied yet
	failure   atomic.Pointer[error]
	done      chan struct{} // holds one signal
}

func (w *write) fail(err error) { w.failure.CompareAndSwap(nil, &err) }

func (w *write) finish(n int32) {
	if w.remaining.Add(-n) == 0 {
		w.done <- struct{}{}
	}
}

// share is the part of one write in one entry.
type share struct {
	write    *write
	proposal int
}

// round is a group of writes that goes to the log with one system call.
type round struct {
	epoch   uint16
	timeMs  int64 // of the node's clock, when it was formed
	writes  []*write
	shards  []uint16  // touched, in order of first touch
	shares  [][]share // by shard
	buffer  wal.Buffer
	entries [][]pendingEntry // by applier
	left    atomic.Int32     // appliers at work
	header  []byte
	sizes   []byte
	parts   [][]byte
}

type pendingEntry struct {
	entry  storage.Entry
	shares []share
}

// Bounds of the commit path.
const (
	roundBytesMax  = 8 << 20 // of batches in one round, but for a single larger write
	roundsInFlight = 3       // being written or applied; more only adds delay
	queueBytesMax  = 64 << 20
	writeBytesMax  = 128 << 20
	queueWaitMax   = 2 * time.Second
)

// committer takes writes in groups through the log to the engine. It is the Raft
// group of one voter: what is in the log is committed.
//
// One goroutine, the leader, forms rounds and writes them; while it is in the
// system call further writes gather for the next round. Appliers, one for each
// core, own the shards by number, so that entries of a shard are applied in log
// order.
type committer struct {
	log        *wal.Log
	engine     *storage.Engine
	mode       SyncMode
	failpoints *failpoint.Set
	clock      func() time.Time

	mu struct {
		sync.Mutex
		pending      []*write
		pendingBytes int64
		closed       bool
	}
	wake chan struct{} // holds one signal for the leader
	room chan struct{} // holds one signal for a caller that waits for room

	roundMu struct { // held while a round is formed and written
		sync.Mutex
		epoch uint16
		index []uint64 // last entry of each shard
	}
	free     chan *round
	appliers []chan *round
	active   []chan *round // of the leader, while it hands out a round
	stopped  sync.WaitGroup

	refusals refusals
	logger   *slog.Logger
	stats    commitStats
}

type commitStats struct {
	rounds, writes, rejected atomic.Int64
}

func newCommitter(log *wal.Log, engine *storage.Engine, o *Options, appliers int) *committer {
	c := &committer{
		log: log, engine: engine, mode: o.Sync, failpoints: o.Failpoints, clock: o.Clock, logger: o.Logger,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		free: make(chan *round, roundsInFlight),
	}
	c.roundMu.index = engine.AppliedIndexes()
	for range roundsInFlight {
		c.free <- &round{shares: make([][]share, engine.Shards()), entries: make([][]pendingEntry, appliers)}
	}
	for range appliers {
		queue := make(chan *round, roundsInFlight)
		c.appliers = append(c.appliers, queue)
	}
	for i := range c.appliers {
		c.stopped.Go(func() { c.applyRounds(i) })
	}
	c.stopped.Go(c.lead)
	return c
}

// close answers what is queued and ends. No submit may start after it.
func (c *committer) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.signal()
	c.stopped.Wait()
}

func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// tellRoom wakes one caller that waits for room; it passes the word on.
func (c *committer) tellRoom() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// errClosed answers writes that come after close.
var errClosed = fmt.Errorf("%w: the node is shutting down", series.ErrUnavailable)

// submit takes a write through the log and waits until it is applied. The
// write's memory must not change until then; that is why a context that ends
// does not end the wait once the write is queued.
func (c *committer) submit(ctx context.Context, w *write) error {
	if err := c.refusals.ofWrites(); err != nil {
		return err
	}
	if err := c.enqueue(ctx, w); err != nil {
		return err
	}
	<-w.done
	if failure := w.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

func (c *committer) enqueue(ctx context.Context, w *write) error {
	var deadline <-chan time.Time
	for {
		c.mu.Lock()
		if c.mu.closed {
			c.mu.Unlock()
			c.tellRoom() // for the next one that waits
			return errClosed
		}
		if c.mu.pendingBytes == 0 || c.mu.pendingBytes+w.bytes <= queueBytesMax {
			c.mu.pending = append(c.mu.pending, w)
			c.mu.pendingBytes += w.bytes
			first, room := len(c.mu.pending) == 1, c.mu.pendingBytes < queueBytesMax
			c.mu.Unlock()
			if first {
				c.signal()
			}
			if room && deadline != nil {
				c.tellRoom()
			}
			return nil
		}
		c.mu.Unlock()
		if deadline == nil {
			timer := time.NewTimer(queueWaitMax)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-c.room:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", series.ErrOverloaded, ctx.Err())
		case <-deadline:
			c.stats.rejected.Add(1)
			return fmt.Errorf("%w: %d bytes of writes wait for the log", series.ErrOverloaded, queueBytesMax)
		}
	}
}

// queued gives the bytes of writes that wait for the log.
func (c *committer) queued() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.pendingBytes
}

func (c *committer) lead() {
	defer func() {
		for _, queue := range c.appliers {
			close(queue)
		}
	}()
	for {
		<-c.wake
		for {
			r := <-c.free
			closed := c.take(r)
			if len(r.writes) == 0 {
				c.free <- r
				if closed {
					return
				}
				break
			}
			c.commit(r)
		}
	}
}

// take moves pending writes into the round.
func (c *committer) take(r *round) (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	var bytes int64
	for n < len(c.mu.pending) && (n == 0 || bytes+c.mu.pending[n].bytes <= roundBytesMax) {
		bytes += c.mu.pending[n].bytes
		n++
	}
	r.writes = append(r.writes[:0], c.mu.pending[:n]...)
	left := copy(c.mu.pending, c.mu.pending[n:])
	clear(c.mu.pending[left:])
	c.mu.pending = c.mu.pending[:left]
	c.mu.pendingBytes -= bytes
	c.tellRoom()
	return c.mu.closed
}

// commit writes the round to the log and hands it to the appliers.
func (c *committer) commit(r *round) {
	err := c.refusals.ofWrites()
	if err == nil {
		err = c.writeRound(r)
	}
	if err != nil {
		c.abandon(r, err)
		return
	}
	c.stats.rounds.Add(1)
	c.stats.writes.Add(int64(len(r.writes)))
	// The round belongs to the appliers once the last of them has it, which may
	// recycle it before this loop has ended.
	c.active = c.active[:0]
	for i := range r.entries {
		if len(r.entries[i]) > 0 {
			c.active = append(c.active, c.appliers[i])
		}
	}
	r.left.Store(int32(len(c.active)))
	for _, queue := range c.active {
		queue <- r
	}
}

// abandon answers a round whose log write failed. The entries may or may not be
// in the log's file, so the log stays closed for writing until the next start.
func (c *committer) abandon(r *round, err error) {
	for _, w := range r.writes {
		w.fail(err)
		w.finish(w.remaining.Load())
	}
	c.recycle(r)
}

func (c *committer) writeRound(r *round) error {
	for _, w := range r.writes {
		for i := range w.proposals {
			shard := w.proposals[i].shard
			if len(r.shares[shard]) == 0 {
				r.shards = append(r.shards, shard)
			}
			r.shares[shard] = append(r.shares[shard], share{w, i})
		}
	}
	c.roundMu.Lock()
	defer c.roundMu.Unlock()
	r.epoch = c.roundMu.epoch
	r.timeMs = c.clock().UnixMilli()
	before := make([]uint64, 0, 8)
	for _, shard := range r.shards {
		before = append(before, c.roundMu.index[shard])
	}
	var err error
	for i := 0; i < len(r.shards) && err == nil; i++ {
		err = c.addEntries(r, r.shards[i])
	}
	if err == nil {
		_, _, err = c.log.Write(&r.buffer)
	}
	if err == nil {
		err = c.failpoints.Hit(FailAfterLogWrite)
	}
	if err == nil && c.mode == SyncAlways {
		_, err = c.log.Sync()
	}
	if err != nil {
		for i, shard := range r.shards {
			c.roundMu.index[shard] = before[i]
		}
		return c.logFailed(err)
	}
	c.logTook()
	return nil
}

// addEntries forms the entries of one shard: its samples of the round gather in
// one, in the order of the writes; anything else has an entry of its own.
func (c *committer) addEntries(r *round, shard uint16) error {
	applier := int(shard) % len(c.appliers)
	shares := r.shares[shard]
	for len(shares) > 0 {
		kind := shares[0].write.proposals[shares[0].proposal].kind
		n := 1
		for kind == storage.EntrySamples && n < len(shares) && shares[n].write.proposals[shares[n].proposal].kind == kind {
			n++
		}
		c.roundMu.index[shard]++
		e := storage.Entry{Kind: kind, Shard: shard, Term: 1, Index: c.roundMu.index[shard]}
		r.header = e.AppendHeader(r.header[:0])
		bodyAt := len(r.header)
		if kind == storage.EntrySamples {
			// The only clock that applying an entry ever knows: see storage.Batches.
			r.header = storage.AppendEntryTime(r.header, r.timeMs)
		}
		r.parts = append(r.parts[:0], r.header)
		r.sizes = r.sizes[:0]
		// The sizes' memory must not move while parts point into it.
		if need := n * storage.BatchHeaderBytesMax; cap(r.sizes) < need {
			r.sizes = make([]byte, 0, need)
		}
		for _, s := range shares[:n] {
			body := s.write.proposals[s.proposal].body
			if kind == storage.EntrySamples {
				from := len(r.sizes)
				r.sizes = storage.AppendBatchHeader(r.sizes, s.write.id, len(body))
				r.parts = append(r.parts, r.sizes[from:])
			}
			r.parts = append(r.parts, body)
		}
		offset, err := r.buffer.Add(r.parts...)
		if err != nil {
			return err
		}
		e.Body = r.buffer.Record(offset)[bodyAt:]
		r.entries[applier] = append(r.entries[applier], pendingEntry{entry: e, shares: shares[:n]})
		shares = shares[n:]
	}
	return nil
}

func (c *committer) applyRounds(applier int) {
	for r := range c.appliers[applier] {
		for i := range r.entries[applier] {
			p := &r.entries[applier][i]
			if err := c.engine.Apply(r.epoch, &p.entry); err != nil {
				c.applyFailed(p, err)
			}
			for _, s := range p.shares {
				s.write.finish(1)
			}
		}
		if r.left.Add(-1) == 0 {
			c.recycle(r)
		}
	}
}

func (c *committer) recycle(r *round) {
	for _, shard := range r.shards {
		clear(r.shares[shard])
		r.shares[shard] = r.shares[shard][:0]
	}
	for i := range r.entries {
		clear(r.entries[i])
		r.entries[i] = r.entries[i][:0]
	}
	clear(r.writes)
	clear(r.parts)
	r.writes, r.parts, r.shards = r.writes[:0], r.parts[:0], r.shards[:0]
	if r.buffer.Len() > 2*roundBytesMax { // one very large write shall not cost memory for ever
		r.buffer = wal.Buffer{}
	}
	r.buffer.Reset()
	c.free <- r
}

// applyFailed answers the writes of an entry. One that stalls is applied later and
// stops all writes until then; what is wrong with a batch concerns its writer.
func (c *committer) applyFailed(p *pendingEntry, err error) {
	var refused *storage.BatchError
	if errors.As(err, &refused) {
		for i, number := range refused.Batches {
			p.shares[number].write.fail(refused.Errs[i])
		}
		return
	}
	if errors.Is(err, storage.ErrStalled) {
		c.refusals.stall(err)
		err = fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	}
	for _, s := range p.shares {
		s.write.fail(err)
	}
}

// nextEpoch starts a new epoch and waits until every entry of the older ones is
// applied. All entries before the position it gives are of older epochs.
func (c *committer) nextEpoch() (position wal.Position, applied []uint64, epoch uint16) {
	c.roundMu.Lock()
	position = c.log.End()
	applied = append(applied, c.roundMu.index...)
	c.roundMu.epoch++
	epoch = c.roundMu.epoch
	c.roundMu.Unlock()
	c.drain()
	return position, applied, epoch
}

// drain waits until every round that was written before it is applied: it has
// gathered all rounds once. One caller at a time, else two could wait for each
// other's.
func (c *committer) drain() {
	held := make([]*round, 0, roundsInFlight)
	for range roundsInFlight {
		held = append(held, <-c.free)
	}
	for _, r := range held {
		c.free <- r
	}
}
