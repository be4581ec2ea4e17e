package influxql

import (
	"math"
	"slices"
)

// combine joins the windows of tables, in their order.
func (s *selection) combine(c *call, tables []*table) []point {
	of := make([]*table, 0, len(tables))
	for _, t := range tables {
		if t.windows != nil && t.windows.place == c.input {
			of = append(of, t)
		}
	}
	starts := allStarts(of)
	points := make([]point, len(starts))
	sums := make([]windowSum, len(starts))
	add := adderOf(c.name)
	for _, t := range of {
		at := 0
		for i, start := range t.windows.starts {
			for starts[at] != start {
				at++
			}
			add(&sums[at], t, i)
		}
	}
	for i := range points {
		points[i] = sums[i].point(c, starts[i])
	}
	if !s.ascending {
		slices.Reverse(points)
	}
	return points
}

// allStarts returns the starts of all windows, ascending.
func allStarts(tables []*table) []int64 {
	var starts, before []int64
	for _, t := range tables {
		if w := t.windows.starts; len(before) == 0 || &w[0] != &before[0] || len(w) != len(before) {
			starts, before = union(starts, w), w
		}
	}
	return starts
}

// windowSum is what the windows of several tables give together.
type windowSum struct {
	count       int64
	sum         float64
	least, most float64
	at          int64 // of the point that was picked
	table       *table
}

// add adds the window i of a table.
type adder func(a *windowSum, t *table, i int)

// adderOf returns the function that joins windows for a function of the language.
func adderOf(name string) adder {
	switch name {
	case "count":
		return func(a *windowSum, t *table, i int) { a.count += t.windows.counts[i] }
	case "sum":
		return func(a *windowSum, t *table, i int) { a.sum += t.windows.sums[i] }
	case "mean":
		return func(a *windowSum, t *table, i int) {
			a.count += t.windows.counts[i]
			a.sum += t.windows.sums[i]
		}
	case "spread":
		return func(a *windowSum, t *table, i int) {
			w := t.windows
			if a.table == nil || w.least[i] < a.least {
				a.least = w.least[i]
			}
			if a.table == nil || w.most[i] > a.most {
				a.most = w.most[i]
			}
			a.table = t
		}
	case "min":
		return func(a *windowSum, t *table, i int) {
			w := t.windows
			a.pick(t, w.least[i], timeOf(w.leastAt, i), w.least[i] < a.sum)
		}
	case "max":
		return func(a *windowSum, t *table, i int) {
			w := t.windows
			a.pick(t, w.most[i], timeOf(w.mostAt, i), w.most[i] > a.sum)
		}
	case "first":
		return func(a *windowSum, t *table, i int) {
			w := t.windows
			v, at := w.first[i], timeOf(w.firstAt, i)
			a.pickTimed(t, v, at, at < a.at)
		}
	}
	return func(a *windowSum, t *table, i int) { // last
		w := t.windows
		v, at := w.last[i], timeOf(w.lastAt, i)
		a.pickTimed(t, v, at, at > a.at)
	}
}

// unknownTime stands for the time of a point that windows do not tell.
const unknownTime = math.MinInt64

func timeOf(times []int64, i int) int64 {
	if i < len(times) {
		return times[i]
	}
	return unknownTime
}

// pick takes a value over that is better, or as good and older.
func (a *windowSum) pick(t *table, v float64, at int64, better bool) {
	if a.table == nil || better || v == a.sum && at < a.at {
		a.sum, a.at, a.table = v, at, t
	}
}

// pickTimed takes a value over whose time is better, or the same when it is larger.
func (a *windowSum) pickTimed(t *table, v float64, at int64, better bool) {
	if a.table == nil || better || at == a.at && v > a.sum {
		a.sum, a.at, a.table = v, at, t
	}
}

// point returns what the windows come to.
func (a *windowSum) point(c *call, start int64) point {
	p := point{time: start, number: a.sum}
	switch c.name {
	case "count":
		p.number = float64(a.count)
	case "mean":
		p.number = a.sum / float64(a.count)
	case "spread":
		p.number = a.most - a.least
	case "min", "max", "first", "last":
		p.table = a.table
		if c.selector && a.at != unknownTime {
			p.time = a.at
		}
	}
	return p
}
