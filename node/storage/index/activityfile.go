package index

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const activityNew = "new-" // before the name of a file while it is being written

// openActivity reads the files of all months and days. One that is damaged counts as one in
// which every series was active: queries then look at more series than they need, and miss none.
func openActivity(o *Options) (*activity, error) {
	a := newActivity(o)
	byDay := o.State.Days != nil && !o.State.DaysByMonth
	a.complete.Store(o.State.Count == 0 || o.State.DaysByMonth || byDay)
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("series activity: %w", err)
	}
	loader := activityLoader{activity: a, options: o, kept: o.State.Count > 0 && a.complete.Load(), byDay: byDay}
	slices.Sort(names) // months, then their days
	for _, name := range names {
		if err := loader.load(name); err != nil {
			return nil, err
		}
	}
	for _, m := range *a.months.Load() {
		if !m.coarse() && (!a.complete.Load() || byDay && slices.Contains(o.State.Days.Coarse, m.month)) {
			m.coarsenLocked()
		}
		if byDay {
			m.daysDirty.Store(true) // they move to a file of the month
		}
		m.days.Load().each(func(_ int, p *periodMarks) { m.series.join(p, a.full) })
	}
	a.boundDaysLocked()
	return a, nil
}

// activityLoader reads files, before anybody else looks.
type activityLoader struct {
	*activity
	options *Options
	kept    bool // marks of days count
	byDay   bool // as a program has kept them that makes a file for each day
}

// load reads one of the files. What does not count, as it is of an earlier life or has been
// kept by a program that does not know of it, is removed by the next save.
func (l *activityLoader) load(name string) error {
	if fresh, ok := strings.CutPrefix(name, activityNew); ok {
		if !slices.ContainsFunc([]string{monthPrefix, dayPrefix, daysPrefix}, func(prefix string) bool { return strings.HasPrefix(fresh, prefix) }) {
			return nil
		}
		if err := l.fs.Remove(path.Join(l.dir, name)); err != nil {
			return fmt.Errorf("series activity: %w", err)
		}
		return nil
	}
	counts := l.kept
	var read func(b []byte) error
	if month, ok := monthOfFile(name, monthPrefix); ok {
		counts = l.options.State.Count > 0
		read = func(b []byte) error { return l.readMonth(month, b) }
	} else if month, ok := monthOfFile(name, daysPrefix); ok {
		read = func(b []byte) error { return l.readDays(month, b) }
	} else if day, ok := dayOfFile(name); ok {
		counts = l.kept && l.byDay
		read = func(b []byte) error { return l.readDay(day, b) }
	} else {
		return nil
	}
	if !counts {
		l.stale = append(l.stale, name)
		return nil
	}
	file := path.Join(l.dir, name)
	b, err := vfs.ReadFile(l.fs, file)
	if err != nil {
		b = nil // which is no file of activity
	}
	if damage := read(b); errors.Is(damage, ErrVersion) {
		return fmt.Errorf("%s: %w", file, damage)
	} else if damage != nil {
		l.options.Corrupt(&CorruptError{File: file, What: errors.Join(err, damage).Error()})
	}
	return nil
}

// month returns the month, with no marks if it is new.
func (l *activityLoader) month(month Month) *monthMarks {
	m := l.find(month.Days().From)
	if m == nil {
		m = newMonthMarks(month, false)
		l.insertLocked(m)
	}
	return m
}

func (l *activityLoader) readMonth(month Month, b []byte) error {
	m := l.month(month)
	inside, chunks, err := decodeMonth(b, l.options.State.Count, l.full)
	if err == nil && inside != month {
		err = fmt.Errorf("%w: it is of %s", errActivityFile, inside)
	}
	if err != nil {
		chunks = l.allSeries()
		m.series.dirty.Store(true)
	}
	m.series.chunks.Store(&chunks)
	return err
}

func (l *activityLoader) readDays(month Month, b []byte) error {
	m := l.month(month)
	inside, days, err := decodeDays(b, l.options.State.Count, l.full)
	if err == nil && inside != month {
		err = fmt.Errorf("%w: it is of %s", errActivityFile, inside)
	}
	if err != nil {
		m.coarsenLocked() // all that counts is marked in the month, which is written first
		return err
	}
	if days.coarse {
		m.days.Store(days)
	}
	days.each(func(day int, p *periodMarks) { l.addDay(m, m.within.From+Day(day), p) })
	m.daysDirty.Store(false)
	return nil
}

// addDay adds marks of a day to those that another file may have told of.
func (l *activityLoader) addDay(m *monthMarks, day Day, p *periodMarks) {
	if known := m.day(day); known != nil {
		known.join(p, l.full)
	} else if !m.coarse() {
		m.addDayLocked(day, p)
	}
}

func (l *activityLoader) readDay(day Day, b []byte) error {
	inside, chunks, err := decodeDay(b, l.options.State.Count, l.full)
	if err == nil && inside != day {
		err = fmt.Errorf("%w: it is of %s", errActivityFile, inside)
	}
	if err != nil {
		chunks = l.allSeries()
	}
	l.addDay(l.month(day.Month()), day, newPeriodMarks(chunks))
	return err
}

// allSeries has a mark of every series.
func (l *activityLoader) allSeries() (chunks []placedChunk) {
	var all [markWords]uint64
	for i := range all {
		all[i] = ^uint64(0)
	}
	count := l.options.State.Count
	for number := uint32(0); uint64(number)*markBits < uint64(count); number++ {
		chunks = appendPlaced(chunks, number, all, chunkFull, count, l.full)
	}
	return chunks
}

// save writes the months and days that changed and removes the files of those dropped. One
// save runs at a time.
func (a *activity) save() error {
	a.mu.Lock()
	if a.packLocked(); a.daysBytes > a.daysBytesMax {
		a.boundDaysLocked()
	}
	a.mu.Unlock()
	for _, m := range *a.months.Load() {
		if err := a.saveMonth(m); err != nil {
			return fmt.Errorf("series activity: %w", err)
		}
	}
	if err := a.saveDrops(); err != nil {
		return fmt.Errorf("series activity: %w", err)
	}
	if !a.renamed {
		return nil
	}
	if err := a.fs.SyncDir(a.dir); err != nil {
		return fmt.Errorf("series activity: %w", err)
	}
	a.renamed = false
	return nil
}

// saveMonth writes what changed of a month, its days after it.
func (a *activity) saveMonth(m *monthMarks) error {
	if m.series.dirty.Swap(false) {
		if err := a.write(monthFile(m.month), encodeMonth(m)); err != nil {
			m.series.dirty.Store(true)
			return err
		}
	}
	if m.takeDirty() {
		if err := a.write(daysFile(m.month), encodeDays(m)); err != nil {
			m.daysDirty.Store(true)
			return err
		}
	}
	return nil
}

// saveDrops removes the files of months that were dropped, and those that never count.
func (a *activity) saveDrops() error {
	a.mu.Lock()
	removed, stale := a.removed, a.stale
	a.removed, a.stale = nil, nil
	a.mu.Unlock()
	var problems []error
	for _, month := range removed {
		if a.find(month.Days().From) != nil {
			continue
		}
		if err := errors.Join(a.remove(daysFile(month)), a.remove(monthFile(month))); err != nil {
			problems = append(problems, err)
			a.mu.Lock()
			a.removed = append(a.removed, month)
			a.mu.Unlock()
		}
	}
	for _, name := range stale {
		if a.rewritten(name) {
			continue
		}
		if err := a.remove(name); err != nil {
			problems = append(problems, err)
			a.mu.Lock()
			a.stale = append(a.stale, name)
			a.mu.Unlock()
		}
	}
	return errors.Join(problems...)
}

// rewritten reports whether a file that did not count is of a month that has marks again.
func (a *activity) rewritten(name string) bool {
	for _, prefix := range []string{monthPrefix, daysPrefix} {
		if month, ok := monthOfFile(name, prefix); ok {
			return a.find(month.Days().From) != nil
		}
	}
	return false
}

func (a *activity) remove(name string) error {
	err := a.failpoints.Hit(PointActivityDrops)
	if err == nil {
		err = a.fs.Remove(path.Join(a.dir, name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a.renamed = a.renamed || err == nil
	return err
}

// write replaces a file as a whole.
func (a *activity) write(name string, b []byte) error {
	file, fresh := path.Join(a.dir, name), path.Join(a.dir, activityNew+name)
	if err := vfs.WriteFile(a.fs, fresh, b); err != nil {
		return err
	}
	if err := a.failpoints.Hit(PointActivityFile); err != nil {
		return err
	}
	if err := a.fs.Rename(fresh, file); err != nil {
		return err
	}
	a.renamed = true
	return nil
}
