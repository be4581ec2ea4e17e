package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// activity describes which series had samples in which month and on which day. Readers take no lock.
//
// What was written before there were marks of days has none: its months are coarse, and
// until all of it is in segments (complete), a query asks for all months.
//
// Writers may scatter times over thousands of days. So the days of a month are one file, and
// beyond daysBytesMax the earliest months become coarse: a query of such a day looks at all
// series of the month.
type activity struct {
	fs           vfs.FS
	dir          string
	failpoints   *failpoint.Set
	months       atomic.Pointer[[]*monthMarks] // newest first; replaced on change
	complete     atomic.Bool                   // coarse months and marks of days tell of all samples
	full         *marks                        // shared; never written
	emptied      emptied
	hidden       *bitSet // series that no query finds: see forgets
	daysBytesMax int64

	mu        sync.Mutex // guards every change but the setting of a bit
	daysBytes int64      // memory of marks of days at most
	removed   []Month    // forgotten, and their files are still there
	stale     []string   // files that never count
	renamed   bool       // names in dir are not durable; for save alone
}

// daysBytesMax bounds the memory of marks of days. A day on which 4096 series that came one
// after the other are active takes 24 bytes for all of them, or up to 520 bytes where only some of
// them are.
const daysBytesMax = 64 << 20

func newActivity(o *Options) *activity {
	a := &activity{fs: o.FS, dir: o.Dir, failpoints: o.Failpoints, full: newFullMarks(), hidden: new(bitSet), daysBytesMax: o.daysBytesMax}
	if a.daysBytesMax == 0 {
		a.daysBytesMax = daysBytesMax
	}
	a.months.Store(&[]*monthMarks{})
	return a
}

// find returns the month of a day; nil: it has no marks.
func (a *activity) find(day Day) *monthMarks {
	list := *a.months.Load()
	if at, ok := searchMonth(list, day); ok {
		return list[at]
	}
	return nil
}

// newest returns the latest day up to a bound that has marks.
func (a *activity) newest(most Day) (Day, bool) {
	for _, m := range monthsBetween(*a.months.Load(), Days{From: 0, To: most}) {
		days := m.days.Load()
		if days.coarse {
			return min(m.within.To, most), true
		}
		for day := min(m.within.To, most); day >= m.within.From; day-- {
			if days.of[day-m.within.From] != nil {
				return day, true
			}
			if day == 0 {
				break
			}
		}
	}
	return 0, false
}

// mark marks a series on a day and in its month.
func (a *activity) mark(day Day, local uint32) {
	if m := a.find(day); m != nil {
		d := m.day(day)
		if d != nil && d.chunk(local).has(local) {
			return
		}
		if m.series.mark(local) && (m.coarse() || d != nil && d.mark(local)) {
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.markLocked(day, local)
}

// mark marks a series if that needs no lock.
func (p *periodMarks) mark(local uint32) bool {
	c := p.chunk(local)
	return c.has(local) || c.marks != nil && p.set(c.marks, local)
}

// markLocked is mark for who holds the lock.
func (a *activity) markLocked(day Day, local uint32) {
	m := a.find(day)
	if m == nil {
		m = newMonthMarks(day.Month(), false)
		a.insertLocked(m)
	}
	m.series.setLocked(local, a.full)
	if m.coarse() {
		return
	}
	d := m.day(day)
	if d == nil {
		d = newPeriodMarks(nil)
		m.addDayLocked(day, d)
		a.daysBytes += dayBytes
	}
	if a.daysBytes += d.setLocked(local, a.full); a.daysBytes > a.daysBytesMax {
		a.boundDaysLocked()
	}
}

func (a *activity) insertLocked(m *monthMarks) {
	list := *a.months.Load()
	at, _ := searchMonth(list, m.within.From)
	list = slices.Insert(slices.Clone(list), at, m)
	a.months.Store(&list)
	a.removed = slices.DeleteFunc(a.removed, func(month Month) bool { return month == m.month })
}

// dropBefore forgets all earlier months.
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

// daysHot are the latest days, whose marks may still change often: they stay bitmaps. So does
// the latest month.
const daysHot = 2

// packLocked makes the marks of months and days that are over small, and measures those of days.
func (a *activity) packLocked() {
	a.daysBytes = 0
	hot := daysHot
	for i, m := range *a.months.Load() {
		if i > 0 {
			m.series.pack(a.full)
		}
		days := m.days.Load()
		for _, p := range slices.Backward(days.of[:]) {
			switch {
			case p == nil:
			case hot > 0:
				hot--
			default:
				p.pack(a.full)
			}
		}
		a.daysBytes += days.bytes(a.full)
	}
}

// boundDaysLocked keeps marks of days below daysBytesMax. It leaves room for more, as it looks
// at all of them.
func (a *activity) boundDaysLocked() {
	a.packLocked()
	for _, m := range slices.Backward(*a.months.Load()) {
		if a.daysBytes <= a.daysBytesMax/4*3 {
			return
		}
		if bytes := m.days.Load().bytes(a.full); bytes > 0 {
			m.coarsenLocked()
			a.daysBytes -= bytes
		}
	}
}

// activityStats are figures of the marks.
type activityStats struct {
	months, monthsCoarse, days int
	bytes                      int64 // of memory
}

func (a *activity) stats() (s activityStats) {
	for _, m := range *a.months.Load() {
		days := m.days.Load()
		s.months++
		if days.coarse {
			s.monthsCoarse++
		}
		s.days += days.count()
		s.bytes += m.series.bytes(a.full) + days.bytes(a.full)
	}
	return s
}
