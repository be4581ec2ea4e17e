package replica

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Host is a node's replicas of all groups: it finds the group that a call is for, passes
// the ticks, and fills Rounds. What a group does is the group's own; a Host knows no rule
// of Raft. See the package's doc.
type Host struct {
	shared  *shared
	byShard []*group // by shard; nil: none
	groups  []*group // by shard, without the nils
	waiting bool     // a Round is under way
	rounds  uint64   // number of the last Round
}

// New makes a Host without groups. Error: ErrArgument.
func New(config Config, log Log) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Host{shared: newShared(config, log)}
	h.shared.groups = &h.groups
	return h, nil
}

// LogSummary is what the node's log has of one group.
type LogSummary struct {
	Last    uint64    // index of the last entry
	Runs    []TermRun // terms of the entries after the truncation
	Changes []uint64  // indexes of the entries of KindChange
	Applied uint64    // what the engine has applied
}

// Create makes a replica that has never been. With members it is one of a fresh
// group whose first configuration they are; without, it waits for its leader's
// snapshot. Errors: ErrExists, ErrArgument.
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

// Restore brings back a replica at the start, from its newest logged state and what
// the log has of its entries. Errors: ErrExists, ErrState, ErrArgument.
func (h *Host) Restore(state GroupState, log LogSummary) error {
	if h.group(state.Shard) != nil {
		return fmt.Errorf("%w: shard %d", ErrExists, state.Shard)
	}
	if state.Removed {
		return fmt.Errorf("%w: shard %d has been removed", ErrState, state.Shard)
	}
	return h.add(state, log)
}

// Remove ends the shard's replica here; its raft id is retired for ever. What it held
// is failed. Error: ErrNoGroup.
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
	h.shared.next.forget(g)
	h.shared.peers.recount(h.groups)
	return nil
}

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
	h.shared.peers.recount(h.groups)
	g.mark()
	return nil
}

func (h *Host) group(shard uint16) *group {
	if int(shard) >= len(h.byShard) {
		return nil
	}
	return h.byShard[shard]
}

// membersMayDiffer counts anew which nodes share groups, if a group's members have changed.
func (h *Host) membersMayDiffer() {
	if h.shared.membersChanged {
		h.shared.membersChanged = false
		h.shared.peers.recount(h.groups)
	}
}

// working returns a group that takes calls.
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

// Tick is the passing of one tick. For groups that wait for a sync none passes: a slow
// disk is no reason for a leader to think that nobody answers.
func (h *Host) Tick() {
	h.shared.ticks++
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

// Ready fills round with what has to be done, if there is anything and no other Round
// is under way.
func (h *Host) Ready(round *Round) bool {
	if h.waiting {
		return false
	}
	next := &h.shared.next
	round.reset()
	round.Number = h.rounds + 1
	next.begin(round)
	const passesMax = 8 // each ends what the one before has begun
	for range passesMax {
		h.collectDirty(round)
		next.drain(round)
		h.shared.peers.drain(round)
		if !round.empty() {
			h.waiting, h.rounds = true, round.Number
			return true
		}
		// What the library did needs nothing to be done, such as a commit at a witness.
		h.advanceAll()
		if len(next.dirty) == 0 {
			break
		}
	}
	return false
}

// collectDirty lets the groups that may have something put it into the Round.
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

// Advance says that round's States and Appends are written, and States synced if
// round.Sync, but for Config.SyncLater.
func (h *Host) Advance(*Round) {
	if !h.waiting {
		return
	}
	h.waiting = false
	h.advanceAll()
}

func (h *Host) advanceAll() {
	inRound := h.shared.next.inRound
	for _, g := range inRound {
		if g.hold.round == 0 { // else when it is released
			g.advance()
		}
	}
	clear(inRound)
	h.shared.next.inRound = inRound[:0]
}

// Synced says that the States of all Rounds up to the one with this number are durable,
// and returns the shards of the groups that waited for it. It is for Config.SyncLater, and
// has no effect without.
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

// Receive takes an envelope from a node. The bytes belong to the Host from then on.
// Messages for groups or raft ids that are not here are dropped. Error: ErrEnvelope;
// messages before the first bad one have been taken.
func (h *Host) Receive(from string, envelope []byte) error {
	run, d, err := openEnvelope(envelope)
	if err != nil {
		return err
	}
	if h.shared.peers.heardFrom(from, run) {
		h.wakeWith(from)
	}
	var m message
	for len(d.rest) > 0 {
		if d.message(&m); d.broken {
			return fmt.Errorf("%w: message of type %d", ErrEnvelope, m.kind)
		}
		g := h.group(m.shard)
		if g == nil || g.node == nil || m.to != g.replica.RaftID {
			continue
		}
		g.meet(m.from, from)
		g.take(&m)
		h.membersMayDiffer()
	}
	return nil
}

// PeerUp says that a connection to node stands: what was held back for it goes out
// with the next tick.
func (h *Host) PeerUp(node string) {
	for _, g := range h.groups {
		g.peerUp(node)
	}
}

// PeerDown says that the connection to node broke: what was under way is lost. What it
// leads is given up as after an election timeout, so that a killed process costs
// little. If it lives, it is heard again before a campaign, or PreVote keeps it.
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

// Propose asks for an entry. The token, not 0, comes back in Committed or in Failed.
// The parts must not change until Ready has been called and its Round, if it gave one,
// is over: what has to wait longer is copied. Errors, after which nothing is proposed:
// NotLeaderError, series.ErrOverloaded (too much without an outcome), ErrBusy (the
// leadership is being transferred), ErrNoGroup, ErrFault, ErrArgument.
func (h *Host) Propose(shard uint16, kind uint8, parts [][]byte, token uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.propose(kind, parts, token)
}

// Read asks for an index such that what is applied up to it is all that was committed
// before the call. The token, not 0, comes back in Reads or in Failed. Errors:
// NotLeaderError, series.ErrOverloaded, ErrNoGroup, ErrFault, ErrArgument.
func (h *Host) Read(shard uint16, token uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.read(token)
}

// Applied says that the engine has applied the shard's entries up to index. It must be
// called as appliers go on: a follower whose appliers are behind by
// Config.BacklogBytesMax takes no further entries.
func (h *Host) Applied(shard uint16, index uint64) {
	g := h.group(shard)
	if g == nil {
		return
	}
	g.noteApplied(index)
}

// Durable says that the engine could start without the shard's entries up to index.
// The leader learns it, and tells all members up to where nobody needs the log any
// more (GroupStatus.Trim). Word of it may be lost: say it again at each checkpoint.
func (h *Host) Durable(shard uint16, index uint64) {
	g := h.group(shard)
	if g == nil {
		return
	}
	g.noteDurable(index)
}

// CompactTo lets the log forget the shard's entries up to index, or as far as they
// are committed and given out. The next Round has the state to log; only after that
// may the records go. Errors: ErrNoGroup, ErrFault.
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
// that the leader leaves by itself. Nothing comes back: look at the Status. It may be
// lost with the leader; repeat it. Errors: NotLeaderError, ErrBusy (another change, a
// transfer or a sync is under way), ErrArgument, ErrNoGroup, ErrFault.
func (h *Host) Change(shard uint16, target []shardmap.Member) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.changeTo(target)
}

// Transfer asks the leader to hand its group to the replica on node. It takes at most
// an election timeout, in which proposals are refused with ErrBusy. A full voter that
// is asked to have the group handed to itself asks the leader, which may refuse. Errors:
// NotLeaderError, ErrBusy, ErrArgument (no full voter there), ErrNoGroup, ErrFault.
func (h *Host) Transfer(shard uint16, node string) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.transferTo(node)
}

// Force lets the shard's replica here go on alone, under a new raft id and in a new
// era, with all that its log has, be it nothing. It is for a group that has lost its majority for
// ever: the caller has made sure that no other replica goes on, and has chosen the
// log with the greatest last (term, index). What other logs had beyond it is lost.
// Errors: ErrNoGroup, ErrFault, ErrBusy (a Round is under way, or a sync that the group waits for), ErrArgument (an era or
// a raft id that is not new, or a witness).
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

// SnapshotMeta gives what goes with files that hold all entries up to index. Errors:
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

// PrepareSnapshot begins the swap of a replica's files: until InstallSnapshot or
// AbortSnapshot no further entry is taken or given out. The files may be swapped when a
// Round names the shard as Prepared, and that Round and all Committed before are done
// with: the log then says that a swap is under way, and a start after a crash looks at
// what the engine has. Errors: ErrSnapshot (the replica has as much, leads, or is not in
// the configuration), ErrBusy, ErrNoGroup, ErrFault.
func (h *Host) PrepareSnapshot(shard uint16, meta SnapshotMeta) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.prepareSnapshot(meta)
}

// AbortSnapshot ends what PrepareSnapshot began: the old files are still there.
func (h *Host) AbortSnapshot(shard uint16) {
	if g := h.group(shard); g != nil && g.installing != nil && !g.installed {
		g.installing, g.announce = nil, false
		g.logState(false)
	}
}

// InstallSnapshot says that the files which meta belongs to are in place. The next
// Round has the state that begins after them. Errors: ErrSnapshot (the shard was not
// Prepared for it, or the group has gone on), ErrNoGroup, ErrFault.
func (h *Host) InstallSnapshot(shard uint16, meta SnapshotMeta) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	return g.installSnapshot(meta)
}

// State returns a replica's state, to be logged again at a checkpoint of the node's log.
// It must be called between Advance and Ready. Errors: ErrNoGroup, ErrBusy.
func (h *Host) State(shard uint16) (GroupState, error) {
	g := h.group(shard)
	if g == nil {
		return GroupState{}, ErrNoGroup
	}
	if h.waiting {
		return GroupState{}, fmt.Errorf("%w: a round is under way", ErrBusy)
	}
	return g.durable(), nil
}

// Status tells about the shard's replica here. Error: ErrNoGroup.
func (h *Host) Status(shard uint16) (GroupStatus, error) {
	g := h.group(shard)
	if g == nil {
		return GroupStatus{}, ErrNoGroup
	}
	return g.status(), nil
}

// Era returns the era of the shard's replica here; 0: there is none.
func (h *Host) Era(shard uint16) uint32 {
	if g := h.group(shard); g != nil {
		return g.replica.Era
	}
	return 0
}

// Shards returns the shards that have a replica here, growing.
func (h *Host) Shards() []uint16 {
	out := make([]uint16, 0, len(h.groups))
	for _, g := range h.groups {
		out = append(out, g.replica.Shard)
	}
	return out
}
