package opentsdb

import (
	"context"
	"slices"
	"sort"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// merger turns the columns of a group into one list of points. It has what its
// runs can share.
type merger struct {
	ctx      context.Context
	sub      *subQuery
	from, to int64 // points of the answer, inclusive
	entry    *admission.Entry
	rows     []float64 // blockTimes rows with a place for each member
	filled   []int     // places that are used in each row
	cursors  []int     // by member: first point at or after the time that the block has come to
}

const (
	blockTimesMax    = 256     // times that are merged at once
	blockElementsMax = 1 << 15 // places of a block, save for one row
)

// merge passes every point of a group to emit, in the order of time, which is
// what net.opentsdb.core.AggregationIterator does: a point at each time at which
// a member has one, made of the values of all members that have begun and not
// ended by then; a member between two of its points is interpolated. Members are
// taken in the order of their keys where the function depends on it, so that the result does not depend on how they
// came. Emit may return an error, which ends the merge.
func (m *merger) merge(members []column, emit func(timeMs int64, value float64) error) error {
	if m.sub.aggregator.selection != selectMerged {
		return m.pass(members[0], emit)
	}
	times, owned, err := m.union(members)
	if err != nil {
		return err
	}
	defer m.entry.Give(int64(8 * owned))
	from, _ := slices.BinarySearch(times, m.from)
	to, found := slices.BinarySearch(times, m.to)
	if found {
		to++
	}
	if from >= to {
		return nil
	}
	block := m.reserve(len(members), to-from)
	if err := m.entry.Take(int64(8 * (block*len(members) + block + len(members)))); err != nil {
		return err
	}
	defer m.entry.Give(int64(8 * (block*len(members) + block + len(members))))
	clear(m.cursors)
	for ; from < to; from += block {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		processor.Of(m.ctx).Pace()
		if err := m.block(members, times[from:min(from+block, to)], emit); err != nil {
			return err
		}
	}
	return nil
}

// pass emits one column as it is.
func (m *merger) pass(c column, emit func(int64, float64) error) error {
	from, _ := slices.BinarySearch(c.times, m.from)
	for i := from; i < len(c.times) && c.times[i] <= m.to; i++ {
		if err := emit(c.times[i], c.values[i]); err != nil {
			return err
		}
	}
	return nil
}

// reserve makes room and returns the number of times that are merged at once.
func (m *merger) reserve(members, times int) (block int) {
	block = max(1, min(times, blockTimesMax, blockElementsMax/members))
	m.rows = slices.Grow(m.rows[:0], block*members)[:block*members]
	m.filled = slices.Grow(m.filled[:0], block)[:block]
	m.cursors = slices.Grow(m.cursors[:0], members)[:members]
	return block
}

// block merges a stretch of times. Every row has a place for every member.
func (m *merger) block(members []column, times []int64, emit func(int64, float64) error) error {
	clear(m.filled[:len(times)])
	width := len(members)
	for i := range members {
		m.cursors[i] = m.addMember(&members[i], times, m.cursors[i], width)
	}
	reduce := m.sub.aggregator.across
	if reduce == nil {
		reduce = m.sub.aggregator.reduce
	}
	for t := range times {
		row := m.rows[t*width : t*width+m.filled[t]]
		if len(row) == 0 {
			continue
		}
		if err := emit(times[t], reduce(row)); err != nil {
			return err
		}
	}
	return nil
}

// addMember puts what one member has at each time into the rows, and returns its
// cursor for the times that follow.
func (m *merger) addMember(c *column, times []int64, cursor, width int) int {
	if cursor == 0 && len(c.times) > 0 && c.times[0] < times[0] {
		cursor = sort.Search(len(c.times), func(i int) bool { return c.times[i] >= times[0] })
	}
	for t, timeMs := range times {
		for cursor < len(c.times) && c.times[cursor] < timeMs {
			cursor++
		}
		if cursor == len(c.times) {
			return cursor // it has ended
		}
		var v float64
		if c.times[cursor] == timeMs {
			v = c.values[cursor]
		} else {
			if cursor == 0 {
				continue // it has not begun
			}
			var ok bool
			if v, ok = m.between(c, cursor, timeMs); !ok {
				continue
			}
		}
		m.rows[t*width+m.filled[t]] = v
		m.filled[t]++
	}
	return cursor
}

// between returns what a member contributes between the point before cursor and
// the one at it.
func (m *merger) between(c *column, cursor int, timeMs int64) (v float64, ok bool) {
	before := c.values[cursor-1]
	if m.sub.rate { // a rate holds until the next one, whatever the function
		return before, true
	}
	switch m.sub.aggregator.between {
	case interpolateZero:
		return 0, true
	case interpolatePrevious:
		return before, true
	case interpolateSkip:
		return 0, false
	}
	x0, x1 := c.times[cursor-1], c.times[cursor]
	rise := float64(timeMs-x0) * (c.values[cursor] - before) / float64(x1-x0)
	return before + rise, true
}

// union returns the times of all members, sorted, each once. The slice may be one
// of the members' own; owned is the number of elements that were made for it and
// are charged to the query.
func (m *merger) union(members []column) (times []int64, owned int, err error) {
	if len(members) == 1 {
		return members[0].times, 0, nil
	}
	half := len(members) / 2
	left, ownedLeft, err := m.union(members[:half])
	if err != nil {
		return nil, 0, err
	}
	right, ownedRight, err := m.union(members[half:])
	if err != nil {
		m.entry.Give(int64(8 * ownedLeft))
		return nil, 0, err
	}
	if hasTimes(left, right) {
		m.entry.Give(int64(8 * ownedRight))
		return left, ownedLeft, nil
	}
	if hasTimes(right, left) {
		m.entry.Give(int64(8 * ownedLeft))
		return right, ownedRight, nil
	}
	owned = len(left) + len(right)
	if err = m.entry.Take(int64(8 * owned)); err == nil {
		err = m.ctx.Err()
	}
	m.entry.Give(int64(8 * (ownedLeft + ownedRight)))
	if err != nil {
		return nil, 0, err
	}
	return mergeTimes(make([]int64, 0, owned), left, right), owned, nil
}

// hasTimes reports whether all of b, which is sorted like a, are in a: series that begin or end in the middle have part of the times
// of the others.
func hasTimes(a, b []int64) bool {
	if len(a) < len(b) {
		return false
	}
	if len(b) == 0 || len(a) == len(b) && &a[0] == &b[0] {
		return true
	}
	at := 0
	for _, timeMs := range b {
		for at < len(a) && a[at] < timeMs {
			at++
		}
		if at == len(a) || a[at] != timeMs {
			return false
		}
		at++
	}
	return true
}

// mergeTimes appends the sorted union of two sorted lists to dst.
func mergeTimes(dst, a, b []int64) []int64 {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			dst, a = append(dst, a[0]), a[1:]
		case a[0] > b[0]:
			dst, b = append(dst, b[0]), b[1:]
		default:
			dst, a, b = append(dst, a[0]), a[1:], b[1:]
		}
	}
	return append(append(dst, a...), b...)
}
