package commit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// memoryLog is a log in memory. Its positions are offsets of buffers.
type memoryLog struct {
	bytes   []byte
	records map[wal.Position][]byte
}

func (l *memoryLog) End() wal.Position { return wal.Position(len(l.bytes)) }

func (l *memoryLog) Record(at wal.Position, _ []byte) ([]byte, error) {
	if r, ok := l.records[at]; ok {
		return r, nil
	}
	return nil, errors.New("no record there")
}

func (l *memoryLog) write(r *Round) wal.Position {
	start := l.End()
	for _, at := range r.records {
		l.records[start+wal.Position(at)] = bytes.Clone(r.Buffer.Record(at))
	}
	l.bytes = append(l.bytes, make([]byte, r.Buffer.Len())...)
	return start
}

// testNode drives a Machine by hand, one call after the other.
type testNode struct {
	t       *testing.T
	machine *Machine
	log     *memoryLog
	round   *Round
	applied []uint64
	drops   []uint16
	asked   []Question
	trace   []string
}

func newTestNode(t *testing.T) *testNode {
	n := &testNode{t: t, log: &memoryLog{records: map[wal.Position][]byte{}}, round: NewRound(2, 1), applied: make([]uint64, 2)}
	logger := slog.New(slog.DiscardHandler)
	host := replica.Config{Node: "a", Incarnation: "00", Run: 1, Seed: 1}
	var err error
	n.machine, err = New(Config{Host: host, Shards: 2, Log: n.log, Logger: logger}, NewRecovery(fakeEngine{}, n.log, 2, logger))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// adopt makes the node follow a map of which it has every shard alone.
func (n *testNode) adopt(era uint32, raftID uint64, fresh bool, members ...shardmap.Member) {
	m := &shardmap.Map{Settings: shardmap.Settings{Shards: 2}}
	if len(members) == 0 {
		members = []shardmap.Member{{Node: "a", Incarnation: "00", RaftID: raftID, Role: shardmap.Full}}
	}
	for range 2 {
		m.Rows = append(m.Rows, shardmap.Row{Version: 1, RaftIDLast: 9, Era: era, Fresh: fresh, Members: members})
	}
	n.machine.Adopt(m)
	n.perform()
}

func (n *testNode) perform() {
	out := n.machine.Output()
	for _, a := range out.Answers {
		a.Share.Finish(0, a.Err)
	}
	n.drops = append(n.drops, out.Drop...)
	n.asked = append(n.asked, out.Ask...)
	out.Reset()
}

// step does what is to be done, until nothing is.
func (n *testNode) step(in Input) (rounds int) {
	n.t.Helper()
	in.Applied = n.applied
	for {
		ready, err := n.machine.Step(&in, n.round)
		if err != nil {
			n.t.Fatal(err)
		}
		n.perform()
		if in = (Input{Applied: n.applied}); !ready {
			return rounds
		}
		rounds++
		n.machine.Written(n.round, n.log.write(n.round))
		n.perform()
		for _, e := range n.round.Entries[0] {
			n.trace = append(n.trace, fmt.Sprintf("%d/%d %d %x", e.Entry.Shard, e.Entry.Index, e.Entry.Kind, e.Entry.Body))
			n.applied[e.Entry.Shard] = e.Entry.Index
			for _, s := range e.Shares {
				s.Finish(e.Copies, nil)
			}
		}
	}
}

func (n *testNode) write(shards ...uint16) (w *Write, done *int) {
	w, done = NewWrite(series.BatchID{Session: 1, Counter: 1}, len(shards)), new(int)
	for _, shard := range shards {
		w.Add(entry.Samples, shard, []byte{1, 2, 3})
	}
	w.Done = func() { *done++ }
	w.Begin()
	return w, done
}

// A write is answered once, when all of its entries are applied, and they are in the log.
func TestWriteIsAnsweredWhenApplied(t *testing.T) {
	n := newTestNode(t)
	n.adopt(1, 1, true)
	n.step(Input{})
	w, done := n.write(0, 1)
	if n.step(Input{NowMs: 5, Writes: []*Write{w}}); *done != 1 || w.FirstError() != nil {
		t.Fatalf("done %d times, %v", *done, w.FirstError())
	}
	if w.Proposals[0].Copies != 1 || !n.machine.AllSingleVoter() || n.log.End() == 0 {
		t.Fatalf("%+v, a log of %d bytes", w.Proposals, n.log.End())
	}
	if last := n.machine.Dispatched(); last[0] != n.applied[0] || last[1] != n.applied[1] {
		t.Fatalf("dispatched %v, applied %v", last, n.applied)
	}
}

// The same calls make the same rounds.
func TestSameCallsSameRounds(t *testing.T) {
	var traces [2]string
	for i := range traces {
		n := newTestNode(t)
		n.adopt(1, 1, true)
		for ms := range int64(20) {
			w, _ := n.write(uint16(ms%2), uint16(ms/2%2))
			n.step(Input{NowMs: ms, Writes: []*Write{w}, Ticks: int(ms % 2)})
		}
		traces[i] = fmt.Sprint(n.trace, n.log.End())
	}
	if traces[0] != traces[1] || len(traces[0]) < 100 {
		t.Fatalf("%s\n%s", traces[0], traces[1])
	}
}

// A write in a shard without a replica is answered with who leads, and no other part of it
// waits for that.
func TestWriteWithoutAReplica(t *testing.T) {
	n := newTestNode(t)
	w, done := n.write(0)
	n.step(Input{Writes: []*Write{w}})
	var other *replica.NotLeaderError
	if *done != 1 || !errors.As(w.FirstError(), &other) {
		t.Fatalf("done %d times, %v", *done, w.FirstError())
	}
}

// FailAll answers what waits, once; tokens that come back later find nobody.
func TestFailAllAnswersOnce(t *testing.T) {
	n := newTestNode(t)
	n.adopt(1, 1, true)
	n.step(Input{})
	w, done := n.write(0)
	in := Input{Writes: []*Write{w}}
	if ready, err := n.machine.Step(&in, n.round); err != nil || !ready {
		t.Fatal(ready, err)
	}
	failed := errors.New("no room")
	n.machine.FailAll(failed, failed)
	n.perform()
	if *done != 1 || !errors.Is(w.FirstError(), failed) {
		t.Fatalf("done %d times, %v", *done, w.FirstError())
	}
	n.machine.Written(n.round, n.log.write(n.round)) // there was room after all
	n.perform()
	if entries := n.round.Entries[0]; len(entries) != 1 || len(entries[0].Shares) != 0 || *done != 1 {
		t.Fatalf("%+v, done %d times", entries, *done)
	}
}

// A replica that the map does not name any more is asked about, and ends only when a member
// says that the group goes on without it. Its raft id is not used again.
func TestReplicaLeavesOnProof(t *testing.T) {
	n := newTestNode(t)
	n.adopt(1, 1, true)
	n.step(Input{})
	other := shardmap.Member{Node: "b", Incarnation: "11", RaftID: 2, Role: shardmap.Full}
	n.adopt(1, 0, false, other)
	n.step(Input{})
	if len(n.asked) != 2 || len(n.drops) != 0 {
		t.Fatalf("asked %v, dropped %v", n.asked, n.drops)
	}
	q := n.asked[0]
	if q.Gone(&GroupView{Era: 1, Index: q.Index, RaftIDs: []uint64{2}}) || q.Gone(&GroupView{Era: 1, Index: q.Index + 1, RaftIDs: []uint64{1, 2}}) {
		t.Fatal("an old configuration, or one that has it, is taken for a proof")
	}
	if !q.Gone(&GroupView{Era: 1, Index: q.Index + 1, RaftIDs: []uint64{2}}) {
		t.Fatal("a newer configuration without it is no proof")
	}
	n.machine.Left(&q)
	n.perform()
	n.step(Input{})
	if len(n.drops) != 1 || n.machine.Steady(q.Shard) {
		t.Fatalf("dropped %v", n.drops)
	}
	n.adopt(1, 1, false) // an old map names it again
	n.machine.Dropped(q.Shard)
	n.perform()
	if _, err := n.machine.Host().Status(q.Shard); !errors.Is(err, replica.ErrNoGroup) {
		t.Fatalf("the raft id is used again: %v", err)
	}
}

// A group whose era the map does not know yet, as it went on by itself, may have gone on without a
// replica all the same: others are asked.
func TestReplicaOfALaterEraLeaves(t *testing.T) {
	n := newTestNode(t)
	n.adopt(2, 1, true)
	n.step(Input{})
	n.adopt(1, 0, false, shardmap.Member{Node: "b", Incarnation: "11", RaftID: 2, Role: shardmap.Full})
	n.step(Input{})
	if len(n.asked) != 2 || n.asked[0].Era != 2 || len(n.drops) != 0 {
		t.Fatalf("asked %v, dropped %v", n.asked, n.drops)
	}
}

// A learner that no aim names is to go. What it was to become is not known: made with data, it would
// keep that as a witness, which a leader with an older map may still make of it.
func TestLearnerWithoutAnAimIsNotMade(t *testing.T) {
	n := newTestNode(t)
	full := shardmap.Member{Node: "b", Incarnation: "11", RaftID: 1, Role: shardmap.Full}
	here := shardmap.Member{Node: "a", Incarnation: "00", RaftID: 2, Role: shardmap.Learner}
	n.adopt(1, 0, false, full, here)
	if status, err := n.machine.Host().Status(0); !errors.Is(err, replica.ErrNoGroup) {
		t.Fatalf("a replica was made: %+v, %v", status.Replica, err)
	}
	here.Role = shardmap.Witness
	n.adopt(1, 0, false, full, here)
	if status, err := n.machine.Host().Status(0); err != nil || status.Role != shardmap.Witness {
		t.Fatalf("%+v, %v", status.Replica, err)
	}
}
