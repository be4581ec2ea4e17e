package index

import (
	"slices"
	"sync/atomic"
)

// emptied are the series of which a delete has taken every sample, and that got none since.
// Queries pass over them at once. Their marks go only when the log has the delete for good
// (ClearEmptied): a mark that is missing on disk would hide the samples of a series whose
// delete was lost with the end of the log.
//
// A bit is set, and taken back when a sample comes, by who holds the lock of the series'
// shard. Readers take no lock. They look here before they look at the marks, which are
// changed first whenever a series leaves.
type emptied struct {
	chunks atomic.Pointer[[]*marks] // nil chunks: none; guarded by activity.mu
	some   atomic.Bool              // may have any
}

func (e *emptied) chunk(local uint32) *marks {
	if !e.some.Load() {
		return nil
	}
	if chunks := *e.chunks.Load(); int(local/markBits) < len(chunks) {
		return chunks[local/markBits]
	}
	return nil
}

func (e *emptied) has(local uint32) bool {
	c := e.chunk(local)
	return c != nil && c.has(local)
}

// word returns the bits of the 64 series from local on, a multiple of 64.
func (e *emptied) word(local uint32) uint64 {
	if c := e.chunk(local); c != nil {
		return c.words[local%markBits/64].Load()
	}
	return 0
}

// empty notes that series have no samples.
func (a *activity) empty(locals []uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var chunks []*marks
	if of := a.emptied.chunks.Load(); of != nil {
		chunks = *of
	}
	chunks = append([]*marks(nil), chunks...)
	for _, local := range locals {
		n := int(local / markBits)
		for n >= len(chunks) {
			chunks = append(chunks, nil)
		}
		if chunks[n] == nil {
			chunks[n] = new(marks)
		}
		chunks[n].words[local%markBits/64].Or(1 << (local % 64))
	}
	a.emptied.chunks.Store(&chunks)
	a.emptied.some.Store(len(chunks) > 0)
}

// revive marks a series that has got a sample. The bit is looked at before the mark: clearEmptied
// may be taking both away, in the other order.
func (a *activity) revive(day Day, local uint32) {
	if !a.emptied.has(local) {
		a.mark(day, local)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.markLocked(day, local)
	if c := a.emptied.chunk(local); c != nil {
		c.words[local%markBits/64].And(^(uint64(1) << (local % 64)))
	}
}

// emptiedSet is what emptied had at a moment: bits by chunk.
type emptiedSet map[int]*[markWords]uint64

// emptiedNow copies what there is; nil: nothing.
func (a *activity) emptiedNow() emptiedSet {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.emptied.some.Load() {
		return nil
	}
	set := emptiedSet{}
	for n, c := range *a.emptied.chunks.Load() {
		if c == nil {
			continue
		}
		words, any := new([markWords]uint64), uint64(0)
		for i := range words {
			words[i] = c.words[i].Load()
			any |= words[i]
		}
		if any != 0 {
			set[n] = words
		}
	}
	return set
}

// clearEmptied takes the marks of those of a set that are still empty. Each period is changed once: there
// are thousands of days, and a mark that needs the lock waits with the lock of its shard held.
func (a *activity) clearEmptied(set emptiedSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	chunks := append([]*marks(nil), *a.emptied.chunks.Load()...)
	still := emptiedSet{}
	for n, words := range set {
		if n >= len(chunks) || chunks[n] == nil {
			continue
		}
		gone := new([markWords]uint64)
		for i := range gone {
			gone[i] = words[i] & chunks[n].words[i].Load()
		}
		still[n] = gone
	}
	for _, m := range *a.months.Load() {
		m.periods(func(p *periodMarks) { p.clearLocked(a.full, still) })
	}
	left := false
	for n, c := range chunks {
		if c == nil {
			continue
		}
		gone, rest := still[n], uint64(0)
		for i := range c.words {
			if gone != nil {
				c.words[i].And(^gone[i])
			}
			rest |= c.words[i].Load()
		}
		if rest == 0 {
			chunks[n] = nil
		}
		left = left || rest != 0
	}
	a.emptied.chunks.Store(&chunks)
	a.emptied.some.Store(left)
}

// clearLocked takes the marks of a set of series.
func (p *periodMarks) clearLocked(full *marks, set emptiedSet) {
	next, changed := slices.Clone(*p.chunks.Load()), false
	for n, gone := range set {
		at, found := searchChunk(next, uint32(n))
		if !found || next[at].none() {
			continue
		}
		words, some := next[at].words(), uint64(0)
		for i := range words {
			some |= words[i] & gone[i]
			words[i] &^= gone[i]
		}
		if some == 0 {
			continue
		}
		changed = true
		if c := next[at].marks; c != nil && c != full { // others may be setting bits of it
			c.clear(gone)
		} else {
			next[at].chunk = makeChunk(words, true, markBits, full)
		}
	}
	if !changed {
		return
	}
	next = slices.DeleteFunc(next, func(c placedChunk) bool { return c.none() })
	p.chunks.Store(&next)
	p.packed = false
	p.dirty.Store(true)
}

// clear takes bits back.
func (c *marks) clear(gone *[markWords]uint64) {
	for i := range c.words {
		for rest := gone[i] & c.words[i].Load(); rest != 0; rest &= rest - 1 {
			bit := rest & -rest
			if c.words[i].And(^bit)&bit != 0 {
				c.ones.Add(-1)
			}
		}
	}
}

// Empty notes that a delete has taken all samples of series, of which there is none: until
// they are marked again by MarkActive or Create they are not found by queries. The caller
// holds the lock of their shard.
func (x *Index) Empty(locals []uint32) {
	if count := x.keys.count.Load(); len(locals) > 0 {
		known := locals[:0:0]
		for _, local := range locals {
			if local < count {
				known = append(known, local)
			}
		}
		x.activity.empty(known)
	}
}

// Emptied is what Empty has said until a moment.
type Emptied struct{ set emptiedSet }

// Any reports whether there is any.
func (e Emptied) Any() bool { return len(e.set) > 0 }

// EmptiedNow returns what Empty has said, for ClearEmptied.
func (x *Index) EmptiedNow() Emptied { return Emptied{x.activity.emptiedNow()} }

// ClearEmptied is told that the log has what Empty was called for until EmptiedNow, for good:
// the next Sync forgets the activity of those that are still empty.
func (x *Index) ClearEmptied(e Emptied) {
	if e.Any() {
		x.activity.clearEmptied(e.set)
	}
}

// MarkStored notes that files have samples of a series on a day. It does not say that a
// series has some again: they may be from before a delete.
func (x *Index) MarkStored(day Day, local uint32) {
	if local < x.keys.count.Load() {
		x.activity.mark(min(day, DayMax), local)
	}
}
