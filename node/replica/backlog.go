package replica

// backlog is the entries that were given out as Committed and are not applied yet.
type backlog struct {
	entries []sized // by index
	bytes   heldBytes
}

type sized struct {
	index uint64
	bytes int
}

// add takes an entry that is given out.
func (b *backlog) add(index uint64, bytes int) {
	b.entries = append(b.entries, sized{index, bytes})
	b.bytes.add(bytes)
}

// shrink forgets the entries up to index, which are applied.
func (b *backlog) shrink(applied uint64) {
	n := 0
	for n < len(b.entries) && b.entries[n].index <= applied {
		b.bytes.add(-b.entries[n].bytes)
		n++
	}
	if b.entries = b.entries[n:]; len(b.entries) == 0 {
		b.entries = nil
	}
}

// forget empties the backlog.
func (b *backlog) forget() {
	b.entries = nil
	b.bytes.release()
}

// noteApplied takes what the engine has applied. See Host.Applied.
func (g *group) noteApplied(index uint64) {
	g.applied = max(g.applied, index)
	g.backlog.shrink(g.applied)
}

// full reports whether g's appliers are too far behind for further entries.
func (g *group) full() bool { return g.backlog.bytes.n > g.shared.config.BacklogBytesMax }
