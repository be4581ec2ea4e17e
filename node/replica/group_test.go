package replica

import (
	"errors"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// pause lets n ticks pass.
func (w *world) pause(ticks int) {
	for range ticks * 5 {
		w.step()
	}
}

func (w *world) untilLed(shard uint16) *testNode {
	w.t.Helper()
	w.until("a leader that has an entry of its term", func() bool {
		n := w.leaderOf(shard)
		if n == nil {
			return false
		}
		g := n.host.group(shard)
		term, err := g.log.term(g.commit)
		return g.single || err == nil && term == g.term
	})
	return w.leaderOf(shard)
}

func (w *world) allHibernate() bool {
	for _, n := range w.nodes {
		for _, g := range n.host.groups {
			if n.up && !g.single && !g.hibernating {
				return false
			}
		}
	}
	return true
}

func TestIdleGroupsSendBeatsOnly(t *testing.T) {
	w := newWorld(t, 1, 3)
	for shard := range uint16(20) {
		w.fresh(shard, members(full, full, witness))
	}
	w.until("hibernating", w.allHibernate)
	w.pause(4) // what is under way
	for range 200 {
		w.step()
		for _, p := range w.net {
			if len(p.bytes) > 8 {
				t.Fatalf("%s sends %d bytes to %s", p.from, len(p.bytes), p.to)
			}
		}
	}
	if !w.allHibernate() {
		t.Fatal("a group woke without a reason")
	}
	for _, n := range w.nodes {
		for _, g := range n.host.groups {
			if len(g.log.tail) > 0 {
				t.Fatalf("%s keeps %d entries of a hibernating group", n.name, len(g.log.tail))
			}
		}
	}
	leader := w.leaderOf(7)
	w.read(leader, 7)
	w.propose(leader, 7)
	w.until("a hibernating group answers", func() bool { return w.acks == 1 && w.reads == 1 })
}

func TestSilentLeaderIsReplaced(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t, 2, 3)
		w.fresh(0, members(full, full, full))
		w.until("hibernating", w.allHibernate)
		old := w.leaderOf(0)
		term := old.host.group(0).term
		w.crash(old)
		if restart {
			w.start(old)
		}
		ticks := 0
		for ; w.leaderOf(0) == nil; ticks++ {
			w.pause(1)
			if ticks > 4*8 {
				t.Fatal("no leader after four election timeouts")
			}
		}
		if got := w.leaderOf(0).host.group(0).term; got <= term {
			t.Fatalf("term %d after %d", got, term)
		}
		t.Logf("restart %v: a leader after %d ticks", restart, ticks)
	}
}

func TestWitnessNeitherServesNorStaysLeader(t *testing.T) {
	w := newWorld(t, 5, 3)
	w.fresh(0, members(full, full, witness))
	leader := w.untilLed(0)
	other := w.nodes[1]
	if leader == other {
		other = w.nodes[0]
	}
	w.crash(other) // it will lag
	for range 20 {
		w.propose(leader, 0)
		w.pause(1)
	}
	w.until("answers with the witness's help", func() bool { return w.acks == 20 })
	w.crash(leader)
	w.start(other)
	w.until("the witness brings the other up to date and hands over", func() bool { return w.leaderOf(0) == other })
	w.read(other, 0)
	w.until("a read", func() bool { return w.reads == 1 })
	if status, _ := other.host.Status(0); status.Handed < w.acked[0] {
		t.Fatalf("the leader has %d, answered was %d", status.Handed, w.acked[0])
	}
	third := w.nodes[2].host
	if err := third.Propose(0, 1, nil, 1); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a witness takes proposals: %v", err)
	}
	if err := third.Read(0, 1); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a witness takes reads: %v", err)
	}
	if len(w.nodes[2].engine[0].data) > 0 {
		t.Fatal("a witness applies")
	}
}

// A witness to be has no data. Should its group ever take it for a full voter, it must
// not answer as if what it lacks did not exist.
func TestWitnessIsNeverAFullVoter(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.fresh(0, members(full, full))
	leader, third := w.untilLed(0), w.nodes[2]
	w.faulty = third
	if err := third.host.Create(Replica{Shard: 0, RaftID: 3, Era: 1, Role: witness}, nil); err != nil {
		t.Fatal(err)
	}
	w.propose(leader, 0)
	w.until("an answer", func() bool { return w.acks == 1 })
	for _, target := range [][]shardmap.Member{members(full, full, learner), members(full, full, full)} {
		w.until("a change", func() bool {
			if g := leader.host.group(0); !slices.Equal(g.config.Members, target) || g.config.Joint() {
				_ = leader.host.Change(0, target)
				return false
			}
			return true
		})
	}
	w.until("the one without data stops", func() bool {
		status, err := third.host.Status(0)
		if err == nil && status.Role == full {
			t.Fatal("a replica without data is a full voter")
		}
		return err == nil && status.Fault != nil
	})
	if err := third.host.Read(0, 1); !errors.Is(err, ErrFault) {
		t.Fatalf("it takes reads: %v", err)
	}
	w.propose(leader, 0)
	w.until("the others go on", func() bool { return w.acks == 2 })
	w.crash(third)
	w.start(third)
	w.pause(50)
	if status, err := third.host.Status(0); err == nil && status.Role == full {
		t.Fatal("a restart makes it a full voter")
	}
}

// The library confirms a read of a single voter with what it knows to be committed,
// before its first entry of the term tells it what is.
func TestReadAfterRestartOfSingleVoter(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, 2)
		w.fresh(0, members(full, learner))
		n := w.untilLed(0)
		for range 5 {
			w.propose(n, 0)
			w.pause(1)
		}
		w.until("answers", func() bool { return w.acks == 5 })
		w.crash(n)
		w.start(n)
		before := w.reads
		w.until("a read", func() bool { // world checks what it may see
			if w.leaderOf(0) == n {
				w.read(n, 0)
			}
			w.step()
			return w.reads > before
		})
	}
}

func TestSingleVoterBeginsATermWithEachStart(t *testing.T) {
	w := newWorld(t, 3, 1)
	n := w.nodes[0]
	w.fresh(0, members(full))
	for start := range uint64(3) {
		w.propose(n, 0)
		w.until("an answer", func() bool { return w.acks == int(start)+1 })
		if g := n.host.group(0); !g.single || g.term != start+1 {
			t.Fatalf("start %d: single %v, term %d", start, g.single, g.term)
		}
		w.crash(n)
		n.engine[0].durable = n.engine[0].applied
		w.start(n)
	}
}

func TestLostLogStopsTheReplicaOnly(t *testing.T) {
	w := newWorld(t, 4, 3)
	w.fresh(0, members(full, full, full))
	w.fresh(1, members(full, full, full))
	leader := w.untilLed(0)
	for range 10 {
		w.propose(leader, 0)
		w.pause(1)
	}
	w.until("answers everywhere", func() bool { return w.acks == 10 && w.allApplied(0) })
	victim := w.nodes[0]
	if victim == leader {
		victim = w.nodes[1]
	}
	w.crash(victim)
	state := victim.disk[0].state
	state.Commit = 0
	delete(victim.disk, 0)
	host, err := New(Config{Node: victim.name, Run: 100, Seed: 1}, victim)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Restore(state, LogSummary{}); err != nil {
		t.Fatal(err)
	}
	if err := host.Restore(victim.disk[1].state, LogSummary{Last: victim.disk[1].last, Runs: runsOf(victim.disk[1])}); err != nil {
		t.Fatal(err)
	}
	term := leader.host.group(0).term
	m := envelope.Message{Kind: envelope.Heartbeat, Shard: 0, To: state.RaftID, From: leader.host.group(0).replica.RaftID, Term: term, Commit: 5}
	if err := host.Receive(leader.name, envelope.End(m.AppendTo(envelope.Begin(nil, 1)))); err != nil {
		t.Fatal(err)
	}
	if err := host.Propose(0, 1, nil, 1); !errors.Is(err, ErrFault) {
		t.Fatalf("the replica goes on: %v", err)
	}
	var round Round
	for range 100 {
		host.Tick()
		if host.Ready(&round) {
			host.Advance(&round)
		}
	}
	if status, _ := host.Status(1); status.Fault != nil {
		t.Fatal(status.Fault)
	}
}

func runsOf(d *testDisk) []TermRun {
	var runs []TermRun
	for i := d.state.Truncated.Index + 1; i <= d.last; i++ {
		runs = append(runs, TermRun{i, d.entries[i].Term})
	}
	return runs
}

func TestTransfer(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.fresh(0, members(full, full, witness))
	leader := w.untilLed(0)
	heir := w.nodes[1]
	if leader == heir {
		heir = w.nodes[0]
	}
	if err := leader.host.Transfer(0, "n2"); !errors.Is(err, ErrArgument) {
		t.Fatalf("to a witness: %v", err)
	}
	if err := leader.host.Transfer(0, heir.name); err != nil {
		t.Fatal(err)
	}
	if err := leader.host.Propose(0, 1, nil, 1); !errors.Is(err, ErrBusy) {
		t.Fatalf("a proposal meanwhile: %v", err)
	}
	before := w.now
	w.until("the heir leads", func() bool { return w.leaderOf(0) == heir })
	if ticks := (w.now - before) / 5; ticks > 8 {
		t.Fatalf("after %d ticks, more than an election timeout", ticks)
	}
}

// A change of members that is applied during a transfer that comes to nothing ends all the same, though
// nobody writes to the group.
func TestChangeEndsAfterFailedTransfer(t *testing.T) {
	w := newWorld(t, 6, 4)
	w.fresh(0, members(full, full, full, learner))
	leader := w.untilLed(0)
	dead := w.nodes[1]
	if leader == dead {
		dead = w.nodes[0]
	}
	target := slices.DeleteFunc(members(full, full, full, full), func(m shardmap.Member) bool { return m.Node == dead.name })
	w.crash(dead)
	if err := leader.host.Change(0, target); err != nil {
		t.Fatal(err)
	}
	if err := leader.host.Transfer(0, dead.name); err != nil {
		t.Fatal(err)
	}
	w.until("the change has ended", func() bool {
		status, err := leader.host.Status(0)
		if err != nil || !status.Leads {
			t.Fatalf("the leader has not stayed: %+v, %v", status, err)
		}
		return slices.Equal(status.Configuration.Members, target) && !status.Configuration.Joint()
	})
}

// A full voter may have its group handed over, not a witness, and not before the
// leader has had it for a while, if that had asked for it, too.
func TestTakeOver(t *testing.T) {
	w := newWorld(t, 8, 3)
	w.fresh(0, members(full, full, witness))
	for round := range 2 {
		leader := w.untilLed(0)
		heir := w.nodes[1]
		if leader == heir {
			heir = w.nodes[0]
		}
		var notLeader *NotLeaderError
		if err := w.nodes[2].host.Transfer(0, "n2"); !errors.As(err, &notLeader) {
			t.Fatalf("for a witness: %v", err)
		}
		if err := heir.host.Transfer(0, leader.name); !errors.As(err, &notLeader) {
			t.Fatalf("for another: %v", err)
		}
		asked, led := leader.host.shared.ticks, leader.host.group(0).ledSince
		w.until("the heir leads", func() bool {
			if now := leader.host.shared.ticks; now > asked && w.leaderOf(0) == leader {
				asked = now
				if err := heir.host.Transfer(0, heir.name); err != nil && !errors.As(err, &notLeader) {
					t.Fatal(err)
				}
			}
			return w.leaderOf(0) == heir
		})
		if kept := leader.host.shared.ticks - led; round > 0 && kept < takeOverTicks || kept > takeOverTicks+16 || round == 0 && kept > 100 {
			t.Fatalf("round %d: the leader had the group for %d ticks", round, kept)
		}
		if status, err := heir.host.Status(0); err != nil || !status.TookOver {
			t.Fatalf("%+v, %v", status, err)
		}
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	w := newWorld(t, 7, 1)
	h := w.nodes[0].host
	w.fresh(0, members(full))
	for name, err := range map[string]error{
		"kind 0":          h.Propose(0, 0, nil, 1),
		"kind change":     h.Propose(0, KindChange, nil, 1),
		"no token":        h.Propose(0, 1, nil, 0),
		"read, no token":  h.Read(0, 0),
		"no vote":         h.Change(0, members(learner)),
		"role change":     h.Change(0, members(witness)),
		"same raft id":    h.Change(0, append(members(full), shardmap.Member{Node: "n9", RaftID: 1, Role: full})),
		"transfer":        h.Transfer(0, "n9"),
		"raft id 0":       h.Create(Replica{Shard: 1, Role: full}, nil),
		"no role":         h.Create(Replica{Shard: 1, RaftID: 1}, nil),
		"heartbeat first": func() error { _, err := New(Config{Node: "n", ElectionTicks: 2, HeartbeatTicks: 2}, nil); return err }(),
	} {
		if !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.Propose(5, 1, nil, 1); !errors.Is(err, ErrNoGroup) {
		t.Error(err)
	}
	if err := h.Create(Replica{Shard: 0, RaftID: 1, Role: full}, members(full)); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
}

func TestProposalsAreBounded(t *testing.T) {
	for _, roles := range [][]shardmap.Role{{full}, {full, full, full}} {
		w := newWorld(t, 8, len(roles))
		w.fresh(0, members(roles...))
		leader := w.untilLed(0)
		accepted := 0
		for range 1000 {
			w.tokens++
			err := leader.host.Propose(0, 1, [][]byte{[]byte("t")}, w.tokens)
			if err != nil && !errors.Is(err, series.ErrOverloaded) {
				t.Fatal(err)
			}
			if err == nil {
				accepted++
			}
		}
		if accepted != leader.host.shared.config.ProposalsMax {
			t.Fatalf("%d of 1000 proposals accepted", accepted)
		}
		for range 5000 {
			_ = leader.host.Read(0, 1)
		}
		if n := len(leader.host.group(0).reading.tokens); n > leader.host.shared.config.ReadsMax {
			t.Fatalf("%d reads wait", n)
		}
	}
}

// TestForce ends a group's majority, and lets the best log go on.
func TestForce(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 3)
		w.fresh(0, members(full, full, full))
		leader := w.untilLed(0)
		for range 30 {
			w.propose(leader, 0)
			w.step()
		}
		answered := w.acked[0]
		for _, n := range w.nodes {
			if n.waiting {
				w.finish(n)
			}
		}
		best := leader
		for _, n := range w.nodes {
			if a, b := &n.host.group(0).log, &best.host.group(0).log; a.lastTerm() > b.lastTerm() || a.lastTerm() == b.lastTerm() && a.last > b.last {
				best = n
			}
		}
		for _, n := range w.nodes {
			if n != best {
				w.crash(n)
			}
		}
		for best.host.Ready(&best.round) { // what it knows already
			best.waiting = true
			w.finish(best)
		}
		if err := best.host.Force(0, 2, 2); !errors.Is(err, ErrArgument) {
			t.Fatalf("a raft id that was used: %v", err)
		}
		if err := best.host.Force(0, 9, 2); err != nil {
			t.Fatal(err)
		}
		clear(w.leader) // of the group that ended
		w.until("it leads alone", func() bool { return best.host.group(0).single })
		if got := best.engine[0].applied; got < answered {
			t.Fatalf("%d applied, %d were answered", got, answered)
		}
		before := w.acks
		w.propose(best, 0)
		w.until("it takes entries", func() bool { return w.acks > before })
		w.crash(best)
		w.start(best)
		if s, _ := best.host.Status(0); s.RaftID != 9 || s.Era != 2 || !s.Leads && s.Last == 0 {
			t.Fatalf("after a start: %+v", s)
		}
	}
}

// TestSlowApplierIsNotFed stops one follower's applier: it takes entries up to its
// bound, the others go on, and it catches up later.
func TestSlowApplierIsNotFed(t *testing.T) {
	w := newWorld(t, 9, 3)
	w.fresh(0, members(full, full, full))
	leader := w.untilLed(0)
	slow := w.nodes[0]
	if slow == leader {
		slow = w.nodes[1]
	}
	g := slow.host.group(0)
	slow.host.shared.config.BacklogBytesMax = 2000
	w.idle = slow
	for range 100 {
		w.propose(leader, 0)
		w.pause(1)
	}
	w.until("answers without it", func() bool { return w.acks == 100 })
	bound := 2000 + slow.host.shared.config.InflightBytesMax + slow.host.shared.config.ApplyBytesMax
	if g.backlog.bytes.n > bound || g.handed > 60 {
		t.Fatalf("%d bytes, up to entry %d, wait for the applier", g.backlog.bytes.n, g.handed)
	}
	w.idle = nil
	slow.host.Applied(0, slow.engine[0].applied)
	w.until("it catches up", func() bool { return w.allApplied(0) && len(g.backlog.entries) == 0 })
}
