package replica

// shrinkBacklog forgets what is applied.
func (g *group) shrinkBacklog() {
	n := 0
	for n < len(g.backlog) && g.backlog[n].index <= g.applied {
		g.backlogBytes -= g.backlog[n].bytes
		n++
	}
	if g.backlog = g.backlog[n:]; len(g.backlog) == 0 {
		g.backlog = nil
	}
}

// full reports whether g's appliers are too far behind for further entries.
func (g *group) full() bool { return g.backlogBytes > g.shared.config.BacklogBytesMax }

// noteApplied takes what the engine has applied. See Host.Applied.
func (g *group) noteApplied(index uint64) {
	g.applied = max(g.applied, index)
	g.shrinkBacklog()
}
