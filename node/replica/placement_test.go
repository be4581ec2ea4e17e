package replica

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// reconcile is what a node's driver does about the map, as far as n has seen it.
func (w *world) reconcile(n *testNode) {
	for _, shard := range sortedShards(w.rows) {
		if w.healed {
			w.dismissLearners(shard)
		}
		if row := w.rows[shard]; row.Version != n.seen[shard].Version && w.rng.IntN(3) > 0 {
			n.seen[shard] = row.Clone()
		}
		row := n.seen[shard]
		if row.Version == 0 {
			continue
		}
		w.ownReplica(n, shard, row)
		status, err := n.host.Status(shard)
		if err != nil {
			continue
		}
		switch step := NextStep(row, status); step.Kind {
		case StepPublish:
			if w.rows[shard].Version != row.Version {
				n.seen[shard] = w.rows[shard].Clone()
				continue
			}
			next, _ := row.Published(step.Members)
			w.rows[shard], n.seen[shard] = next, next.Clone()
		case StepChange:
			_ = n.host.Change(shard, step.Members)
		case StepTransfer:
			_ = n.host.Transfer(shard, step.Node)
		case StepNone, StepWait:
		}
	}
}

// dismissLearners is what placement does in the end about learners that a move which
// was given up has left behind. Their nodes may have removed them already.
func (w *world) dismissLearners(shard uint16) {
	row := w.rows[shard]
	voters := slices.DeleteFunc(slices.Clone(row.Members), func(m shardmap.Member) bool { return m.Role == learner })
	if row.Intended == nil && !row.Fresh && len(voters) < len(row.Members) {
		w.rows[shard] = row.WithIntended(voters)
	}
}

// ownReplica makes the replica that the row wants here, and removes one that it does
// not name any more.
func (w *world) ownReplica(n *testNode, shard uint16, row shardmap.Row) {
	var want shardmap.Member
	for _, list := range [2][]shardmap.Member{row.Intended, row.Members} {
		for _, m := range list {
			if m.Node == n.name && m.RaftID > want.RaftID {
				want = m
			}
		}
	}
	g := n.host.group(shard)
	named := func(m shardmap.Member) bool { return g != nil && m.RaftID == g.replica.RaftID }
	if g != nil && !slices.ContainsFunc(row.Members, named) && !slices.ContainsFunc(row.Intended, named) && g.replica.RaftID <= row.RaftIDLast {
		if err := n.host.Remove(shard); err != nil {
			w.t.Fatal(err)
		}
		n.gone[shard] = max(n.gone[shard], g.replica.RaftID)
		g = nil
	}
	if g == nil && want.RaftID > n.gone[shard] && !row.Fresh {
		role := want.Role
		if role == learner {
			role = full
		}
		if err := n.host.Create(Replica{Shard: shard, RaftID: want.RaftID, Era: row.Era, Role: role}, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// intend wants the shard somewhere else, perhaps in the middle of another move.
func (w *world) intend(shard uint16) {
	row := w.rows[shard]
	if row.Fresh {
		return
	}
	order := w.rng.Perm(len(w.nodes))
	count := []int{1, 2, 3, 3}[w.rng.IntN(4)]
	withWitness := count == 3 && w.rng.IntN(2) == 0
	var intended []shardmap.Member
	for i, at := range order[:count] {
		role := full
		if withWitness && i == 2 {
			role = witness
		}
		m := shardmap.Member{Node: w.nodes[at].name, Incarnation: "i", Role: role}
		// A learner that was once not wanted may be retired on its node already: it is
		// not taken up again, but gets another raft id.
		for _, old := range slices.Concat(row.Members, row.Intended) {
			if old.SamePlace(m) && old.Role == role {
				m.RaftID = old.RaftID
			}
		}
		intended = append(intended, m)
	}
	w.rows[shard] = row.WithIntended(intended)
}

// TestRandomMoves lets groups move between nodes while everything else happens too.
func TestRandomMoves(t *testing.T) {
	for seed := range *seedsFlag {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, 1000+seed, 5)
			w.placing = true
			w.fresh(0, members(full, full, full))
			w.fresh(1, members(full, full, witness))
			w.fresh(2, members(full))
			finishedMoves := 0
			for range 25 {
				w.random(3, 150)
				shard := uint16(w.rng.IntN(3))
				if w.rows[shard].Intended == nil {
					finishedMoves++
				}
				if w.rows[shard].Intended == nil || w.rng.IntN(4) == 0 {
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
			t.Logf("%d moves, %d entries, %d answered, %d reads, %d snapshots", finishedMoves, len(w.content), w.acks, w.reads, w.images)
		})
	}
}
