package replica

import (
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// A read that waits for the answer of a voter which leaves meanwhile must not wait for
// ever, and hold up all later ones.
func TestReadsGoOnWhenTheOtherVoterLeaves(t *testing.T) {
	for seed := range uint64(40) {
		readWhileAVoterLeaves(t, seed)
	}
}

func readWhileAVoterLeaves(t *testing.T, seed uint64) {
	w := newWorld(t, seed, 2)
	both := members(full, full)
	w.fresh(0, both)
	leader := w.untilLed(0)
	other := w.nodes[0]
	if other == leader {
		other = w.nodes[1]
	}
	rest := slices.DeleteFunc(slices.Clone(both), func(m shardmap.Member) bool { return m.Node == other.name })
	w.until("a change", func() bool { return leader.host.Change(0, rest) == nil })
	w.until("the change is applied", func() bool {
		w.read(leader, 0)
		status, _ := leader.host.Status(0)
		return len(status.Configuration.Voters) == 1
	})
	w.until("a group with a single voter", func() bool { return leader.host.group(0).single })
	w.until("all reads have an outcome", func() bool { return len(leader.host.group(0).reading.tokens) == 0 })
}
