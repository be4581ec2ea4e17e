package node

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/clocks"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/wal"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// SyncMode describes when the log is made durable against a power cut. In every mode
// a write is answered after it stands in the operating system's file, so that a
// killed process loses nothing.
type SyncMode string

// The modes of --wal-sync.
const (
	SyncAlways   SyncMode = "always"   // before each answer, in groups
	SyncInterval SyncMode = "interval" // once a second
	SyncOff      SyncMode = "off"      // when the operating system likes
)

// TickInterval is the length of a tick of replica.Host.
const TickInterval = 50 * time.Millisecond

const (
	roundsInFlight = 3 // being written or applied; more only adds delay
	spaceRetry     = 100 * time.Millisecond
)

// loop drives a commit.Machine: it owns the goroutines, the clock and the log.
//
// One goroutine, run, takes what waits, steps the machine and writes its rounds; while it is
// in the system call further writes gather for the next round. Appliers, one for each core,
// own the shards by number, so that entries of a shard are applied in the order of its log.
type loop struct {
	machine    *commit.Machine // of run alone
	log        *wal.Log
	syncer     *syncer
	engine     *storage.Engine
	peers      Peers
	mode       SyncMode
	failpoints *failpoint.Set
	clock      func() time.Time
	logger     *slog.Logger
	queue      *queue
	onBroken   func() // called once when the log has failed, by whoever has met that

	// Of run alone.
	taken   taken
	input   commit.Input
	active  []chan *round // while a round is handed out
	failed  bool          // nothing is done any more but to refuse
	broken  error         // why the machine may not be used any more: a round was not written
	waiting map[uint16]*swapWait

	groups     []groupView  // by shard
	entryBytes atomic.Int64 // of all groups
	single     atomic.Bool  // every shard has a group here that agrees with itself
	applied    []appliedIndex
	free       chan *round
	draining   sync.Mutex // held by the one that gathers all rounds
	appliers   []chan *round
	stopped    sync.WaitGroup
	ended      chan struct{} // closed when run has ended
	publish    chan struct{} // holds one signal

	transfer    *transfer.Service
	clocks      *clocks.Clocks
	peerEntries *peerEntries
	refusals    refusals
	stats       commitStats
	figures     atomic.Pointer[commit.Figures]
}

// round is a commit.Round on its way through log and appliers.
type round struct {
	commit.Round
	left atomic.Int32 // appliers at work
}

// newLoop returns the loop with the groups that the log has. It does not run yet.
func (n *Node) newLoop(recovered *commit.Recovery) (*loop, error) {
	o := &n.options
	shards := n.engine.Shards()
	l := &loop{
		log: n.log, engine: n.engine, peers: o.Peers, mode: o.Sync, failpoints: o.Failpoints, clock: o.Clock, logger: o.Logger,
		queue: newQueue(&o.Memory), waiting: map[uint16]*swapWait{}, groups: make([]groupView, shards), applied: make([]appliedIndex, shards),
		free: make(chan *round, roundsInFlight), ended: make(chan struct{}), publish: make(chan struct{}, 1),
		transfer: n.transfer, clocks: n.clocks, peerEntries: &n.peers,
	}
	l.input.Applied = make([]uint64, shards)
	l.syncer = newSyncer(n.log, l.queue.signal)
	if l.peers == nil {
		l.peers = noPeers{}
	}
	host := replica.Config{
		Node: o.NodeID, Incarnation: n.engine.Incarnation(), Run: rand.Uint64(), Seed: rand.Uint64(),
		SyncLater: o.Sync != SyncAlways, EntriesBytesMax: int(o.Memory.raftBytes()),
		LaggingBytesMax: int(o.Memory.laggingBytes()),
	}
	var err error
	l.machine, err = commit.New(commit.Config{
		Host: host, Shards: shards, Log: n.log, Logger: o.Logger, Standalone: o.NodeID == aloneID,
	}, recovered)
	if err != nil {
		return nil, err
	}
	for shard, index := range l.machine.Dispatched() {
		l.applied[shard].value.Store(index)
	}
	l.machine.Count(l.appliedNow())
	l.perform()
	return l, nil
}

type commitStats struct{ rounds, writes atomic.Int64 }

func (l *loop) start(appliers int) {
	for range roundsInFlight {
		l.free <- &round{Round: *commit.NewRound(len(l.groups), appliers)}
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
	ticker := time.NewTicker(TickInterval)
	defer ticker.Stop()
	for !l.taken.closed {
		select {
		case <-l.queue.wake:
		case <-ticker.C:
			if l.single.Load() {
				continue
			}
			l.queue.tick()
		}
		for l.turn() {
		}
	}
}

// turn does what there is to do once, and reports whether there may be more.
//
// A goroutine that is woken runs before all others of its processor. Without the yield the
// loop would run as soon as the first writer waits, and each write would be a round of its own,
// with its own write to the log and its own sync, while others are ready to run and to queue
// theirs. On an idle machine there are none, and the yield returns at once.
func (l *loop) turn() bool {
	r := <-l.free
	runtime.Gosched()
	took := l.take()
	ready, err := false, error(nil)
	if !l.failed {
		ready, err = l.machine.Step(&l.input, &r.Round)
		l.perform()
	}
	l.taken.clear()
	switch {
	case err != nil:
		l.breakOff(l.logFailed(err))
	case ready:
		l.commit(r)
		return true
	}
	l.free <- r
	return took
}

// end answers all that still waits.
func (l *loop) end() {
	for l.failed = true; l.take(); {
		l.taken.clear()
	}
	l.failAll(errClosed)
	l.syncer.close()
	for _, queue := range l.appliers {
		close(queue)
	}
	close(l.ended)
}

// take takes what waits, runs the commands, and makes the machine's input of the rest. It
// returns false when there was nothing.
func (l *loop) take() bool {
	t := &l.taken
	l.queue.take(t)
	round, synced, err := l.syncer.news()
	if err != nil && !l.failed {
		l.breakOff(l.logFailed(err))
	}
	if l.failed {
		l.refuse(t)
		return !t.empty()
	}
	for _, c := range t.commands {
		c.run()
		l.perform()
		c.done <- nil
	}
	in := &l.input
	in.PeerBytes, in.Refuses = l.peers.QueueBytes(), l.refusals.ofWrites() != nil
	in.NowMs, in.Ticks, in.Peers, in.Envelopes, in.Reads, in.Writes = l.clock().UnixMilli(), int(t.ticks), t.peers, t.envelopes, t.reads, t.writes
	if in.Synced = 0; synced {
		in.Synced = round
	}
	if in.Ticks > 0 {
		l.appliedNow()
	}
	l.stats.writes.Add(int64(len(t.writes)))
	return !t.empty()
}

// appliedNow returns the last entry of each shard that is applied.
func (l *loop) appliedNow() []uint64 {
	for shard := range l.applied {
		l.input.Applied[shard] = l.applied[shard].value.Load()
	}
	return l.input.Applied
}

// perform does what follows from what the machine was told.
func (l *loop) perform() {
	out := l.machine.Output()
	for _, a := range out.Answers {
		a.Share.Finish(0, a.Err)
	}
	for _, a := range out.Reads {
		a.Read.For.(*readWait).finish(a.Read.Place, a.Index, a.Err)
	}
	for _, w := range out.Held {
		w.Done()
	}
	for _, need := range out.Fetch {
		l.transfer.Fetch(need)
	}
	for _, shard := range out.Drop {
		l.transfer.Drop(shard)
	}
	for _, q := range out.Ask {
		l.transfer.Ask(q)
	}
	for _, shard := range out.Prepared {
		l.waiting[shard].tellPrepared()
	}
	for _, shard := range out.Cancel {
		l.waiting[shard].cancel()
	}
	for _, shard := range out.Viewed {
		v := l.machine.View(shard)
		l.groups[shard].publish(&v)
	}
	if len(out.Viewed) > 0 {
		l.single.Store(l.machine.AllSingleVoter())
	}
	if out.Counted {
		figures := l.machine.Figures()
		l.figures.Store(&figures)
	}
	if out.Unpublished {
		select {
		case l.publish <- struct{}{}:
		default:
		}
	}
	out.Reset()
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

// commit writes the round to the log and hands it on.
func (l *loop) commit(r *round) {
	l.send(r.Early())
	start, err := l.write(r)
	if err != nil {
		l.breakOff(err)
		l.free <- r
		return
	}
	l.stats.rounds.Add(1)
	l.machine.Written(&r.Round, start)
	l.entryBytes.Store(int64(l.machine.Host().HeldBytes()))
	l.send(r.Late())
	l.perform()
	l.dispatch(r)
}

func (l *loop) send(envelopes []replica.Outgoing) {
	for i := range envelopes {
		l.peers.Send(envelopes[i].To, envelopes[i].Bytes)
	}
}

// write writes the round to the log. A full disk is waited for, as what the machine has said cannot
// be taken back; the writes that wait meanwhile are answered.
func (l *loop) write(r *round) (start wal.Position, err error) {
	if r.Buffer.Records() == 0 {
		return 0, nil
	}
	for {
		start, _, err = l.log.Write(&r.Buffer)
		if err == nil {
			break
		}
		var space *wal.SpaceError
		answer := l.logFailed(err)
		if !errors.As(err, &space) || l.awaitSpace(answer) {
			return 0, answer
		}
	}
	if err := l.failpoints.Hit(FailAfterLogWrite); err != nil {
		return 0, l.logFailed(err)
	}
	switch {
	case l.mode == SyncAlways && (r.HasEntries() || r.HasStates()):
		if _, err := l.log.Sync(); err != nil {
			return 0, l.logFailed(err)
		}
	case r.HasStates():
		l.syncer.want(r.Number())
	}
	l.logTook()
	return start, nil
}

// awaitSpace answers all that waits, and waits for a reason to try again: the next
// write, or a moment. It reports whether the node closes.
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

// breakOff ends the loop's work: it is unknown what the log has, so the machine may not
// be used any more.
func (l *loop) breakOff(err error) {
	l.failed, l.broken = true, err
	l.failAll(err)
}

// failAll answers every write and read that waits or is under way. Writes in the log may be
// applied all the same.
func (l *loop) failAll(err error) {
	l.machine.FailAll(err, errNoLog)
	l.perform()
	for i := range l.applied {
		l.applied[i].failAll(errNoLog)
	}
}

// dispatch hands the committed entries of a round to the appliers. The round belongs to them
// once the last of them has it, which may release it before this loop has ended.
func (l *loop) dispatch(r *round) {
	l.active = l.active[:0]
	for i := range r.Entries {
		if len(r.Entries[i]) > 0 {
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

func (l *loop) applyRounds(applier int) {
	for r := range l.appliers[applier] {
		for i := range r.Entries[applier] {
			p := &r.Entries[applier][i]
			err := l.engine.Apply(r.Epoch, &p.Entry)
			if err == nil || !errors.Is(err, storage.ErrStalled) {
				l.applied[p.Entry.Shard].advance(p.Entry.Index)
			}
			l.answer(p, err)
		}
		if r.left.Add(-1) == 0 {
			l.free <- r
		}
	}
}

// answer ends the writes of an entry. One that stalls is applied later and stops all writes
// until then; what is wrong with a batch concerns its writer.
func (l *loop) answer(p *commit.ToApply, err error) {
	var refused *entry.BatchError
	if err != nil && errors.Is(err, storage.ErrStalled) {
		l.refusals.stall(err)
		err = fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	}
	if errors.As(err, &refused) {
		next := 0
		for i, s := range p.Shares {
			if next < len(refused.Batches) && refused.Batches[next] == i {
				s.Finish(0, refused.Errs[next])
				next++
			} else {
				s.Finish(p.Copies, nil)
			}
		}
		return
	}
	for _, s := range p.Shares {
		s.Finish(p.Copies, err)
	}
}

// adopt takes a map, after which the replicas that it asks for are here, or being made.
func (l *loop) adopt(m *shardmap.Map) error {
	if err := l.adoptSharding(m); err != nil {
		return err
	}
	others := l.machine.Others(m)
	l.clocks.Expect(len(others))
	l.peerEntries.expect(others)
	l.machine.Adopt(m)
	l.machine.Count(l.appliedNow())
	return nil
}

// resumed notes what the engine has applied that had stalled: reads wait for it.
func (l *loop) resumed() {
	for shard, index := range l.engine.AppliedIndexes() {
		if l.machine.Steady(uint16(shard)) {
			l.applied[shard].advance(index)
		}
	}
}
