package index

import (
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// activity says which series had samples in which month and on which day. Who is marked on a
// day is marked in its month. Readers take no lock.
//
// What was written before there were marks of days has none: its months are coarse, and
// until all of it is in segments (settled), a query asks for all months.
type activity struct {
	fs         vfs.FS
	dir        string
	failpoints *failpoint.Set
	months     periods
	days       periods
	settled    atomic.Bool // coarse months and marks of days tell of all samples
	full       *marks      // shared; never written
	emptied    emptied

	mu      sync.Mutex // guards every change but the setting of a bit
	renamed bool       // names in dir are not durable; for save alone
}

func newActivity(fs vfs.FS, dir string, failpoints *failpoint.Set) *activity {
	a := &activity{fs: fs, dir: dir, failpoints: failpoints, full: newFullMarks()}
	a.months.init(monthFiles())
	a.days.init(dayFiles())
	return a
}

// active reports whether a series is marked on a day or, where days are not known, in its month.
func (a *activity) active(day Day, local uint32) bool {
	return a.view(Days{From: day, To: day}).has(local)
}

// mark marks a series on a day and in its month.
func (a *activity) mark(day Day, local uint32) {
	if p := a.days.find(uint32(day)); p != nil && p.chunk(local).has(local) {
		return
	}
	month := uint32(day.Month())
	a.markIn(&a.months, month, local)
	if p := a.months.find(month); p == nil || !p.coarse {
		a.markIn(&a.days, uint32(day), local)
	}
}

func (a *activity) markIn(ps *periods, number, local uint32) {
	if p := ps.find(number); p != nil {
		c := p.chunk(local)
		if c.has(local) || c.marks != nil && p.set(c.marks, local) {
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.markInLocked(ps, number, local)
}

// markInLocked makes what is missing: period, chunk, or the sharing of a full one.
func (a *activity) markInLocked(ps *periods, number, local uint32) {
	p := ps.find(number)
	if p == nil {
		p = newPeriodMarks(number, nil)
		ps.insertLocked(p)
	}
	n := int(local / markBits)
	c := p.chunk(local)
	if c.marks == nil && !c.has(local) {
		c = chunk{marks: c.writable()}
		p.replace(n, c)
	}
	if c.marks == nil {
		return
	}
	if !c.has(local) {
		p.set(c.marks, local)
	}
	if c.marks != a.full && c.marks.ones.Load() == markBits {
		// All its bits are set, so nobody has anything left to set in the old one.
		p.replace(n, chunk{marks: a.full})
	}
}

// markLocked is mark for who holds the lock.
func (a *activity) markLocked(day Day, local uint32) {
	month := uint32(day.Month())
	a.markInLocked(&a.months, month, local)
	if !a.months.find(month).coarse {
		a.markInLocked(&a.days, uint32(day), local)
	}
}

func (a *activity) dropBefore(month Month) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.days.dropBeforeLocked(uint32(month.Days().From))
	a.months.dropBeforeLocked(uint32(month))
}

// daysHot are the latest days, whose marks may still change often: they stay bitmaps.
const daysHot = 2

// pack makes the marks of days that are over small.
func (a *activity) pack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, p := range *a.days.list.Load() {
		if i >= daysHot {
			p.pack(a.full)
		}
	}
}

// bytes returns the memory of all marks.
func (a *activity) bytes() int64 { return a.months.bytes(a.full) + a.days.bytes(a.full) }
