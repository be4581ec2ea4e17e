package node

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/commit"
)

// groupView is what others than the loop may know of a shard's replica: its commit.View. It
// may be a moment old.
type groupView struct {
	single   atomic.Bool // it is its group's only voter, and agrees with itself
	leads    atomic.Bool
	witness  atomic.Bool
	learner  atomic.Bool
	changing atomic.Bool
	era      atomic.Uint32
	lives    atomic.Uint64 // replicas that were here since the start
}

func (g *groupView) publish(v *commit.View) {
	g.single.Store(v.SingleVoter)
	g.leads.Store(v.Leads)
	g.witness.Store(v.Witness)
	g.learner.Store(v.Learner)
	g.changing.Store(v.Changing)
	g.era.Store(v.Era)
	g.lives.Store(v.Lives)
}
