package replica

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Host is a node's replicas of all groups. See the package's doc.
type Host struct {
	config  Config
	reader  Log
	rng     *rand.Rand
	byShard []*group // by shard; nil: none
	order   []*group // by shard, without the nils
	dirty   []*group // may have something for the next Round
	inRound []*group // have something in the Round that is under way
	waiting bool     // a Round is under way
	rounds  uint64   // number of the last Round
	holding []*group // wait for a sync
	peers   []*peer  // by name
	ticks   int
	slowest int // ticks beyond an election timeout that some peer may be silent

	// For the next Round.
	removed   []GroupState
	released  []Committed // what waited for a sync, in order
	prepared  []uint16
	failed    []Failure
	reads     []ReadReady
	snapshots []SnapshotNeed
}

// New makes a Host without groups. Error: ErrArgument.
func New(config Config, log Log) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Host{
		config: config,
		reader: log,
		rng:    rand.New(rand.NewPCG(config.Seed, 0x7469636b6d657368)),
	}, nil
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
		if state.Configuration.lone(r.RaftID) {
			state.Term, state.Vote = 1, r.RaftID
		}
	}
	if err := h.add(state, LogSummary{}); err != nil {
		return err
	}
	h.logState(h.group(r.Shard), true)
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
	h.failAll(g, &NotLeaderError{Shard: shard})
	h.dropHeld(g, &NotLeaderError{Shard: shard})
	h.byShard[shard] = nil
	h.order = slices.DeleteFunc(h.order, func(other *group) bool { return other == g })
	h.dirty = slices.DeleteFunc(h.dirty, func(other *group) bool { return other == g })
	h.inRound = slices.DeleteFunc(h.inRound, func(other *group) bool { return other == g })
	h.removed = append(h.removed, GroupState{Replica: g.replica, Removed: true})
	h.countPeers()
	return nil
}

func (h *Host) group(shard uint16) *group {
	if int(shard) >= len(h.byShard) {
		return nil
	}
	return h.byShard[shard]
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

func (h *Host) add(state GroupState, log LogSummary) error {
	g, err := h.newGroup(state, log)
	if err != nil {
		return err
	}
	if n := int(state.Shard) + 1; n > len(h.byShard) {
		h.byShard = append(h.byShard, make([]*group, n-len(h.byShard))...)
	}
	h.byShard[state.Shard] = g
	at, _ := slices.BinarySearchFunc(h.order, state.Shard, func(g *group, shard uint16) int {
		return cmp.Compare(g.replica.Shard, shard)
	})
	h.order = slices.Insert(h.order, at, g)
	h.countPeers()
	h.mark(g)
	return nil
}

// mark lets the next Ready look at g.
func (h *Host) mark(g *group) {
	if !g.dirty {
		g.dirty = true
		h.dirty = append(h.dirty, g)
	}
}

// logState puts g's state into the next Round.
func (h *Host) logState(g *group, sync bool) {
	g.logDue, g.syncDue = true, g.syncDue || sync
	h.mark(g)
}

func (h *Host) fail(g *group, token uint64, err error) {
	h.failed = append(h.failed, Failure{Shard: g.replica.Shard, Token: token, Err: err})
}

// Tick is the passing of one tick. For groups that wait for a sync none passes: a slow
// disk is no reason for a leader to think that nobody answers.
func (h *Host) Tick() {
	h.ticks++
	h.tickPeers()
	h.learnSlowness()
	for _, g := range h.order {
		if !g.lone && !g.quiet && g.fault == nil && g.hold.round == 0 {
			h.tickGroup(g)
		}
	}
}

// Ready fills round with what has to be done, if there is anything and no other Round
// is under way.
func (h *Host) Ready(round *Round) bool {
	if h.waiting {
		return false
	}
	round.reset()
	round.Number = h.rounds + 1
	// A shard that was removed and made anew is logged in that order.
	round.States = append(round.States, h.removed...)
	round.Sync = len(h.removed) > 0
	h.removed = h.removed[:0]
	round.Committed = append(round.Committed, h.released...)
	clear(h.released)
	h.released = h.released[:0]
	const passesMax = 8 // each ends what the one before has begun
	for range passesMax {
		h.collectDirty(round)
		h.takeQueued(round)
		if !round.empty() {
			h.waiting, h.rounds = true, round.Number
			return true
		}
		// What the library did needs nothing to be done, such as a commit at a witness.
		h.advanceAll()
		if len(h.dirty) == 0 {
			break
		}
	}
	return false
}

func (h *Host) collectDirty(round *Round) {
	dirty := h.dirty
	h.dirty = h.dirty[len(h.dirty):] // marks made meanwhile count for the next Round
	for _, g := range dirty {
		g.dirty = false
		h.collect(g, round)
	}
	if len(h.dirty) == 0 {
		h.dirty = dirty[:0]
	}
}

// takeQueued puts into the Round what was queued for it.
func (h *Host) takeQueued(round *Round) {
	round.Failed = append(round.Failed, h.failed...)
	round.Reads = append(round.Reads, h.reads...)
	round.Snapshots = append(round.Snapshots, h.snapshots...)
	round.Prepared = append(round.Prepared, h.prepared...)
	clear(h.failed)
	h.failed, h.reads, h.snapshots, h.prepared = h.failed[:0], h.reads[:0], h.snapshots[:0], h.prepared[:0]
	h.sealEnvelopes(round)
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
	inRound := h.inRound
	for _, g := range inRound {
		if g.hold.round == 0 { // else when it is released
			h.advance(g)
		}
	}
	clear(inRound)
	h.inRound = inRound[:0]
}
