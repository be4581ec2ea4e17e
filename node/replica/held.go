package replica

// heldBytes counts what a part of a group holds of entries, and adds it to what all groups hold.
type heldBytes struct {
	n     int
	total *int // of all groups; nil: it is not counted
}

func (b *heldBytes) add(bytes int) {
	b.n += bytes
	if b.total != nil {
		*b.total += bytes
	}
}

func (b *heldBytes) release() { b.add(-b.n) }

// heldBytes returns what a group holds of entries: those that are kept, and those that were given
// out and are not applied. An entry that is both counts twice, as it is soon one of them only.
func (g *group) heldBytes() int { return g.log.tailBytes.n + g.backlog.bytes.n }

// HeldBytes returns what all groups hold of entries.
func (h *Host) HeldBytes() int { return h.shared.heldBytes }

const (
	// heldBytesMin of entries every group may hold, whatever others do.
	heldBytesMin = 64 << 10
	// smallBytes of entries are taken from a leader as long as there is any room: a group that is
	// stuck with much may need the first entry of a term to go on.
	smallBytes = 16 << 10
	// reservedPart of Config.EntriesBytesMax is for small entries.
	reservedPart = 8
	// cachedPart of it is for entries that all groups keep for members that lag a little.
	cachedPart = 4
)

// hasRoom reports whether a group may hold so many bytes of entries more. It may hold no more than
// what is left free (see budget.Pool for such thresholds), so that groups that are stuck, as their
// members or appliers are, leave room for all others.
func (s *shared) hasRoom(g *group, bytes int) bool {
	most := s.config.EntriesBytesMax
	if most == 0 {
		return true
	}
	held := g.heldBytes() + bytes
	if held <= heldBytesMin {
		return true
	}
	return held <= most-most/reservedPart-s.heldBytes
}

// mayFollow reports whether a group may take so many bytes of entries from its leader, of a term. Small
// ones find room as long as there is any.
func (s *shared) mayFollow(g *group, bytes int, term uint64) bool {
	return bytes <= smallBytes && bytes <= s.config.EntriesBytesMax-s.heldBytes || s.hasRoom(g, bytes) || s.mayExceed(g, term)
}

// mayExceed reports whether a group may take one message for which there is no room, and notes that
// it does. A leader with more memory makes entries that never find room here, and would send them
// for ever. One group at a time may, once it has nothing else to decide or to apply but what is of
// former terms: that is decided only by an entry of the leader's term behind it.
func (s *shared) mayExceed(g *group, term uint64) bool {
	if g.unfinished() && (g.backlog.bytes.n > 0 || g.log.lastTerm() >= term) || s.exceeding != nil && s.exceeding != g && s.exceeding.unfinished() {
		return false
	}
	s.exceeding = g
	return true
}

// unfinished reports whether a group has entries that are not decided or not applied.
func (g *group) unfinished() bool {
	return g.fault == nil && (g.log.last > g.commit || g.backlog.bytes.n > 0)
}

// cacheBytes returns what a group may keep of entries that are done.
func (s *shared) cacheBytes() int {
	if most := s.config.EntriesBytesMax; most > 0 {
		return min(s.config.CacheBytesMax, most/cachedPart/max(s.groups, 1))
	}
	return s.config.CacheBytesMax
}
