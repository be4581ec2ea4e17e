package command

import (
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/member"
)

// What a node can use of its shares beside node.DefaultMemoryBounds. One that holds more entries
// has members or appliers that are far behind, which more memory does not help.
const (
	outboxMax  = 64 << 20
	entriesMax = 256 << 20
)

// MemoryMost returns what the shares of so many nodes can use.
func MemoryMost(nodes int) map[memory.Share]int64 {
	n, most := int64(max(nodes, 1)), node.DefaultMemoryBounds()
	return map[memory.Share]int64{
		memory.Messages: n * 8 * transport.MessageBytesMax, memory.Scans: n * member.ScansMax, memory.Inbox: n * most.InboxBytes, memory.Outbox: n * outboxMax,
		memory.Entries: n * entriesMax, memory.Maintenance: n * most.MaintenanceBytes,
	}
}

// nodeMemory returns what a node may hold by the plan of its process. Writes that wait for the log
// are of those that callers hold: messages in a cluster, else requests.
func nodeMemory(plan *memory.Plan) node.MemoryBounds {
	if plan == nil {
		return node.MemoryBounds{}
	}
	most := node.DefaultMemoryBounds()
	queue := plan.NodeBound(memory.Messages, most.QueueBytes)
	if queue == 0 {
		queue = plan.Bound(memory.Writes, most.QueueBytes)
	}
	return node.MemoryBounds{
		QueueBytes: queue, InboxBytes: plan.NodeBound(memory.Inbox, most.InboxBytes), EntriesBytes: plan.NodeBound(memory.Entries, entriesMax),
		OutboxBytes: plan.NodeBound(memory.Outbox, outboxMax),
		SeriesBytes: plan.NodeBound(memory.Series, memory.Unlimited), MaintenanceBytes: plan.NodeBound(memory.Maintenance, most.MaintenanceBytes),
	}
}

// TrackMemory has what a node holds counted in metrics.
func TrackMemory(plan *memory.Plan, n *node.Node) {
	plan.Track(memory.Inbox, func() int64 { return n.MemoryHeld().Inbox })
	plan.Track(memory.Entries, func() int64 { return n.MemoryHeld().Entries })
	plan.Track(memory.Series, func() int64 { return n.MemoryHeld().Series })
}
