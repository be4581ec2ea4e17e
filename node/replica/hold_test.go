package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// lateSync is a disk that makes states durable a while after they were written. What a
// crash finds of a group that still waits is, by chance, as if nothing had been written
// since before its state was. That is worse than what a power cut does to a log.
type lateSync struct {
	wanted uint64 // round whose states are being synced
	before map[uint16]*testDisk
}

// keep notes what the disk has of a shard before the state of a waiting group.
func (n *testNode) keep(shard uint16) {
	g := n.host.group(shard)
	if _, kept := n.late.before[shard]; kept || g == nil || g.hold.round == 0 {
		return
	}
	n.late.before[shard] = nil
	if d := n.disk[shard]; d != nil {
		n.late.before[shard] = &testDisk{state: d.state, entries: maps.Clone(d.entries), last: d.last}
	}
}

// synced notes in the host that what is written is durable.
func (n *testNode) synced() {
	for _, shard := range n.host.Synced(n.late.wanted) {
		delete(n.late.before, shard)
	}
}

// lose puts the disk back, for some of the groups that wait.
func (w *world) lose(n *testNode) {
	for _, shard := range sortedShards(n.late.before) {
		before := n.late.before[shard]
		switch {
		case w.rng.IntN(3) == 0:
		case before == nil:
			delete(n.disk, shard)
			delete(n.engine, shard)
		default:
			n.disk[shard] = before
		}
	}
	clear(n.late.before)
}

// Groups whose states are lost in a crash before they were synced have told nobody.
func TestHeldStatesMayBeLost(t *testing.T) {
	for seed := range 2 * *seedsFlag {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newLateWorld(t, 5000+seed, 4+int(seed%2))
			w.placing = true
			w.fresh(0, members(full, full, full))
			w.fresh(1, members(full, full, witness))
			w.fresh(2, members(full))
			for range 20 {
				w.random(3, 120)
				if shard := uint16(w.rng.IntN(3)); w.rows[shard].Intended == nil {
					w.intend(shard)
				}
			}
			w.finishAndCheck(3)
			for shard := range uint16(3) {
				w.until(fmt.Sprintf("the move of shard %d ends", shard), func() bool {
					leader := w.leaderOf(shard)
					row := w.rows[shard]
					return leader != nil && row.Intended == nil && slices.Equal(leader.host.group(shard).config.Members, row.Members)
				})
				w.until("all is applied", func() bool { return w.allApplied(shard) })
				w.checkAcked(shard)
			}
			t.Logf("%d entries, %d answered, %d reads, %d snapshots", len(w.content), w.acks, w.reads, w.images)
		})
	}
}

// singleVoter makes a node with a group with a single voter that has an entry, and syncs late.
func singleVoter(t *testing.T) (*world, *testNode) {
	w := newLateWorld(t, 1, 2)
	w.fresh(0, members(full))
	n := w.nodes[0]
	w.propose(n, 0)
	w.until("the entry", func() bool { return w.acks == 1 })
	return w, n
}

// round takes and writes the next Round, without syncing it.
func (w *world) round(n *testNode) *Round {
	w.t.Helper()
	if !w.ready(n) {
		w.t.Fatal("nothing to do")
	}
	w.finish(n)
	return &n.round
}

func TestOneGroupWaitsAndOthersGoOn(t *testing.T) {
	w, n := singleVoter(t)
	for n.host.Ready(&n.round) {
		n.host.Advance(&n.round)
	}
	w.rows[5] = w.rows[0]
	if err := n.host.Create(Replica{Shard: 5, RaftID: 1, Era: 1, Role: full}, members(full)); err != nil {
		t.Fatal(err)
	}
	w.propose(n, 5)
	w.propose(n, 0)
	w.read(n, 5)
	first := w.round(n)
	if !first.Sync || len(first.Committed) != 1 || first.Committed[0].Shard != 0 || len(first.Reads) != 0 {
		t.Fatalf("%+v", first)
	}
	if status, _ := n.host.Status(5); !status.Syncing {
		t.Fatal("the state is taken for durable")
	}
	if err := n.host.Force(5, 9, 2); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if err := n.host.Change(5, members(full, learner)); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	number := first.Number
	if n.host.Ready(&n.round) {
		t.Fatalf("%+v", n.round)
	}
	if shards := n.host.Synced(number - 1); len(shards) != 0 {
		t.Fatal(shards)
	}
	if shards := n.host.Synced(number); !slices.Equal(shards, []uint16{5}) {
		t.Fatal(shards)
	}
	next := w.round(n)
	if next.Number <= number || next.Sync || len(next.Committed) != 1 || next.Committed[0].Shard != 5 || len(next.Reads) != 1 {
		t.Fatalf("%+v", next)
	}
}

// What waits for a sync keeps what it was proposed with, though the driver's memory is
// used again for what comes next.
func TestHeldProposalsKeepTheirBytes(t *testing.T) {
	_, n := singleVoter(t)
	for n.host.Ready(&n.round) {
		n.host.Advance(&n.round)
	}
	if err := n.host.Create(Replica{Shard: 5, RaftID: 1, Era: 1, Role: full}, members(full)); err != nil {
		t.Fatal(err)
	}
	if !n.host.Ready(&n.round) || !n.round.Sync {
		t.Fatalf("%+v", n.round)
	}
	number := n.round.Number
	n.host.Advance(&n.round)
	scratch, parts := make([]byte, 2), make([][]byte, 2)
	for i := range 3 {
		scratch[0], scratch[1] = byte('a'+i), byte('x'+i)
		parts[0], parts[1] = scratch[:1], scratch[1:]
		if err := n.host.Propose(5, 100, parts, uint64(1000+i)); err != nil {
			t.Fatal(err)
		}
		if n.host.Ready(&n.round) {
			t.Fatalf("%+v", n.round)
		}
	}
	clear(parts)
	clear(scratch)
	n.host.Synced(number)
	if !n.host.Ready(&n.round) {
		t.Fatal("nothing to do")
	}
	var got []string
	for _, a := range n.round.Appends {
		got = append(got, string(slices.Concat(a.Parts...)))
	}
	if want := []string{"ax", "by", "cz"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

// A log that is shortened says so also while the group waits: the driver drops records
// on the ground of that.
func TestTruncationIsLoggedMeanwhile(t *testing.T) {
	_, n := singleVoter(t)
	for n.host.Ready(&n.round) {
		n.host.Advance(&n.round)
	}
	g := n.host.group(0)
	g.logState(true)
	if !n.host.Ready(&n.round) {
		t.Fatal("no round")
	}
	n.host.Advance(&n.round)
	number := n.round.Number
	if err := n.host.CompactTo(0, 1); err != nil {
		t.Fatal(err)
	}
	if !n.host.Ready(&n.round) || len(n.round.States) != 1 || n.round.States[0].Truncated.Index != 1 || n.round.Sync {
		t.Fatalf("%+v", n.round)
	}
	n.host.Advance(&n.round)
	if shards := n.host.Synced(number); len(shards) != 1 {
		t.Fatal(shards)
	}
}

// What waits for a group that is removed has failed, once.
func TestRemovedWhileItWaits(t *testing.T) {
	w, n := singleVoter(t)
	for n.host.Ready(&n.round) {
		n.host.Advance(&n.round)
	}
	n.host.group(0).logState(true)
	w.propose(n, 0)
	w.read(n, 0)
	w.round(n)
	if err := n.host.Remove(0); err != nil {
		t.Fatal(err)
	}
	if round := w.round(n); len(round.Failed) != 2 || len(n.host.Synced(round.Number)) != 0 {
		t.Fatalf("%+v", round)
	}
}
