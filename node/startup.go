package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// startup is what a node that was started still has to catch up with until it serves. It
// looks at each shard once: what a shard was behind by when it was looked at first is its
// target, and a shard that has reached its target is not looked at again. So a node is up
// after a bounded amount of work, however much is written meanwhile, and stays up: how far
// its copies are behind their leaders later is told by the leaders (Report), not by
// readiness.
type startup struct {
	mu      sync.Mutex
	looked  bool
	targets map[uint16]uint64 // by shard that has not caught up; targetUnknown: it had no leader yet
}

// targetUnknown is the target of a shard of which no leader has been known since the start.
const targetUnknown = ^uint64(0)

// standing is how far a replica that votes is. Committed is targetUnknown without a leader.
type standing struct{ applied, committed uint64 }

// look takes the standings of all shards in which this node votes, and returns the shards
// that have not caught up, in order.
func (s *startup) look(found map[uint16]standing) []uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.looked {
		s.looked, s.targets = true, map[uint16]uint64{}
		for shard := range found {
			s.targets[shard] = targetUnknown
		}
	}
	behind := make([]uint16, 0, len(s.targets))
	for shard, target := range s.targets {
		now, votes := found[shard]
		if target == targetUnknown {
			target = now.committed
			s.targets[shard] = target
		}
		if !votes || now.applied >= target {
			delete(s.targets, shard)
			continue
		}
		behind = append(behind, shard)
	}
	slices.Sort(behind)
	return behind
}

// up reports whether nothing is left to catch up with.
func (s *startup) up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looked && len(s.targets) == 0
}

// startupWait is how long Starting waits for entries that are under way, so that a node
// whose probes are seconds apart is up with the first one. Probes of Kubernetes wait for
// a second unless they are told otherwise.
const startupWait = 500 * time.Millisecond

// Starting returns the shards in which this node votes and has not, since it was started,
// known a leader and applied what that leader or the node itself knew to be committed. Once
// it has returned none, it never returns any again, and costs nothing.
func (n *Node) Starting() []uint16 {
	if n.startup.up() {
		return nil
	}
	found := n.standings()
	behind := n.startup.look(found)
	if len(behind) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startupWait)
	defer cancel()
	for _, shard := range behind {
		if found[shard].committed == targetUnknown || n.loop.applied[shard].await(ctx, found[shard].committed) != nil {
			return behind
		}
	}
	return n.startup.look(n.standings())
}

// standings returns how far this node's voting replicas are. It is empty when the node is
// stopped, or alone.
func (n *Node) standings() map[uint16]standing {
	found := map[uint16]standing{}
	if n.loop.single.Load() {
		return found
	}
	_ = n.loop.queue.do(func() { // a queue that is closed runs nothing
		for _, shard := range n.loop.machine.Host().Shards() {
			status, err := n.loop.machine.Host().Status(shard)
			if err != nil || status.SingleVoter || !votes(status) {
				continue
			}
			s := standing{applied: n.Applied(shard), committed: max(status.Commit, status.Told)}
			if status.Leader == "" || status.Installing {
				s.committed = targetUnknown
			} else if status.Role != shardmap.Full {
				s.applied = s.committed
			}
			found[shard] = s
		}
	})
	return found
}

// votes reports whether a replica votes in its group, as far as it knows.
func votes(status replica.GroupStatus) bool {
	return slices.ContainsFunc(status.Configuration.Members, func(m shardmap.Member) bool {
		return m.RaftID == status.RaftID && m.Role.Votes()
	})
}
