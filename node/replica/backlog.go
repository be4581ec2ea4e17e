package replica

// Applied says that the engine has applied the shard's entries up to index. It must be
// called as appliers go on: a follower whose appliers are behind by
// Config.BacklogBytesMax takes no further entries.
func (h *Host) Applied(shard uint16, index uint64) {
	g := h.group(shard)
	if g == nil {
		return
	}
	g.applied = max(g.applied, index)
	g.shrinkBacklog()
}

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
func (h *Host) full(g *group) bool { return g.backlogBytes > h.config.BacklogBytesMax }
