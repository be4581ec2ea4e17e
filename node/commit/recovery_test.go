package commit

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// fakeEngine takes every entry and has none of two shards.
type fakeEngine struct{}

func (fakeEngine) AppliedIndexes() []uint64          { return make([]uint64, 2) }
func (fakeEngine) Replay(uint64, *entry.Entry) error { return nil }
func (fakeEngine) DoubtsIDs() bool                   { return false }
func (fakeEngine) Flush() error                      { return nil }
func (fakeEngine) Resume() error                     { return nil }
func (fakeEngine) DropShard(uint16, uint64) error    { return nil }

// TestRecoveredHistory reads logs whose files were swapped, whose replicas ended and
// came again, and whose group was forced to go on.
func TestRecoveredHistory(t *testing.T) {
	record := func(term, index, commit uint64) *entry.Entry {
		return &entry.Entry{Kind: entry.Empty, Shard: 1, Term: term, Index: index, Gap: index - commit}
	}
	state := func(raftID uint64, era uint32, at replica.Position, removed bool) *entry.Entry {
		s := replica.GroupState{Replica: replica.Replica{Shard: 1, RaftID: raftID, Era: era, Role: 1}, Term: 5, Truncated: at, Removed: removed}
		if removed {
			s = replica.GroupState{Replica: s.Replica, Removed: true}
		}
		return &entry.Entry{Kind: entry.GroupState, Shard: 1, Body: s.AppendTo(nil)}
	}
	tail := func() []*entry.Entry {
		return []*entry.Entry{state(1, 1, replica.Position{}, false), record(1, 1, 0), record(1, 2, 0), record(2, 3, 0), record(2, 4, 0)}
	}
	for _, c := range []struct {
		name    string
		more    []*entry.Entry
		known   bool
		last    uint64
		spent   uint64
		indexed int
	}{
		{"as it was", nil, true, 4, 0, 4},
		{"shortened", []*entry.Entry{state(1, 1, replica.Position{Index: 2, Term: 1}, false)}, true, 4, 0, 4},
		{"overwritten", []*entry.Entry{record(3, 3, 0)}, true, 3, 0, 3},
		{"files within the log, of another history", []*entry.Entry{state(1, 1, replica.Position{Index: 3, Term: 4}, false)}, true, 3, 0, 0},
		{"files beyond the log", []*entry.Entry{state(1, 1, replica.Position{Index: 9, Term: 4}, false), record(4, 10, 9)}, true, 10, 0, 1},
		{"ended", []*entry.Entry{state(1, 1, replica.Position{}, true)}, false, 0, 1, 0},
		{"ended and come again", []*entry.Entry{state(1, 1, replica.Position{}, true), state(7, 1, replica.Position{}, false), record(5, 1, 0)}, true, 1, 1, 1},
		{"forced to go on", []*entry.Entry{state(7, 2, replica.Position{}, false), record(5, 5, 0)}, true, 5, 0, 5},
	} {
		r := NewRecovery(fakeEngine{}, nil, 2, slog.New(slog.DiscardHandler))
		at := wal.Position(1 << 40)
		for _, e := range append(tail(), c.more...) {
			at += 64
			if err := r.Take(at, append(e.AppendHeader(nil), e.Body...)); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		g := &r.groups[1]
		if g.known != c.known || g.last != c.last || g.spent != c.spent || len(r.index.shards[1].positions) != c.indexed || g.hole > 0 {
			t.Errorf("%s: known %v, last %d, spent %d, %d indexed, hole %v", c.name, g.known, g.last, g.spent, len(r.index.shards[1].positions), g.hole)
		}
	}
}

// TestLogThatBeginsWithAnOldState reads a log whose first files were trimmed: it begins with
// a state that is older than what was trimmed for, and lacks entries that the newest state
// does not need.
func TestLogThatBeginsWithAnOldState(t *testing.T) {
	state := func(at replica.Position) *entry.Entry {
		s := replica.GroupState{Replica: replica.Replica{Shard: 1, RaftID: 1, Era: 1, Role: 1}, Term: 5, Truncated: at}
		return &entry.Entry{Kind: entry.GroupState, Shard: 1, Body: s.AppendTo(nil)}
	}
	record := func(index uint64) *entry.Entry {
		return &entry.Entry{Kind: entry.Empty, Shard: 1, Term: 2, Index: index, Gap: 1}
	}
	for _, c := range []struct {
		name  string
		log   []*entry.Entry
		lacks bool
	}{
		{"all that is needed", []*entry.Entry{state(replica.Position{Index: 2, Term: 2}), record(6), record(7), state(replica.Position{Index: 6, Term: 2}), record(8)}, false},
		{"from the hole on", []*entry.Entry{state(replica.Position{Index: 2, Term: 2}), record(6), record(7), state(replica.Position{Index: 5, Term: 2})}, false},
		{"one too few", []*entry.Entry{state(replica.Position{Index: 2, Term: 2}), record(6), record(7), state(replica.Position{Index: 4, Term: 2})}, true},
		{"none of the hole", []*entry.Entry{state(replica.Position{Index: 2, Term: 2}), record(3), record(6)}, true},
		{"a hole below what was written over", []*entry.Entry{state(replica.Position{Index: 2, Term: 2}), record(3), record(7), record(8), record(7), state(replica.Position{Index: 5, Term: 2})}, true},
	} {
		r := NewRecovery(fakeEngine{}, nil, 2, slog.New(slog.DiscardHandler))
		for i, e := range c.log {
			if err := r.Take(wal.Position(64*i), append(e.AppendHeader(nil), e.Body...)); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if is := r.groups[1].lacks(); is != c.lacks {
			t.Errorf("%s: lacks is %v", c.name, is)
		}
	}
}

// applyingEngine notes what is replayed.
type applyingEngine struct {
	fakeEngine
	applied []uint64
}

func (e *applyingEngine) AppliedIndexes() []uint64 { return append([]uint64(nil), e.applied...) }

func (e *applyingEngine) Replay(_ uint64, next *entry.Entry) error {
	e.applied[next.Shard] = next.Index
	return nil
}

// TestDoubtOfReplayedData reads a log that has lost the state of a group, and has entries of it
// that no checkpoint has: their data is of an unknown replica.
func TestDoubtOfReplayedData(t *testing.T) {
	engine := &applyingEngine{applied: make([]uint64, 2)}
	r := NewRecovery(engine, nil, 2, slog.New(slog.DiscardHandler))
	e := entry.Entry{Kind: entry.Empty, Shard: 1, Term: 1, Index: 1}
	if err := r.Take(64, e.AppendHeader(nil)); err != nil {
		t.Fatal(err)
	}
	if engine.applied[1] != 1 {
		t.Fatal("the entry was not applied")
	}
	if err := r.Doubt(nil); err == nil {
		t.Error("no doubt about data whose group's state is lost")
	}
}

// TestWhoGoesOnByItself reads a log that has lost its end. Its replica goes on by itself only if
// it is its group's only member: a learner was told of entries that it has lost.
func TestWhoGoesOnByItself(t *testing.T) {
	self := shardmap.Member{Node: "a", Incarnation: "00", RaftID: 1, Role: shardmap.Full}
	learner := shardmap.Member{Node: "b", Incarnation: "11", RaftID: 2, Role: shardmap.Learner}
	for _, c := range []struct {
		name        string
		learners    []shardmap.Member
		incarnation string
		quarantined int
	}{
		{"the only member", nil, "00", 0},
		{"with a learner", []shardmap.Member{learner}, "22", 1},
		{"the only member, in a folder that was renewed", nil, "22", 1},
	} {
		state := replica.GroupState{
			Replica: replica.Replica{Shard: 1, RaftID: 1, Era: 1, Role: shardmap.Full}, Term: 5, Vote: 1,
			Configuration: replica.Configuration{Members: append([]shardmap.Member{self}, c.learners...), Voters: []uint64{1}},
		}
		for _, l := range c.learners {
			state.Configuration.Learners = append(state.Configuration.Learners, l.RaftID)
		}
		e := entry.Entry{Kind: entry.GroupState, Shard: 1, Body: state.AppendTo(nil)}
		r := NewRecovery(fakeEngine{}, nil, 2, slog.New(slog.DiscardHandler))
		if err := r.Take(64, append(e.AppendHeader(nil), e.Body...)); err != nil {
			t.Fatal(err)
		}
		if doubt := r.Doubt(errors.New("lost")); (doubt != nil) != (len(c.learners) > 0) {
			t.Errorf("%s: doubt %v", c.name, doubt)
		}
		m, err := New(Config{
			Host: replica.Config{Node: "a", Incarnation: c.incarnation, Run: 1, Seed: 1}, Shards: 2, Logger: slog.New(slog.DiscardHandler),
		}, r)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if m.Quarantined() != c.quarantined || c.quarantined == 0 && m.Host().Era(1) != 2 {
			t.Errorf("%s: %d are quarantined, era %d", c.name, m.Quarantined(), m.Host().Era(1))
		}
	}
}

// TestLearnersAreDoubted reads the log of a learner that has lost its end. It has no vote yet, and
// its leader counts on what it has acknowledged as soon as it gets one: with the log of a voter
// that leaves in the same change, the only other copy of an entry may be the one that was lost.
func TestLearnersAreDoubted(t *testing.T) {
	members := []shardmap.Member{
		{Node: "a", Incarnation: "00", RaftID: 1, Role: shardmap.Full},
		{Node: "b", Incarnation: "11", RaftID: 2, Role: shardmap.Learner},
	}
	state := replica.GroupState{
		Replica: replica.Replica{Shard: 1, RaftID: 2, Era: 1, Role: shardmap.Full}, Term: 5,
		Configuration: replica.Configuration{Members: members, Voters: []uint64{1}, Learners: []uint64{2}},
	}
	e := entry.Entry{Kind: entry.GroupState, Shard: 1, Body: state.AppendTo(nil)}
	r := NewRecovery(fakeEngine{}, nil, 2, slog.New(slog.DiscardHandler))
	if err := r.Take(64, append(e.AppendHeader(nil), e.Body...)); err != nil {
		t.Fatal(err)
	}
	if err := r.Doubt(errors.New("lost")); err == nil {
		t.Error("a learner goes on with what it may have lost")
	}
}

// TestQuarantinedStaysOut names a quarantined replica alone by a raft id that its group has used
// already: it does not go on, under its former raft id neither.
func TestQuarantinedStaysOut(t *testing.T) {
	learner := shardmap.Member{Node: "b", Incarnation: "11", RaftID: 2, Role: shardmap.Learner}
	state := replica.GroupState{
		Replica: replica.Replica{Shard: 1, RaftID: 1, Era: 1, Role: shardmap.Full}, Term: 5, Vote: 1,
		Configuration: replica.Configuration{
			Members: []shardmap.Member{{Node: "a", Incarnation: "00", RaftID: 1, Role: shardmap.Full}, learner}, Voters: []uint64{1}, Learners: []uint64{2},
		},
	}
	e := entry.Entry{Kind: entry.GroupState, Shard: 1, Body: state.AppendTo(nil)}
	r := NewRecovery(fakeEngine{}, nil, 2, slog.New(slog.DiscardHandler))
	if err := r.Take(64, append(e.AppendHeader(nil), e.Body...)); err != nil {
		t.Fatal(err)
	}
	if err := r.Doubt(errors.New("lost")); err == nil {
		t.Fatal("no doubt")
	}
	m, err := New(Config{Host: replica.Config{Node: "a", Incarnation: "22", Run: 1, Seed: 1}, Shards: 2, Logger: slog.New(slog.DiscardHandler)}, r)
	if err != nil {
		t.Fatal(err)
	}
	alone := shardmap.Row{Version: 9, RaftIDLast: 2, Era: 2, Members: []shardmap.Member{{Node: "a", Incarnation: "22", RaftID: 2, Role: shardmap.Full}}}
	m.Adopt(&shardmap.Map{Epoch: 9, Rows: []shardmap.Row{{}, alone}})
	if _, err := m.Host().Status(1); err == nil || m.Quarantined() != 1 {
		t.Errorf("it takes part: %v; %d are quarantined", err, m.Quarantined())
	}
	alone.RaftIDLast, alone.Members[0].RaftID = 3, 3
	m.Adopt(&shardmap.Map{Epoch: 10, Rows: []shardmap.Row{{}, alone}})
	if s, err := m.Host().Status(1); err != nil || s.RaftID != 3 || m.Quarantined() != 0 {
		t.Errorf("it does not go on: %v, raft id %d, %d are quarantined", err, s.RaftID, m.Quarantined())
	}
}

// records are a log of which each record takes one byte.
type records [][]byte

func (r records) Record(at wal.Position, _ []byte) ([]byte, error) { return r[at], nil }
func (r records) End() wal.Position                                { return wal.Position(len(r)) }

// TestQuarantinedAsksForWhatIsKept reads the log of a group that had one voter before it had a learner,
// and has lost its end: a log from the lowWater on, which is what the next start finds, is as good.
func TestQuarantinedAsksForWhatIsKept(t *testing.T) {
	state := replica.GroupState{
		Replica: replica.Replica{Shard: 1, RaftID: 1, Era: 1, Role: shardmap.Full}, Term: 2, Vote: 1, Commit: 4,
		Configuration: replica.Configuration{
			Members: []shardmap.Member{{Node: "a", Incarnation: "00", RaftID: 1, Role: shardmap.Full}, {Node: "b", Incarnation: "11", RaftID: 2, Role: shardmap.Learner}},
			Voters:  []uint64{1}, Learners: []uint64{2},
		},
	}
	var log records
	put := func(e entry.Entry) { log = append(log, append(e.AppendHeader(nil), e.Body...)) }
	for i := range uint64(5) {
		put(entry.Entry{Kind: entry.Empty, Shard: 1, Term: 1 + i/2, Index: 1 + i, Gap: i / 2})
	}
	put(entry.Entry{Kind: entry.GroupState, Shard: 1, Body: state.AppendTo(nil)})
	engine := &applyingEngine{applied: make([]uint64, 2)}
	start := func(incarnation string, from wal.Position, lost error) *Machine {
		t.Helper()
		r := NewRecovery(engine, log, 2, slog.New(slog.DiscardHandler))
		for i, record := range log[from:] {
			if err := r.Take(from+wal.Position(i), record); err != nil {
				t.Fatal(err)
			}
		}
		if doubt := r.Doubt(lost); (doubt != nil) != (lost != nil) {
			t.Fatalf("from record %d on: doubt %v", from, doubt)
		}
		m, err := New(Config{Host: replica.Config{Node: "a", Incarnation: incarnation, Run: 1, Seed: 1}, Shards: 2, Logger: slog.New(slog.DiscardHandler)}, r)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := start("22", 0, errors.New("lost"))
	states := m.states()
	if len(states) != 1 || m.Quarantined() != 1 || states[0].Truncated != (replica.Position{Index: 2, Term: 1}) {
		t.Fatalf("%d are quarantined: %+v", m.Quarantined(), states)
	}
	lowWater := m.LowWater()
	if lowWater != 2 {
		t.Fatalf("the log is kept from %d on", lowWater)
	}
	put(entry.Entry{Kind: entry.GroupState, Shard: 1, Body: states[0].AppendTo(nil)})
	if m = start("22", lowWater, nil); m.Quarantined() != 1 || m.states()[0].Truncated != states[0].Truncated {
		t.Errorf("%d are quarantined: %+v", m.Quarantined(), m.states())
	}
}
