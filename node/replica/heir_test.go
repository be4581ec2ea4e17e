package replica

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// While a group is handed over, proposals wait at the leader until the heir campaigns, go to it then, and wait
// there until it leads: no node says meanwhile that it knows nobody.
func TestProposalsFollowTheHeir(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.fresh(0, members(full, full, witness))
	leader := w.untilLed(0)
	heir := w.nodes[1]
	if leader == heir {
		heir = w.nodes[0]
	}
	if err := leader.host.Transfer(0, heir.name); err != nil {
		t.Fatal(err)
	}
	waitedThere := false
	w.until("the heir leads", func() bool {
		err := leader.host.Propose(0, 1, nil, 1)
		var other *NotLeaderError
		switch {
		case errors.Is(err, ErrBusy) && leader.host.HandingOver(0) && leader.host.Successor(0) == "":
		case errors.As(err, &other) && other.Leader == heir.name && leader.host.Successor(0) == heir.name:
			waitedThere = waitedThere || heir.host.HandingOver(0)
			if !heir.host.HandingOver(0) && w.leaderOf(0) != heir {
				t.Fatalf("the heir neither leads nor lets proposals wait")
			}
		default:
			t.Fatalf("a proposal at the former leader: %v", err)
		}
		return w.leaderOf(0) == heir
	})
	if !waitedThere || heir.host.HandingOver(0) {
		t.Fatalf("proposals waited at the heir: %v, and do still: %v", waitedThere, heir.host.HandingOver(0))
	}
}

// Proposals wait no longer than an election timeout, on both sides, if a handing over comes to nothing.
func TestHandingOverIsBounded(t *testing.T) {
	for _, reached := range []bool{false, true} {
		w := newWorld(t, 6, 3)
		w.fresh(0, members(full, full, full))
		leader := w.untilLed(0)
		heir := w.nodes[1]
		if leader == heir {
			heir = w.nodes[0]
		}
		for _, other := range w.nodes { // nobody hears the heir
			w.cut[[2]string{heir.name, other.name}] = true
			w.cut[[2]string{leader.name, heir.name}] = !reached
		}
		if err := leader.host.Transfer(0, heir.name); err != nil {
			t.Fatal(err)
		}
		waits := func() bool { return leader.host.HandingOver(0) || heir.host.HandingOver(0) }
		if !waits() {
			t.Fatal("nothing waits")
		}
		campaigned := false
		before := w.now
		w.until("nothing waits", func() bool {
			campaigned = campaigned || heir.host.HandingOver(0)
			return !waits()
		})
		if ticks := (w.now - before) / 5; ticks > 9 || campaigned != reached {
			t.Fatalf("%d ticks, and the heir campaigned: %v", ticks, campaigned)
		}
		if !w.propose(leader, 0) {
			t.Fatal("no proposal is taken afterwards")
		}
		if err := leader.host.Transfer(0, heir.name); !errors.Is(err, ErrBusy) {
			t.Fatalf("handed over again at once: %v", err)
		}
		g := leader.host.group(0)
		g.handOver()
		g.eachProgress(func(p MemberProgress) {
			if p.Member.RaftID != g.replica.RaftID {
				g.takeOver(&envelope.Message{Term: g.term, From: p.Member.RaftID})
			}
		})
		if g.transferee != raft.None {
			t.Fatal("a witness hands over at once, or a replica that asks to lead is given the lead")
		}
		w.until("it may be handed over again", func() bool { return leader.host.Transfer(0, heir.name) == nil })
	}
}

// A leader that takes no writes hands its group over, also one that sleeps, and does not ask for it; where the heir takes none
// either they do not hand it to and fro, and where there is no heir it leads on.
func TestRefusingLeaderHandsOver(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.fresh(0, members(full, full, witness))
	leader := w.untilLed(0)
	heir := w.nodes[1]
	if leader == heir {
		heir = w.nodes[0]
	}
	w.propose(leader, 0)
	w.until("the group sleeps", func() bool { return leader.host.group(0).hibernating && heir.host.group(0).hibernating })
	leader.host.Refuse(true)
	w.until("the heir leads", func() bool { return w.leaderOf(0) == heir })
	if err := leader.host.Transfer(0, leader.name); !errors.Is(err, ErrBusy) {
		t.Fatalf("it asks for its group: %v", err)
	}
	if !w.propose(heir, 0) {
		t.Fatal("the heir takes no proposal")
	}
	heir.host.Refuse(true)
	w.until("the first has it again", func() bool { return w.leaderOf(0) == leader })
	before := leader.host.group(0).shared.ticks
	w.until("it is handed over again", func() bool { return w.leaderOf(0) == heir })
	config := &leader.host.group(0).shared.config
	if ticks := leader.host.group(0).shared.ticks - before; ticks < (refusedElections-briefRefusal-2)*config.ElectionTicks {
		t.Fatalf("handed over again after %d ticks of %d", ticks, refusedElections*config.ElectionTicks)
	}
	heir.host.Refuse(false)
	w.crash(leader)
	w.until("the heir leads", func() bool { return w.leaderOf(0) == heir })
	heir.host.Refuse(true)
	w.pause(10 * config.ElectionTicks)
	if w.leaderOf(0) != heir {
		t.Fatal("without an heir the leader has not stayed")
	}
}

// Where the first heir takes no writes either, the next one is another: a voter that takes writes leads in the end, whichever it is.
func TestRefusingLeadersFindTheOneThatServes(t *testing.T) {
	for serves := range 3 {
		w := newWorld(t, 6, 3)
		w.fresh(0, members(full, full, full))
		w.propose(w.untilLed(0), 0)
		for i, n := range w.nodes {
			n.host.Refuse(i != serves)
		}
		config := &w.nodes[0].host.shared.config
		for range 3 * refusedElections {
			if w.leaderOf(0) == w.nodes[serves] {
				break
			}
			w.pause(config.ElectionTicks)
		}
		if leader := w.leaderOf(0); leader != w.nodes[serves] {
			t.Errorf("n%d takes writes and does not lead: %s", serves, w.picture())
		}
	}
}

// A leader that takes writes again, is given the group back and takes none once more hands it over at once.
func TestRefusingAgainHandsOverAtOnce(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.fresh(0, members(full, full, witness))
	leader := w.untilLed(0)
	heir := w.nodes[1]
	if leader == heir {
		heir = w.nodes[0]
	}
	leader.host.Refuse(true)
	w.until("the heir leads", func() bool { return w.leaderOf(0) == heir })
	leader.host.Refuse(false)
	w.until("the first has it again", func() bool {
		_ = heir.host.Transfer(0, leader.name)
		return w.leaderOf(0) == leader
	})
	w.untilLed(0)
	leader.host.Refuse(true)
	before := w.now
	w.until("the heir leads", func() bool { return w.leaderOf(0) == heir })
	if ticks := (w.now - before) / 5; ticks > (briefRefusal+2)*leader.host.shared.config.ElectionTicks {
		t.Fatalf("handed over after %d ticks", ticks)
	}
}

// A node that takes no writes for a moment keeps what it leads.
func TestBriefRefusalChangesNothing(t *testing.T) {
	w := newWorld(t, 6, 3)
	w.fresh(0, members(full, full, witness))
	leader := w.untilLed(0)
	config := &leader.host.shared.config
	w.propose(leader, 0)
	w.until("the group sleeps", w.allHibernate)
	for range 5 {
		leader.host.Refuse(true)
		w.pause(briefRefusal*config.ElectionTicks - 1)
		leader.host.Refuse(false)
		w.pause(1)
		if w.leaderOf(0) != leader {
			t.Fatal("it was handed over")
		}
	}
	w.until("the group sleeps again", w.allHibernate)
}
