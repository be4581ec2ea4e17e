package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	markWords = 64
	markBits  = markWords * 64 // series of a chunk of marks
)

// marks are the bits of a run of series in one month.
type marks struct {
	words [markWords]atomic.Uint64
	ones  atomic.Int32
}

// monthMarks says which series were active in a month. A chunk is nil while no
// series of it is, and shares one array of ones once all are.
type monthMarks struct {
	month  Month
	chunks atomic.Pointer[[]*marks] // replaced when a chunk is; guarded by activity.mu
	dirty  atomic.Bool              // since it was saved
}

// activity holds the marks of all months. Readers take no lock.
type activity struct {
	fs         vfs.FS
	dir        string
	failpoints *failpoint.Set
	months     atomic.Pointer[[]*monthMarks] // newest first; replaced on change
	full       *marks                        // shared; never written
	emptied    emptied

	mu      sync.Mutex // guards every change but the setting of a bit
	removed []Month    // their files are still there
	renamed bool       // names in dir are not durable; for save alone
}

func newActivity(fs vfs.FS, dir string, failpoints *failpoint.Set) *activity {
	a := &activity{fs: fs, dir: dir, failpoints: failpoints, full: new(marks)}
	for i := range a.full.words {
		a.full.words[i].Store(^uint64(0))
	}
	a.full.ones.Store(markBits)
	a.months.Store(&[]*monthMarks{})
	return a
}

func (a *activity) find(month Month) *monthMarks {
	for _, m := range *a.months.Load() {
		if m.month == month {
			return m
		}
	}
	return nil
}

func (m *monthMarks) chunk(local uint32) *marks {
	chunks := *m.chunks.Load()
	if n := int(local / markBits); n < len(chunks) {
		return chunks[n]
	}
	return nil
}

func (c *marks) has(local uint32) bool {
	return c.words[local%markBits/64].Load()&(1<<(local%64)) != 0
}

func (a *activity) active(month Month, local uint32) bool {
	if a.emptied.has(local) {
		return false
	}
	m := a.find(month)
	if m == nil {
		return false
	}
	c := m.chunk(local)
	return c != nil && c.has(local)
}

func (a *activity) mark(month Month, local uint32) {
	m := a.find(month)
	if m != nil {
		if c := m.chunk(local); c != nil {
			if c.has(local) {
				return
			}
			if a.set(m, c, local) {
				return
			}
		}
	}
	a.markSlowly(month, local)
}

// set sets a bit that was seen unset. It gives false when the chunk is being
// replaced, or was the last one to fill it, so that the lock is needed.
func (a *activity) set(m *monthMarks, c *marks, local uint32) bool {
	bit := uint64(1) << (local % 64)
	full := false
	if c.words[local%markBits/64].Or(bit)&bit == 0 {
		full = c.ones.Add(1) == markBits
	}
	// The mark first, then the note that there is something to save: save clears
	// the note before it reads the marks.
	if !m.dirty.Load() {
		m.dirty.Store(true)
	}
	return !full
}

// markSlowly makes what is missing: month, chunk, or the sharing of a full one.
func (a *activity) markSlowly(month Month, local uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.markLocked(month, local)
}

func (a *activity) markLocked(month Month, local uint32) {
	m := a.find(month)
	if m == nil {
		m = &monthMarks{month: month}
		m.chunks.Store(&[]*marks{})
		a.insertLocked(m)
	}
	n := int(local / markBits)
	chunks := *m.chunks.Load()
	if n >= len(chunks) || chunks[n] == nil {
		next := make([]*marks, max(n+1, len(chunks)))
		copy(next, chunks)
		next[n] = new(marks)
		m.chunks.Store(&next)
		chunks = next
	}
	if c := chunks[n]; !c.has(local) {
		a.set(m, c, local)
	}
	if c := chunks[n]; c != a.full && c.ones.Load() == markBits {
		// All its bits are set, so nobody has anything left to set in the old one.
		next := slices.Clone(chunks)
		next[n] = a.full
		m.chunks.Store(&next)
	}
}

func (a *activity) insertLocked(m *monthMarks) {
	months := append(slices.Clone(*a.months.Load()), m)
	slices.SortFunc(months, func(x, y *monthMarks) int { return int(y.month) - int(x.month) })
	a.months.Store(&months)
	a.removed = slices.DeleteFunc(a.removed, func(month Month) bool { return month == m.month })
}

func (a *activity) dropBefore(month Month) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []*monthMarks
	for _, m := range *a.months.Load() {
		if m.month >= month {
			kept = append(kept, m)
		} else {
			a.removed = append(a.removed, m.month)
		}
	}
	a.months.Store(&kept)
}

// view is the activity of a range of months as a query sees it.
type view struct {
	emptied  *emptied
	months   []*monthMarks
	unmarked func(local uint32) bool // whether one without a mark counts; nil: none does
}

func (a *activity) view(months Months) view {
	v := view{emptied: &a.emptied}
	for _, m := range *a.months.Load() {
		if m.month >= months.From && m.month <= months.To {
			v.months = append(v.months, m)
		}
	}
	return v
}

// Within is a range of time that a query asks about.
type Within struct {
	Months Months
	// Unmarked says whether a series may have samples in the range though it is not marked in
	// one of its months; nil: none has. It is asked for series of Shards only, by number.
	Unmarked func(ref series.Ref) bool
	Shards   []bool
}

func (x *Index) viewWithin(w Within) view {
	v := x.activity.view(w.Months)
	if w.Unmarked != nil {
		all := x.activity.view(AllMonths())
		v.unmarked = func(local uint32) bool {
			shard := x.keys.shard(local)
			if int(shard) >= len(w.Shards) || !w.Shards[shard] || !all.has(local) {
				return false
			}
			ref := series.Ref{Shard: shard, Hint: local}
			ids, known := x.shards.get(shard), false
			if ids != nil {
				ref.ID, known = ids.find(local)
			}
			return !known || w.Unmarked(ref)
		}
	}
	return v
}

func (v view) has(local uint32) bool {
	if v.emptied.has(local) {
		return false
	}
	for _, m := range v.months {
		if c := m.chunk(local); c != nil && c.has(local) {
			return true
		}
	}
	return v.unmarked != nil && v.unmarked(local)
}

// word gives the marks of the 64 series from local on, a multiple of 64.
func (v view) word(local uint32) (w uint64) {
	gone := v.emptied.word(local)
	for _, m := range v.months {
		if c := m.chunk(local); c != nil {
			w |= c.words[local%markBits/64].Load()
			if w == ^uint64(0) {
				break
			}
		}
	}
	return w &^ gone
}

// bytes gives the memory of all marks.
func (a *activity) bytes() (n int64) {
	for _, m := range *a.months.Load() {
		for _, c := range *m.chunks.Load() {
			n += 8
			if c != nil && c != a.full {
				n += markBits/8 + 8
			}
		}
	}
	return n
}
