package index

import (
	"slices"
	"sync/atomic"
)

// monthMarks describes which series were active in a month, and on which of its days. Who is marked
// on a day is marked in its month.
type monthMarks struct {
	month     Month
	within    Days // of the month
	series    periodMarks
	days      atomic.Pointer[monthDays]
	daysDirty atomic.Bool // days came, or are not known any more, since they were saved
}

// monthDays are the days of a month. They are replaced as a whole, so that a reader finds either
// all marks of a day or that the days are not known.
type monthDays struct {
	coarse bool             // which series were active on which day is not known
	of     [31]*periodMarks // by day of the month; nil: none
}

func newMonthMarks(month Month, coarse bool) *monthMarks {
	m := &monthMarks{month: month, within: month.Days()}
	m.series.chunks.Store(&[]placedChunk{})
	m.days.Store(&monthDays{coarse: coarse})
	m.daysDirty.Store(coarse)
	return m
}

func (m *monthMarks) coarse() bool { return m.days.Load().coarse }

// day returns the marks of a day of the month; nil: none, or the days are not known.
func (m *monthMarks) day(day Day) *periodMarks { return m.days.Load().of[day-m.within.From] }

// addDayLocked adds the marks of a day that has none.
func (m *monthMarks) addDayLocked(day Day, p *periodMarks) {
	next := *m.days.Load()
	next.of[day-m.within.From] = p
	m.days.Store(&next)
	m.daysDirty.Store(true)
}

// coarsenLocked forgets on which days series were active. Who is setting a mark of a day has set
// that of the month.
func (m *monthMarks) coarsenLocked() {
	m.days.Store(&monthDays{coarse: true})
	m.daysDirty.Store(true)
}

// periods visits the marks of the month and of its days.
func (m *monthMarks) periods(visit func(*periodMarks)) {
	visit(&m.series)
	m.days.Load().each(func(_ int, p *periodMarks) { visit(p) })
}

// each visits the days that have marks.
func (d *monthDays) each(visit func(day int, p *periodMarks)) {
	for day, p := range d.of {
		if p != nil {
			visit(day, p)
		}
	}
}

// count returns how many days have marks.
func (d *monthDays) count() (n int) {
	d.each(func(int, *periodMarks) { n++ })
	return n
}

// bytes returns the memory of the marks of days.
func (d *monthDays) bytes(full *marks) (n int64) {
	d.each(func(_ int, p *periodMarks) { n += dayBytes + p.bytes(full) })
	return n
}

// dayBytes is the memory of a day without its chunks.
const dayBytes = 48

// takeDirty reports whether marks of days have to be saved, and takes that as done.
func (m *monthMarks) takeDirty() bool {
	dirty := m.daysDirty.Swap(false)
	m.days.Load().each(func(_ int, p *periodMarks) { dirty = p.dirty.Swap(false) || dirty })
	return dirty
}

// searchMonth returns where in a list, newest first, the month of a day is or would be. It is
// nearly always one of the newest.
func searchMonth(list []*monthMarks, day Day) (at int, found bool) {
	if len(list) > 0 && list[0].within.has(day) {
		return 0, true
	}
	return slices.BinarySearchFunc(list, day, func(m *monthMarks, day Day) int {
		switch {
		case m.within.From > day:
			return -1
		case m.within.has(day):
			return 0
		}
		return 1
	})
}

// monthsBetween returns of a list the months from that of one day to that of another, both
// included.
func monthsBetween(list []*monthMarks, days Days) []*monthMarks {
	first, _ := searchMonth(list, days.To)
	end, found := searchMonth(list, days.From)
	if found {
		end++
	}
	return list[first:max(first, end)]
}
