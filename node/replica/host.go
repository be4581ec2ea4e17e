package replica

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// Host holds a node's replicas of all groups. It finds the group that a call is for, ticks
// the groups, and collects their work into Rounds. It has no rule of Raft: those are in
// group. See the package's doc.
type Host struct {
	shared  *shared
	byShard []*group // by shard; nil: none
	groups  []*group // by shard, without the nils
	waiting bool     // between Ready and Advance
	rounds  uint64   // number of the last Round
}

// New returns a Host without groups. Errors: ErrArgument.
func New(config Config, log Log) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Host{shared: newShared(config, log)}, nil
}

// LogSummary describes the entries of one group that the node's log has at a start.
type LogSummary struct {
	Last    uint64    // index of the last entry
	Runs    []TermRun // terms of the entries after the truncation
	Changes []uint64  // indexes of the entries of KindChange
	Applied uint64    // what the engine has applied
}

// Create adds a replica that has never existed. If members is not nil, the group is new
// and members is its first configuration; if it is nil, the replica waits for a snapshot
// from its leader. Errors: ErrExists, ErrArgument.
func (h *Host) Create(r Replica, members []shardmap.Member) error {
	if h.group(r.Shard) != nil {
		return fmt.Errorf("%w: shard %d", ErrExists, r.Shard)
	}
	state := GroupState{Replica: r}
	if members != nil {
		state.Configuration = fresh(members)
		if state.Configuration.isOnlyMember(r.RaftID) {
			state.Term, state.Vote = 1, r.RaftID
		}
	}
	if err := h.add(state, LogSummary{}); err != nil {
		return err
	}
	h.group(r.Shard).logState(true)
	return nil
}

// Restore adds a replica that existed before a restart, from its newest state in the log
// and a summary of its entries. Errors: ErrExists, ErrState, ErrArgument.
func (h *Host) Restore(state GroupState, log LogSummary) error {
	if h.group(state.Shard) != nil {
		return fmt.Errorf("%w: shard %d", ErrExists, state.Shard)
	}
	if state.Removed {
		return fmt.Errorf("%w: shard %d has been removed", ErrState, state.Shard)
	}
	return h.add(state, log)
}

// Remove ends the replica of a shard, whose raft id is never used again. Its outstanding
// proposals and reads come back in Failed. Errors: ErrNoGroup.
func (h *Host) Remove(shard uint16) error {
	g := h.group(shard)
	if g == nil {
		return ErrNoGroup
	}
	g.failAll(&NotLeaderError{Shard: shard})
	g.dropHeld(&NotLeaderError{Shard: shard})
	g.backlog.forget()
	g.log.tailBytes.release()
	h.byShard[shard] = nil
	h.groups = slices.DeleteFunc(h.groups, func(other *group) bool { return other == g })
	h.shared.groups = len(h.groups)
	h.shared.next.forget(g)
	if h.shared.exceeding == g {
		h.shared.exceeding = nil
	}
	h.shared.peers.recount(h.groups)
	return nil
}

// add makes a group and keeps groups in the order of their shards.
func (h *Host) add(state GroupState, log LogSummary) error {
	g, err := newGroup(h.shared, state, log)
	if err != nil {
		return err
	}
	if n := int(state.Shard) + 1; n > len(h.byShard) {
		h.byShard = append(h.byShard, make([]*group, n-len(h.byShard))...)
	}
	h.byShard[state.Shard] = g
	at, _ := slices.BinarySearchFunc(h.groups, state.Shard, func(g *group, shard uint16) int {
		return cmp.Compare(g.replica.Shard, shard)
	})
	h.groups = slices.Insert(h.groups, at, g)
	h.shared.groups = len(h.groups)
	h.shared.peers.recount(h.groups)
	g.mark()
	return nil
}

// group returns the group of a shard; nil if there is none.
func (h *Host) group(shard uint16) *group {
	if int(shard) >= len(h.byShard) {
		return nil
	}
	return h.byShard[shard]
}

// membersMayDiffer recounts which nodes share groups with this one if the members of a
// group have changed since it was called last.
func (h *Host) membersMayDiffer() {
	if h.shared.membersChanged {
		h.shared.membersChanged = false
		h.shared.peers.recount(h.groups)
	}
}

// working returns the group of a shard. Errors: ErrNoGroup, and the ErrFault of a group
// that has stopped.
func (h *Host) working(shard uint16) (*group, error) {
	g := h.group(shard)
	if g == nil {
		return nil, ErrNoGroup
	}
	if g.fault != nil {
		return nil, g.fault
	}
	return g, nil
}

// Tick advances time by one tick, but not for groups that wait for a sync: a leader with a
// slow disk would otherwise conclude that nobody answers it.
func (h *Host) Tick() {
	h.shared.ticks++
	h.shared.lagging.ticked = true
	for _, node := range h.shared.peers.tick(h.shared.ticks) {
		h.wakeWith(node)
	}
	h.shared.peers.learnSlowness(h.shared.ticks)
	for _, g := range h.groups {
		if !g.single && !g.hibernating && g.fault == nil && g.hold.round == 0 {
			g.tickGroup()
		}
	}
}

// Ready fills round with what has to be done, and reports whether there is anything. It
// returns false until the Round before is advanced.
func (h *Host) Ready(round *Round) bool {
	if h.waiting {
		return false
	}
	next := &h.shared.next
	round.reset()
	round.Number = h.rounds + 1
	next.begin(round)
	const passesMax = 8 // a pass may begin what the next one ends; the bound makes sure that Ready returns
	for range passesMax {
		h.collectDirty(round)
		next.drain(round)
		h.shared.peers.drain(round)
		h.shared.lagging.bytes = 0
		if !round.empty() {
			h.waiting, h.rounds = true, round.Number
			return true
		}
		// The library has gone on without anything to write or send, such as by a commit at a
		// witness. Advance it, since more may follow.
		h.advanceAll()
		if len(next.dirty) == 0 {
			break
		}
	}
	return false
}

// collectDirty adds the work of the marked groups to round.
func (h *Host) collectDirty(round *Round) {
	next := &h.shared.next
	dirty := next.dirty
	next.dirty = next.dirty[len(next.dirty):] // marks made meanwhile count for the next Round
	for _, g := range dirty {
		g.dirty = false
		g.collect(round)
		h.membersMayDiffer()
	}
	if len(next.dirty) == 0 {
		next.dirty = dirty[:0]
	}
}

// Advance is called when the States and Appends of the Round that Ready filled are written
// and, if Round.Sync is set without Config.SyncLater, synced.
func (h *Host) Advance(*Round) {
	if !h.waiting {
		return
	}
	h.waiting = false
	h.advanceAll()
}

// advanceAll advances the groups with something in the Round.
func (h *Host) advanceAll() {
	inRound := h.shared.next.inRound
	for _, g := range inRound {
		if g.hold.round == 0 { // else release does it, after the sync
			g.advance()
		}
	}
	clear(inRound)
	h.shared.next.inRound = inRound[:0]
}

// Synced is called when the States of all Rounds up to number are durable, and returns the
// shards of the groups that waited for that. Without Config.SyncLater it has no effect.
func (h *Host) Synced(number uint64) (shards []uint16) {
	held := h.shared.next.holding
	h.shared.next.holding = nil
	for _, g := range held {
		if g.hold.round > number {
			h.shared.next.holding = append(h.shared.next.holding, g)
			continue
		}
		g.release()
		shards = append(shards, g.replica.Shard)
	}
	return shards
}

// Receive handles the bytes of an envelope from a node, and keeps them. Messages for groups or raft
// ids that are not here are dropped. Errors: envelope.Err; the messages before the first bad
// one have been handled then.
func (h *Host) Receive(from string, sent []byte) error {
	run, d, err := envelope.Open(sent)
	if err != nil {
		return err
	}
	if h.shared.peers.heardFrom(from, run) {
		h.wakeWith(from)
	}
	var m envelope.Message
	for len(d.Rest) > 0 {
		if d.Message(&m); d.Broken {
			return fmt.Errorf("%w: message of type %d", envelope.Err, m.Kind)
		}
		g := h.group(m.Shard)
		if g == nil || g.node == nil || m.To != g.replica.RaftID {
			continue
		}
		g.meet(m.From, from)
		g.take(&m)
		h.membersMayDiffer()
	}
	return nil
}

// PeerUp is called when a connection to node is made. Leaders send what they held back for
// node with the next tick.
func (h *Host) PeerUp(node string) {
	for _, g := range h.groups {
		g.peerUp(node)
	}
}

// PeerDown is called when the connection to node is lost, and with it all messages under
// way. Followers give up a leader on node as if an election timeout had passed, so that a
// killed process is replaced soon. A leader that is alive is heard again before they
// campaign, or keeps its lead by PreVote.
func (h *Host) PeerDown(node string) {
	for _, g := range h.groups {
		g.peerDown(node)
	}
	h.wakeWith(node)
}

// wakeWith wakes the hibernating groups that rely on the node's beats.
func (h *Host) wakeWith(node string) {
	for _, g := range h.groups {
		g.peerSilent(node)
	}
}

// Propose proposes an entry. The token, which must not be 0, comes back in Committed or in
// Failed. The parts must not change until the next call of Ready and, if that fills a Round,
// until that Round is advanced; what waits longer is copied. Errors, after which nothing is
// proposed: NotLeaderError, series.ErrOverloaded (too much without an outcome), ErrBusy (the
// leadership is being transferred), ErrNoGroup, ErrFault, ErrArgument.
func (h *Host) Propose(shard uint16, kind uint8, parts [][]byte, token uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.propose(kind, parts, token)
}

// Read requests an index such that a state to which all entries up to it are applied has
// all that was committed before the call. The token, which must not be 0, comes back in Reads
// or in Failed. Errors: NotLeaderError, series.ErrOverloaded, ErrNoGroup, ErrFault, ErrArgument.
func (h *Host) Read(shard uint16, token uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.read(token)
}

// Applied is called when the engine has applied the shard's entries up to index. It must be
// called continually, since a follower whose appliers are behind by Config.BacklogBytesMax
// takes no further entries.
func (h *Host) Applied(shard uint16, index uint64) {
	g := h.group(shard)
	if g == nil {
		return
	}
	g.noteApplied(index)
}

// Durable is called when the engine could start without the shard's entries up to index. The
// replica tells its leader, which tells all members up to where nobody needs the log any
// more (GroupStatus.Trim). These messages may be lost, so call it again at each checkpoint.
func (h *Host) Durable(shard uint16, index uint64) {
	g := h.group(shard)
	if g == nil {
		return
	}
	g.noteDurable(index)
}

// CompactTo makes the shard's entries up to index unnecessary in the log, as far as they
// are committed and were in a Round's Committed. The next Round has the state to log; the
// records may be deleted only after that. Errors: ErrNoGroup, ErrFault.
func (h *Host) CompactTo(shard uint16, index uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	g.compactTo(index)
	return nil
}

// Change asks the leader to bring its group to the configuration target: in one step
// if at most one vote changes and nothing else, else through a joint configuration
// that the leader leaves by itself. The outcome is seen in Status. The change may be lost
// with the leader and has to be repeated then. Errors: NotLeaderError, ErrBusy (another
// change, a transfer or a sync is under way), ErrArgument, ErrNoGroup, ErrFault.
func (h *Host) Change(shard uint16, target []shardmap.Member) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.changeTo(target)
}

// Transfer asks the leader to hand its group to the replica on node. It takes at most
// an election timeout, in which proposals are refused with ErrBusy (HandingOver). A full voter that
// is asked to have the group handed to itself asks the leader, which may refuse. After
// a transfer that came to nothing writes go on for a while: ErrBusy. Errors:
// NotLeaderError, ErrBusy, ErrArgument (no full voter there), ErrNoGroup, ErrFault.
func (h *Host) Transfer(shard uint16, node string) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.transferTo(node)
}

// Refuse tells whether the node takes no writes for now, as its disk does not. When that has lasted for briefRefusal, groups that it leads are
// handed over to full voters that have all of their logs. It asks for none. It may lead all the same, as somebody has to answer reads.
func (h *Host) Refuse(refuses bool) {
	if h.shared.refuses == refuses {
		return
	}
	h.shared.refuses, h.shared.refusesSince = refuses, h.shared.ticks
	for _, g := range h.groups {
		switch {
		case !refuses:
			g.refusedUntil = 0 // the next time is another one: nothing is known of heirs then
		case g.leads():
			g.wake()
		}
	}
}

// Force makes the shard's replica the only member of its group, under a new raft id and in a
// new era, with what its log has, which may be nothing. It is for a group that has lost its
// majority for good. The caller must have made sure that no other replica goes on, and that
// no other log has a greater last (term, index): entries of other logs beyond it are lost.
// Errors: ErrNoGroup, ErrFault, ErrBusy (a Round is under way, or a sync that the group
// waits for), ErrArgument (an era or a raft id that is not new, or a witness).
func (h *Host) Force(shard uint16, raftID uint64, era uint32) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if h.waiting {
		return fmt.Errorf("%w: a round is under way", ErrBusy)
	}
	err = g.force(raftID, era)
	h.membersMayDiffer()
	return err
}

// SnapshotMeta returns the metadata of files that have all entries up to index. Errors:
// ErrTruncated (the log has no such entry any more, or not yet), ErrNoGroup, ErrFault.
func (h *Host) SnapshotMeta(shard uint16, index uint64) (SnapshotMeta, error) {
	g, err := h.working(shard)
	if err != nil {
		return SnapshotMeta{}, err
	}
	term, err := g.log.term(index)
	if err != nil || index > g.cursor {
		return SnapshotMeta{}, fmt.Errorf("%w: shard %d, index %d", ErrTruncated, shard, index)
	}
	return SnapshotMeta{Position: Position{index, term}, Era: g.replica.Era, Configuration: g.config.clone()}, nil
}

// PrepareSnapshot begins the swap of a replica's files. Until InstallSnapshot or
// AbortSnapshot the replica takes no further entry and hands none to Committed. The files may be
// swapped when a Round names the shard in Prepared, and that Round and all Committed before
// it are done with: the log then says that a swap is under way, so that a start after a
// crash looks at what the engine has. Errors: ErrSnapshot (the replica has as much, leads,
// or is not in the configuration), ErrBusy, ErrNoGroup, ErrFault.
func (h *Host) PrepareSnapshot(shard uint16, meta SnapshotMeta) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.prepareSnapshot(meta)
}

// AbortSnapshot ends what PrepareSnapshot began. The old files must still be in place.
func (h *Host) AbortSnapshot(shard uint16) {
	if g := h.group(shard); g != nil && g.installing != nil && !g.installed {
		g.installing, g.announce = nil, false
		g.logState(false)
	}
}

// InstallSnapshot is called when the files of meta are in place. The next Round has the
// state that begins after them. Errors: ErrSnapshot (the shard was not Prepared for it, or
// the group has gone on), ErrNoGroup, ErrFault.
func (h *Host) InstallSnapshot(shard uint16, meta SnapshotMeta) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.installSnapshot(meta)
}
