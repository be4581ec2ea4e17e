package node

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/node/commit"
)

// settleWait bounds the confirmation of settlements.
const settleWait = 5 * time.Second

// Settlements returns the configurations of the groups that the node leads where they
// are not what the adopted map says. That it leads was confirmed after the call began:
// written into a map that was read before, they never replace a later configuration.
func (n *Node) Settlements(ctx context.Context) []commit.Settlement {
	claims := n.settlements()
	if len(claims) == 0 {
		return nil
	}
	shards := make([]uint16, len(claims))
	for i := range claims {
		shards[i] = claims[i].Shard
	}
	bounded, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	errs := n.Confirm(bounded, shards, 0)
	now := map[uint16]commit.Settlement{}
	for _, s := range n.settlements() {
		now[s.Shard] = s
	}
	var out []commit.Settlement
	for i := range claims {
		if s, still := now[claims[i].Shard]; still && errs[i] == nil && s.Term == claims[i].Term {
			out = append(out, s)
		}
	}
	return out
}

// settlements returns what groups have settled, for all that is known here.
func (n *Node) settlements() (out []commit.Settlement) {
	_ = n.loop.queue.do(func() { out = n.loop.machine.Settlements() }) // not run, there are none to tell
	return out
}

// Unsettled gets a signal when Settlements may have something new.
func (n *Node) Unsettled() <-chan struct{} { return n.loop.unsettled }
