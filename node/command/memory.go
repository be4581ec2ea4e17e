package command

import (
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/node"
)

// What a node can use of its shares. One that holds more entries has members or appliers that are
// far behind, which more memory does not help.
const (
	queueMax       = 64 << 20
	inboxMax       = 64 << 20
	outboxMax      = 64 << 20
	entriesMax     = 256 << 20
	maintenanceMax = 64 << 20
)

// MemoryMost returns what the shares of so many nodes can use.
func MemoryMost(nodes int) map[memory.Share]int64 {
	n := int64(max(nodes, 1))
	return map[memory.Share]int64{
		memory.Messages: n * 8 * transport.MessageBytesMax, memory.Inbox: n * inboxMax, memory.Outbox: n * outboxMax,
		memory.Entries: n * entriesMax, memory.Maintenance: n * maintenanceMax,
	}
}

// nodeMemory returns what a node may hold by the plan of its process. Writes that wait for the log
// are of those that callers hold: messages in a cluster, else requests.
func nodeMemory(plan *memory.Plan) node.MemoryBounds {
	if plan == nil {
		return node.MemoryBounds{}
	}
	queue := plan.NodeBound(memory.Messages, queueMax)
	if queue == 0 {
		queue = plan.Bound(memory.Writes, queueMax)
	}
	return node.MemoryBounds{
		QueueBytes: queue, InboxBytes: plan.NodeBound(memory.Inbox, inboxMax), EntriesBytes: plan.NodeBound(memory.Entries, entriesMax),
		SeriesBytes: plan.NodeBound(memory.Series, memory.Unlimited), MaintenanceBytes: plan.NodeBound(memory.Maintenance, maintenanceMax),
	}
}

// TrackMemory has what a node holds counted in metrics.
func TrackMemory(plan *memory.Plan, n *node.Node) {
	plan.Track(memory.Inbox, func() int64 { return n.MemoryHeld().Inbox })
	plan.Track(memory.Entries, func() int64 { return n.MemoryHeld().Entries })
	plan.Track(memory.Series, func() int64 { return n.MemoryHeld().Series })
}
