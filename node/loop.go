package node

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
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

const (
	tickInterval   = 50 * time.Millisecond
	roundsInFlight = 3 // being written or applied; more only adds delay
	spaceRetry     = 100 * time.Millisecond
)

// Peers carries envelopes to other nodes. Send must not block; what cannot be sent
// is dropped, which Raft makes up for.
type Peers interface {
	Send(to string, envelope []byte)
}

// loop takes everything that changes a group through the log to the engine: it
// drives replica.Host as that package's doc says.
//
// One goroutine, run, forms rounds and writes them; while it is in the system call
// further writes gather for the next round. Appliers, one for each core, own the
// shards by number, so that entries of a shard are applied in the order of its log.
type loop struct {
	host       *replica.Host
	log        *wal.Log
	syncer     *syncer
	engine     *storage.Engine
	peers      Peers
	mode       SyncMode
	failpoints *failpoint.Set
	clock      func() time.Time
	logger     *slog.Logger

	node        string
	incarnation string

	queue *queue

	// Of run alone.
	taken      taken
	epoch      uint16
	dispatched []uint64 // by shard: the last entry that was given to an applier
	waiting    waiting
	tokens     tokens
	confirming confirming
	rows       []shardmap.Row // of the adopted map
	installing map[uint16]*installation
	spent      []uint64 // by shard: the greatest raft id that was removed here
	newestMs   []int64  // by shard: the leader's clock at the last entry of samples; 0: not known
	relics     map[uint16]*relic
	orphans    []bool // by shard: there is data of nobody knows which replica
	cleaning   []bool // by shard: the data of a removed replica is being dropped
	ticks      int
	relog      bool // the next round logs the states of all groups
	header     []byte
	sizes      []byte
	parts      [][]byte
	active     []chan *round // while a round is handed out
	failed     bool          // nothing is done any more but to refuse
	broken     error         // why the host may not be used any more: a round was not written

	places    *places
	groups    []groupView // by shard
	loneCount atomic.Int32
	applied   []appliedIndex
	free      chan *round
	draining  sync.Mutex // held by the one that gathers all rounds
	appliers  []chan *round
	stopped   sync.WaitGroup
	ended     chan struct{} // closed when run has ended
	unsettled chan struct{} // holds one signal

	onSnapshot func(replica.SnapshotNeed)
	onRemoved  func(shard uint16)
	onLeaving  func(commit.Question)
	onNodes    func(others int)
	refusals   refusals
	stats      commitStats
	counts     loopCounts
}

// newLoop makes the loop with the groups that the log knows. It does not run yet.
func (n *Node) newLoop(recovered *recoverer) (*loop, error) {
	o := &n.options
	shards := n.engine.Shards()
	l := &loop{
		log: n.log, engine: n.engine, peers: o.Peers, mode: o.Sync, failpoints: o.Failpoints, clock: o.Clock, logger: o.Logger,
		node: o.NodeID, incarnation: n.engine.Incarnation(), queue: newQueue(), places: recovered.places,
		dispatched: n.engine.AppliedIndexes(), cleaning: make([]bool, shards), installing: map[uint16]*installation{}, spent: make([]uint64, shards), newestMs: make([]int64, shards), relics: map[uint16]*relic{}, orphans: make([]bool, shards), waiting: waiting{shards: make([]shardQueue, shards)},
		confirming: confirming{reads: map[uint64]readStart{}}, groups: make([]groupView, shards), applied: make([]appliedIndex, shards),
		free: make(chan *round, roundsInFlight), ended: make(chan struct{}), unsettled: make(chan struct{}, 1),
		onSnapshot: n.transfer.Fetch, onRemoved: n.transfer.Drop, onLeaving: n.transfer.Ask, onNodes: n.clocks.expect,
	}
	l.syncer = newSyncer(n.log, l.queue.signal)
	if l.peers == nil {
		l.peers = noPeers{}
	}
	var err error
	l.host, err = replica.New(replica.Config{
		Node: l.node, Incarnation: l.incarnation, Run: rand.Uint64(), Seed: rand.Uint64(),
		SyncLater: l.mode != SyncAlways,
	}, l.places)
	if err != nil {
		return nil, err
	}
	if err := l.restore(n, recovered); err != nil {
		return nil, err
	}
	for shard, index := range l.dispatched {
		l.applied[shard].value.Store(index)
	}
	l.lookAtAll()
	return l, nil
}

// noPeers is for a node that has none.
type noPeers struct{}

func (noPeers) Send(string, []byte) {}

type commitStats struct {
	rounds, writes atomic.Int64
	crowded        atomic.Int64 // writes refused at their shard's queue
}

func (l *loop) start(appliers int) {
	for range roundsInFlight {
		l.free <- newRound(len(l.dispatched), appliers)
	}
	for range appliers {
		l.appliers = append(l.appliers, make(chan *round, roundsInFlight))
	}
	for i := range appliers {
		l.stopped.Go(func() { l.applyRounds(i) })
	}
	l.stopped.Go(l.syncer.run)
	l.stopped.Go(l.run)
}

// close answers what is queued and ends. Nothing is queued after it.
func (l *loop) close() {
	l.queue.close()
	l.stopped.Wait()
}

func (l *loop) run() {
	defer l.end()
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for !l.taken.closed {
		select {
		case <-l.queue.wake:
		case <-ticker.C:
			if l.allLone() {
				continue
			}
			l.queue.tick()
		}
		for l.turn() {
		}
	}
}

// turn does what there is to do once, and says whether there may be more.
func (l *loop) turn() bool {
	r := <-l.free
	l.tokens.release(r.ended)
	r.clear()
	took := l.take(r)
	l.goOn()
	if l.failed || !l.host.Ready(&r.replica) && len(r.relogged) == 0 {
		l.free <- r
		return took
	}
	l.commit(r)
	return true
}

// end answers all that still waits.
func (l *loop) end() {
	for l.failed = true; l.take(nil); {
	}
	l.failAll(errClosed)
	l.syncer.close()
	for _, queue := range l.appliers {
		close(queue)
	}
	close(l.ended)
}

// take takes what waits and tells it to the host. It gives false when there was
// nothing.
func (l *loop) take(r *round) bool {
	l.queue.take(&l.taken)
	t := &l.taken
	defer t.clear()
	if l.failed {
		l.refuse(t)
		return !t.empty()
	}
	for _, c := range t.commands {
		c.run()
		c.done <- nil
	}
	for name, news := range t.peers {
		if news.down {
			l.host.PeerDown(name)
		}
		if news.up {
			l.host.PeerUp(name)
		}
	}
	for i := range t.envelopes {
		if err := l.host.Receive(t.envelopes[i].from, t.envelopes[i].bytes); err != nil {
			l.logger.Warn("an envelope cannot be read", "peer", t.envelopes[i].from, "error", err)
		}
	}
	for range t.ticks {
		l.tick()
	}
	l.startReads(t.reads)
	l.sort(t.writes)
	l.stats.writes.Add(int64(len(t.writes)))
	l.propose()
	if l.relog {
		l.relog = false
		r.relogged = l.states()
	}
	return !t.empty()
}

// refuse answers what was taken after the log has broken, or the loop was closed.
func (l *loop) refuse(t *taken) {
	err := l.refusals.ofWrites()
	if err == nil {
		err = errClosed
	}
	failWrites(t.writes, err)
	for _, c := range t.commands {
		c.done <- err
	}
	failReads(t.reads)
}

func failWrites(writes []*write, err error) {
	for _, w := range writes {
		for i := range w.proposals {
			share{w, i}.finish(0, err)
		}
	}
}

// commit writes the round to the log and hands it on.
func (l *loop) commit(r *round) {
	r.epoch = l.epoch
	l.send(r.replica.Early)
	if err := l.write(r); err != nil {
		l.breakOff(err)
		l.free <- r
		return
	}
	l.stats.rounds.Add(1)
	l.host.Advance(&r.replica)
	l.send(r.replica.Late)
	for _, read := range r.replica.Reads {
		l.readReady(read)
	}
	for _, failure := range r.replica.Failed {
		l.fail(failure)
	}
	for _, shard := range r.replica.Prepared {
		if i := l.installing[shard]; i != nil {
			i.tellPrepared()
		}
	}
	for _, need := range r.replica.Snapshots {
		l.onSnapshot(need)
	}
	l.look(r)
	l.dispatch(r)
}

func (l *loop) send(envelopes []replica.Outgoing) {
	for i := range envelopes {
		l.peers.Send(envelopes[i].To, envelopes[i].Bytes)
	}
}

// write puts the round down. A full disk is waited for, as what the host has said
// cannot be taken back; the writes that wait meanwhile are answered.
func (l *loop) write(r *round) (err error) {
	if l.header, err = r.frame(l.header); err != nil {
		return l.logFailed(err)
	}
	if r.buffer.Records() == 0 {
		return nil
	}
	for {
		start, _, err := l.log.Write(&r.buffer)
		if err == nil {
			l.places.add(r, start)
			break
		}
		var space *wal.SpaceError
		answer := l.logFailed(err)
		if !errors.As(err, &space) || l.awaitSpace(answer) {
			return answer
		}
	}
	if err := l.failpoints.Hit(FailAfterLogWrite); err != nil {
		return l.logFailed(err)
	}
	switch {
	case l.mode == SyncAlways && (len(r.replica.Appends) > 0 || r.replica.Sync):
		if _, err := l.log.Sync(); err != nil {
			return l.logFailed(err)
		}
	case r.replica.Sync:
		l.syncer.want(r.replica.Number)
	}
	l.logTook()
	return nil
}

// awaitSpace answers all that waits, and waits for a reason to try again: the next
// write, or a moment. It says whether the node closes.
func (l *loop) awaitSpace(answer error) (closed bool) {
	l.failAll(answer)
	l.queue.reject(answer)
	retry := time.NewTimer(spaceRetry)
	defer retry.Stop()
	select {
	case <-l.queue.wake:
	case <-retry.C:
	}
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.queue.mu.closed
}

// breakOff ends the loop's work: nobody knows what the log has, so the host may not
// be used any more.
func (l *loop) breakOff(err error) {
	l.failed, l.broken = true, err
	l.failAll(err)
}

// failAll answers every write and read that waits or is under way. Writes in the log
// may be applied all the same.
func (l *loop) failAll(err error) {
	l.waiting.failAll(err)
	l.tokens.failAll(err)
	l.confirming.failAll(errNoLog)
	for i := range l.applied {
		l.applied[i].failAll(errNoLog)
	}
}

// dispatch gives the committed entries of a round to the appliers.
func (l *loop) dispatch(r *round) {
	for i := range r.replica.Committed {
		c := &r.replica.Committed[i]
		l.dispatched[c.Shard] = c.Index
		p := pendingEntry{
			entry:  storage.Entry{Kind: storage.EntryKind(c.Kind), Shard: c.Shard, Term: c.Term, Index: c.Index, Body: r.body(c)},
			copies: c.Copies,
		}
		if p.entry.Kind == storage.EntrySamples {
			l.newestMs[c.Shard] = storage.ReadBatches(p.entry.Body).TimeMs
		}
		if c.Token != 0 {
			p.ended = l.tokens.take(c.Token)
			if p.ended != nil {
				r.ended = append(r.ended, p.ended)
			}
			l.waiting.settled(c.Shard)
		}
		applier := int(c.Shard) % len(l.appliers)
		r.entries[applier] = append(r.entries[applier], p)
	}
	// The round belongs to the appliers once the last of them has it, which may
	// give it back before this loop has ended.
	l.active = l.active[:0]
	for i := range r.entries {
		if len(r.entries[i]) > 0 {
			l.active = append(l.active, l.appliers[i])
		}
	}
	if len(l.active) == 0 {
		l.free <- r
		return
	}
	r.left.Store(int32(len(l.active)))
	for _, queue := range l.active {
		queue <- r
	}
}

func (l *loop) fail(f replica.Failure) {
	if isRead(f.Token) {
		l.readFailed(f)
		return
	}
	entry := l.tokens.take(f.Token)
	l.waiting.settled(f.Shard)
	if entry == nil {
		return
	}
	for _, s := range entry.shares {
		s.finish(0, f.Err)
	}
	l.tokens.release([]*inflight{entry})
}

func (l *loop) applyRounds(applier int) {
	for r := range l.appliers[applier] {
		for i := range r.entries[applier] {
			p := &r.entries[applier][i]
			err := l.engine.Apply(r.epoch, &p.entry)
			if err == nil || !errors.Is(err, storage.ErrStalled) {
				l.applied[p.entry.Shard].advance(p.entry.Index)
			}
			l.answer(p, err)
		}
		if r.left.Add(-1) == 0 {
			l.free <- r
		}
	}
}

// answer ends the writes of an entry. One that stalls is applied later and stops all
// writes until then; what is wrong with a batch concerns its writer.
func (l *loop) answer(p *pendingEntry, err error) {
	var refused *storage.BatchError
	if err != nil && errors.Is(err, storage.ErrStalled) {
		l.refusals.stall(err)
		err = fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	}
	if p.ended == nil {
		return
	}
	if errors.As(err, &refused) {
		next := 0
		for i, s := range p.ended.shares {
			if next < len(refused.Batches) && refused.Batches[next] == i {
				s.finish(0, refused.Errs[next])
				next++
			} else {
				s.finish(p.copies, nil)
			}
		}
		return
	}
	for _, s := range p.ended.shares {
		s.finish(p.copies, err)
	}
}
