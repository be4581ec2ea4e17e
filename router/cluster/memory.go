package cluster

import (
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/router/fanout"
)

const (
	forwardsMax = 128 << 20
	streamMax   = 32 << 20
	gatheredMax = 64 << 20
	idsMax      = 256 << 20
	// gatheredPart of what queries may hold is what one read gathers until a shard has answered.
	gatheredPart = 8
)

// MemoryMost returns what the shares of a router in a cluster can use.
func MemoryMost() map[memory.Share]int64 {
	return map[memory.Share]int64{memory.Forwards: forwardsMax, memory.IDs: idsMax}
}

// fanoutLimits returns what writes on their way, answers that are gathered and learnt ids may hold.
func fanoutLimits(plan *memory.Plan) fanout.Limits {
	forwards := plan.Bound(memory.Forwards, forwardsMax)
	return fanout.Limits{
		WriteBytesMax: forwards, StreamBytesMax: min(forwards/2, streamMax),
		ReadBytesMax: min(plan.Bound(memory.Queries, memory.Unlimited)/gatheredPart, gatheredMax), ResolverBytesMax: plan.Bound(memory.IDs, idsMax),
	}
}
