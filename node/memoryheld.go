package node

// MemoryHeld is what parts of a node hold, in bytes.
type MemoryHeld struct{ Inbox, Entries, Series int64 }

// MemoryHeld returns what parts of the node hold now.
func (n *Node) MemoryHeld() MemoryHeld {
	return MemoryHeld{Inbox: n.loop.queue.inboxBytes(), Entries: n.loop.entryBytes.Load(), Series: n.engine.SeriesBytes()}
}
