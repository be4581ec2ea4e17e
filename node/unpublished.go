package node

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/node/commit"
)

// confirmTimeout bounds the confirmation of configurations.
const confirmTimeout = 5 * time.Second

// Unpublished returns the configurations of the groups that the node leads where they
// are not what the adopted map says. That it leads was confirmed after the call began:
// written into a map that was read before, they never replace a later configuration.
func (n *Node) Unpublished(ctx context.Context) []commit.GroupConfig {
	claims := n.unpublished()
	if len(claims) == 0 {
		return nil
	}
	shards := make([]uint16, len(claims))
	for i := range claims {
		shards[i] = claims[i].Shard
	}
	bounded, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	errs := n.Confirm(bounded, shards, 0)
	now := map[uint16]commit.GroupConfig{}
	for _, s := range n.unpublished() {
		now[s.Shard] = s
	}
	var out []commit.GroupConfig
	for i := range claims {
		if s, still := now[claims[i].Shard]; still && errs[i] == nil && s.Term == claims[i].Term {
			out = append(out, s)
		}
	}
	return out
}

// unpublished returns the configurations that the map lacks, for all that is known here.
func (n *Node) unpublished() (out []commit.GroupConfig) {
	_ = n.loop.queue.do(func() { out = n.loop.machine.Unpublished() }) // not run, there are none to tell
	return out
}

// PublishSignal gets a signal when Unpublished may have something new.
func (n *Node) PublishSignal() <-chan struct{} { return n.loop.publish }
