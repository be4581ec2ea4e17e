package cache

import (
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// entry is what is known of one question. One that was asked once has no windows.
type entry struct {
	key   string
	grid  grid
	asked scan.Aggregate

	bytes int64 // guarded by the cache's lock
	uses  uint8 // guarded by the cache's lock: see widest

	mu struct {
		sync.RWMutex
		span   span
		marks  []scan.Mark // of all shards, sorted; never changed, only replaced
		index  map[string]int
		series []*keyed
		// The widest requests of late, in windows: more is not kept.
		widest, widestBefore int64
	}
}

// keyed is a series' column. Columns are read and appended to under the entry's lock.
type keyed struct {
	key string
	column
}

// view is an entry at one moment. Windows of it, and series that have some, stay.
type view struct {
	span
	marks  []scan.Mark
	series []*keyed
}

func (e *entry) view() view {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return view{e.mu.span, e.mu.marks, slices.Clip(e.mu.series)}
}

// find returns the place of a series in the list.
func (e *entry) find(key []byte) (place int, found bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	place, found = e.mu.index[string(key)]
	return place, found
}

// add adds a column, which is not used any more, for a series that has none. The lock is held, or nobody else has e.
func (e *entry) add(key string, c *column) {
	if e.mu.index == nil {
		e.mu.index = map[string]int{}
	}
	e.mu.index[key] = len(e.mu.series)
	added := &keyed{key: key}
	c.moveTo(&added.column)
	e.mu.series = append(e.mu.series, added)
}

// confirm takes newer marks that stand for all windows up to one, if that is still the end.
func (e *entry) confirm(to int64, marks []scan.Mark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.span.to == to {
		e.mu.marks = marks
	}
}

// extend takes the windows behind the end, if it is still the end, and returns the memory
// that was added.
func (e *entry) extend(behind span, marks []scan.Mark, recorded []map[string]*column) (bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.span.to != behind.from {
		return 0
	}
	counted := e.asked&scan.AggregateCount != 0
	for _, columns := range recorded {
		for key, c := range columns {
			place, found := e.mu.index[key]
			if !found {
				e.add(key, c)
				bytes += e.mu.series[len(e.mu.series)-1].bytes() + int64(len(key))
				continue
			}
			mine := &e.mu.series[place].column
			bytes -= mine.bytes()
			mine.appendColumn(c, counted)
			bytes += mine.bytes()
		}
	}
	e.mu.span.to, e.mu.marks = behind.to, marks
	return bytes
}

// part returns an entry of some of the windows, whose marks are newer.
func (e *entry) part(within span, marks []scan.Mark) *entry {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := &entry{key: e.key, grid: e.grid, asked: e.asked, bytes: entryBytes + int64(len(e.key))}
	out.mu.span, out.mu.marks = within, marks
	out.mu.widest, out.mu.widestBefore = e.mu.widest, e.mu.widestBefore
	for _, s := range e.mu.series {
		if c := s.part(within); c.windows > 0 {
			out.add(s.key, c)
			out.bytes += out.mu.series[len(out.mu.series)-1].bytes() + int64(len(s.key))
		}
	}
	return out
}

// usesInTurn is after how many uses a request that was wide is forgotten.
const usesInTurn = 64

// wanted notes how wide a request is, and reports whether the entry has much more than any
// of late.
func (e *entry) wanted(windows int64, turn bool) (trim bool, width int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if turn {
		e.mu.widestBefore, e.mu.widest = e.mu.widest, 0
	}
	e.mu.widest = max(e.mu.widest, windows)
	width = max(e.mu.widest, e.mu.widestBefore)
	return e.mu.span.to-e.mu.span.from > width+width/4, width
}

// read fills a chunk with windows of a series that lie within a span, none if it has none. Next is where to go on, 0 at
// the first; more reports whether there is something.
func (e *entry) read(c *column, within span, at int, chunk *scan.Chunk) (ref series.Ref, next int, more bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	at = max(at, c.position(within.from))
	end := c.position(within.to)
	next = min(end, at+chunkWindowsMax)
	if next <= at {
		chunk.Times = chunk.Times[:0]
		return c.ref, at, false
	}
	c.fill(e.grid, e.asked, at, next, chunk)
	return c.ref, next, next < end
}

// chunkWindowsMax bounds the chunks that are given.
const chunkWindowsMax = 2048
