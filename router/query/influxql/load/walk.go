package load

import (
	"math"
	"slices"
)

// Walk goes through the rows of tables in the order of time; of equal times the table
// that comes first is first. Backwards it goes from the newest to the oldest.
type Walk struct {
	backwards bool
	heads     []walkHead // a heap: the next row is that of the first
}

// walkHead is where a walk is in one table.
type walkHead struct {
	time  int64 // of the next row, with another sign backwards
	order int
	table *Table
	row   int // the next one
	end   int // one beyond the last row, in the direction of the walk
}

// NewWalk begins a walk through the rows within [from, to].
func NewWalk(tables []*Table, from, to int64, backwards bool) *Walk {
	w := &Walk{backwards: backwards, heads: make([]walkHead, 0, len(tables))}
	for i, t := range tables {
		first, _ := slices.BinarySearch(t.Times, from)
		end := len(t.Times)
		if to < math.MaxInt64 {
			end, _ = slices.BinarySearch(t.Times, to+1)
		}
		if first >= end {
			continue
		}
		h := walkHead{table: t, order: i, row: first, end: end}
		if backwards {
			h.row, h.end = end-1, first-1
		}
		h.time = w.key(t.Times[h.row])
		w.heads = append(w.heads, h)
	}
	for i := len(w.heads)/2 - 1; i >= 0; i-- {
		w.sink(i)
	}
	return w
}

func (w *Walk) key(t int64) int64 {
	if w.backwards {
		return -t // no time is math.MinInt64
	}
	return t
}

// Next returns the next row; a nil table: there is none.
func (w *Walk) Next() (*Table, int) {
	if len(w.heads) == 0 {
		return nil, 0
	}
	h := &w.heads[0]
	t, row := h.table, h.row
	if w.backwards {
		h.row--
	} else {
		h.row++
	}
	if h.row != h.end {
		h.time = w.key(t.Times[h.row])
	} else {
		last := len(w.heads) - 1
		w.heads[0] = w.heads[last]
		w.heads = w.heads[:last]
	}
	w.sink(0)
	return t, row
}

// sink moves a head down to its place.
func (w *Walk) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(w.heads); child++ {
			a, b := &w.heads[child], &w.heads[least]
			if a.time < b.time || a.time == b.time && a.order < b.order {
				least = child
			}
		}
		if least == i {
			return
		}
		w.heads[i], w.heads[least] = w.heads[least], w.heads[i]
		i = least
	}
}
