package replica

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func member(node string, id uint64, role shardmap.Role) shardmap.Member {
	return shardmap.Member{Node: node, Incarnation: "i", RaftID: id, Role: role}
}

// leading is the status of member 1 as the leader of config, everybody with all of a
// log of 100 entries.
func leading(config ...shardmap.Member) GroupStatus {
	s := GroupStatus{Replica: Replica{RaftID: 1, Role: full}, Leads: true, Last: 100, Commit: 100, Configuration: fresh(config)}
	for _, m := range s.Configuration.Members {
		s.Progress = append(s.Progress, MemberProgress{Member: m, Match: 100, Active: true, Replicating: true})
	}
	return s
}

func TestNextStep(t *testing.T) {
	a, b, c := member("a", 1, full), member("b", 2, full), member("c", 3, witness)
	d, dLearner := member("d", 4, full), member("d", 4, learner)
	rowOf := func(intended []shardmap.Member, present ...shardmap.Member) shardmap.Row {
		return shardmap.Row{Version: 1, RaftIDLast: 9, Era: 1, Members: present, Intended: intended}
	}
	list := func(m ...shardmap.Member) []shardmap.Member { return m }
	behind := leading(a, b, c, dLearner)
	behind.Progress[3].Match = 20
	joint := leading(a, b, c)
	joint.Configuration.Outgoing = []uint64{1, 2, 4}
	follower := leading(a, b, c)
	follower.Leads = false
	witnessLeads := leading(a, b, c)
	witnessLeads.RaftID, witnessLeads.Role = 3, witness
	freshRow := rowOf(nil, a, b, c)
	freshRow.Fresh = true
	aAgain := member("a", 7, witness)

	for _, c := range []struct {
		name    string
		row     shardmap.Row
		status  GroupStatus
		kind    StepKind
		members []shardmap.Member
		node    string
	}{
		{"as it should be", rowOf(nil, a, b, c), leading(a, b, c), StepNone, nil, ""},
		{"a follower does nothing", rowOf(list(a, b, d), a, b, c), follower, StepNone, nil, ""},
		{"the first publication", freshRow, leading(a, b, c), StepPublish, list(a, b, c), ""},
		{"wait for a change", rowOf(list(a, b, d), a, b, c), joint, StepWait, nil, ""},
		{"learners join", rowOf(list(a, b, d), a, b, c), leading(a, b, c), StepChange, list(a, b, c, dLearner), ""},
		{"publish before the next change", rowOf(list(a, b, d), a, b, c), leading(a, b, c, dLearner), StepPublish, list(a, b, c, dLearner), ""},
		{"a learner catches up", rowOf(list(a, b, d), a, b, c, dLearner), behind, StepWait, nil, "d"},
		{"one change", rowOf(list(a, b, d), a, b, c, dLearner), leading(a, b, c, dLearner), StepChange, list(a, b, d), ""},
		{"given up", rowOf(nil, a, b, c), leading(a, b, c, dLearner), StepPublish, list(a, b, c, dLearner), ""},
		{"a learner too many goes", rowOf(list(a, b), a, b, dLearner), leading(a, b, dLearner), StepChange, list(a, b), ""},
		{"a leader that leaves hands over", rowOf(list(b, c, d), a, b, c, dLearner), leading(a, b, c, dLearner), StepTransfer, nil, "b"},
		{"the only voter leaves last", rowOf(list(d), a, dLearner), leading(a, dLearner), StepChange, list(a, d), ""},
		{"and then hands over", rowOf(list(d), a, d), leading(a, d), StepTransfer, nil, "d"},
		{"a witness waits", rowOf(list(a, b, d), a, b, c), witnessLeads, StepWait, nil, ""},
		{"another replica in the leader's place is not wanted any more", rowOf(list(b, d, aAgain), a, b, d), leading(a, b, d), StepPublish, list(a, b, d), ""},
		{"the same without an heir", rowOf(list(aAgain, d), a), leading(a), StepPublish, list(a), ""},
		{"never without data", rowOf(list(c), a, c), leading(a, c), StepWait, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := NextStep(c.row, c.status)
			if step.Kind != c.kind || !slices.Equal(step.Members, c.members) || step.Node != c.node {
				t.Fatalf("%+v", step)
			}
		})
	}
}

// TestOnePlaceOneReplica holds what NextStep relies on: in a valid row nobody intends
// another replica in the place of a member. Its rows come from fixed seeds, so that how many
// of each kind it has met does not depend on luck.
func TestOnePlaceOneReplica(t *testing.T) {
	members := rapid.Custom(func(t *rapid.T) []shardmap.Member {
		members := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) shardmap.Member {
			return shardmap.Member{Node: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "node"), Incarnation: "00000000000000000000000000000001",
				RaftID: rapid.Uint64Range(1, 6).Draw(t, "id"), Role: rapid.SampledFrom([]shardmap.Role{full, witness, learner}).Draw(t, "role")}
		}), 1, 4, func(m shardmap.Member) uint64 { return m.RaftID }).Draw(t, "members")
		shardmap.SortMembers(members)
		return members
	})
	const rows = 10_000
	met, valid := 0, 0
	for seed := range rows {
		row := shardmap.Row{Version: 1, RaftIDLast: 6, Era: 1, Members: members.Example(2 * seed), Intended: members.Example(2*seed + 1)}
		other := slices.ContainsFunc(row.Members, func(m shardmap.Member) bool {
			return slices.ContainsFunc(row.Intended, func(wanted shardmap.Member) bool { return wanted.SamePlace(m) && !wanted.SameReplica(m) })
		})
		met += int(boolBit(other))
		if row.Validate() != nil {
			continue
		}
		valid++
		if other {
			t.Fatalf("%+v", row)
		}
	}
	if met < 100 || valid < 100 {
		t.Fatalf("%d of %d rows with two replicas of one place were drawn, %d valid ones", met, rows, valid)
	}
}
