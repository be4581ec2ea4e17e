package node

import (
	"cmp"

	"github.com/tickmesh/tickmesh/node/commit"
)

// MemoryBounds are what parts of a node may hold, in bytes. 0: the default.
type MemoryBounds struct {
	QueueBytes       int64 // of writes that wait for the log; 64 MiB
	InboxBytes       int64 // of envelopes that wait for the loop; 64 MiB
	EntriesBytes     int64 // of entries in rounds, and of all groups that are not decided or not applied, and the newest; 0: rounds and groups have bounds of their own only
	OutboxBytes      int64 // of envelopes that wait for other nodes; 0: no bound
	SeriesBytes      int64 // of the index, the hot pages and the exemplars of all shards; 0: no bound
	MaintenanceBytes int64 // of flushes and exports; 64 MiB
}

// DefaultMemoryBounds returns the defaults, more than which a node cannot use.
func DefaultMemoryBounds() MemoryBounds {
	return MemoryBounds{QueueBytes: queueBytesDefault, InboxBytes: inboxBytesDefault, MaintenanceBytes: maintenanceBytesDefault}
}

func (b MemoryBounds) withDefaults() MemoryBounds {
	d := DefaultMemoryBounds()
	b.QueueBytes = cmp.Or(b.QueueBytes, d.QueueBytes)
	b.InboxBytes = cmp.Or(b.InboxBytes, d.InboxBytes)
	b.MaintenanceBytes = cmp.Or(b.MaintenanceBytes, d.MaintenanceBytes)
	return b
}

// roundsPart of EntriesBytes is for the buffers of rounds, the rest for groups.
const roundsPart = 3

// raftBytes returns what groups may hold of entries; 0: there is no bound.
func (b *MemoryBounds) raftBytes() int64 { return b.EntriesBytes - b.EntriesBytes/roundsPart }

// roundBytes returns the bytes of writes that one round takes.
func (b *MemoryBounds) roundBytes() int64 {
	if b.EntriesBytes == 0 {
		return commit.RoundBytesMax
	}
	return min(b.EntriesBytes/roundsPart/roundsInFlight, commit.RoundBytesMax)
}

// laggingPart of OutboxBytes is read from the log for members that lag: it is in memory up to three
// times, as entries are read, made messages and put into envelopes, and no peer has more than half.
const laggingPart = 4

// laggingBytes returns what groups read at a time for members that lag; 0: there is no bound.
func (b *MemoryBounds) laggingBytes() int64 { return b.OutboxBytes / laggingPart }

const maintenanceBytesDefault = 64 << 20
