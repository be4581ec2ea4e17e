package replica

import (
	"testing"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// TestToldCommit: a follower whose log lacks what its leader has committed knows that it
// does, until somebody else leads.
func TestToldCommit(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.fresh(0, members(full, full, full))
	leader := w.untilLed(0)
	w.until("all to know the leader", func() bool {
		for _, n := range w.nodes {
			if n.host.group(0).lead != leader.host.group(0).lead {
				return false
			}
		}
		return true
	})
	for _, n := range w.nodes {
		if n == leader {
			continue
		}
		g := n.host.group(0)
		last, term := g.log.last, g.term
		told := func(term, commit uint64) uint64 {
			g.take(&envelope.Message{Kind: envelope.App, To: g.replica.RaftID, From: g.lead, Term: term, LogTerm: term, Index: last + 50, Commit: commit})
			s, err := n.host.Status(0)
			if err != nil || s.Commit > last {
				t.Fatal(s.Commit, last, err)
			}
			return s.Told
		}
		for _, step := range []struct{ term, commit, want uint64 }{
			{term, last + 40, last + 40}, {term, last + 30, last + 40}, {term - 1, last + 60, last + 40},
		} {
			if got := told(step.term, step.commit); got != step.want {
				t.Errorf("%d is told in term %d, want %d", got, step.term, step.want)
			}
		}
		if g.term++; told(g.term-1, last+70) != 0 { // somebody else leads by now
			t.Error("what a leader that is gone has said counts")
		}
		return
	}
}

// TestLeaderThatIsFoundAgain: a follower gives its leader up, and hears of it before the next
// Round. It knows it then, so that it can give it up again, and vote for others.
func TestLeaderThatIsFoundAgain(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.fresh(0, members(full, full, full))
	leader := w.untilLed(0)
	id := leader.host.group(0).replica.RaftID
	for _, n := range w.nodes {
		if n == leader {
			continue
		}
		g := n.host.group(0)
		w.until("the follower to know the leader", func() bool { return g.lead == id && !n.waiting })
		g.forgetLeader()
		g.take(&envelope.Message{Kind: envelope.Heartbeat, To: g.replica.RaftID, From: id, Term: g.term})
		if lead := g.node.BasicStatus().Lead; lead != id || g.lead != raft.None {
			t.Fatalf("the library knows %d, the group %d", lead, g.lead)
		}
		if !n.host.Ready(&n.round) {
			t.Fatal("nothing is to be done")
		}
		n.host.Advance(&n.round)
		if g.lead != id {
			t.Errorf("the leader counts as %d", g.lead)
		}
	}
}
