package node

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
)

// Confirm waits until reads of the shards here see every write that was answered
// before the call, anywhere, and returns an error for each shard of which that cannot
// be said: replica.NotLeaderError, series.ErrUnavailable, or that of the context.
//
// With a staleness above 0 it is enough that the replica was, at most so long ago, a
// full voter that had applied all that its leader had committed.
func (n *Node) Confirm(ctx context.Context, shards []uint16, stalenessMaxMs uint64) []error {
	errs := make([]error, len(shards))
	if n.loop.single.Load() {
		return errs // what is answered is applied
	}
	if stalenessMaxMs > 0 {
		if n.confirmStale(shards, stalenessMaxMs) {
			return errs
		}
	}
	wait := newReadWait(len(shards))
	starts := make([]commit.Read, len(shards))
	for i, shard := range shards {
		starts[i] = commit.Read{Shard: shard, Place: i, For: wait}
	}
	if err := n.loop.queue.read(starts); err != nil {
		return fill(errs, err)
	}
	select {
	case <-wait.done:
	case <-ctx.Done():
		return fill(errs, fmt.Errorf("%w: reads were not confirmed in time: %w", series.ErrUnavailable, ctx.Err()))
	}
	for i, shard := range shards {
		if errs[i] = wait.errs[i]; errs[i] == nil {
			errs[i] = n.loop.applied[shard].await(ctx, wait.index[i])
		}
	}
	return errs
}

// confirmStale reports whether all shards may be read here by a client that accepts old
// answers.
func (n *Node) confirmStale(shards []uint16, stalenessMaxMs uint64) (all bool) {
	all = true
	failed := n.loop.queue.do(func() {
		for _, shard := range shards {
			status, err := n.loop.machine.Host().Status(shard)
			age := uint64(status.Heard+1) * uint64(TickInterval.Milliseconds())
			if err != nil || status.Role != shardmap.Full || status.Leader == "" || status.Installing ||
				n.Applied(shard) < status.Commit || age > stalenessMaxMs {
				all = false
			}
		}
	})
	return all && failed == nil
}

func fill(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}
