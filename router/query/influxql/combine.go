package influxql

import (
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// combine joins the windows of tables, in their order.
func (s *selection) combine(c *call, tables []*load.Table) []point {
	of := make([]*load.Table, 0, len(tables))
	for _, t := range tables {
		if t.Windows != nil && t.Windows.Place == c.input {
			of = append(of, t)
		}
	}
	starts := allStarts(of)
	points := make([]point, len(starts))
	sums := make([]windowSum, len(starts))
	add := adderOf(c.name)
	for _, t := range of {
		at := 0
		for i, start := range t.Windows.Starts {
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
func allStarts(tables []*load.Table) []int64 {
	var starts, before []int64
	for _, t := range tables {
		if w := t.Windows.Starts; len(before) == 0 || &w[0] != &before[0] || len(w) != len(before) {
			starts, before = load.Union(starts, w), w
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
	table       *load.Table
}

// add adds the window i of a table.
type adder func(a *windowSum, t *load.Table, i int)

// adderOf returns the function that joins windows for a function of the language.
func adderOf(name string) adder {
	switch name {
	case "count":
		return func(a *windowSum, t *load.Table, i int) { a.count += t.Windows.Counts[i] }
	case "sum":
		return func(a *windowSum, t *load.Table, i int) { a.sum += t.Windows.Sums[i] }
	case "mean":
		return func(a *windowSum, t *load.Table, i int) {
			a.count += t.Windows.Counts[i]
			a.sum += t.Windows.Sums[i]
		}
	case "spread":
		return func(a *windowSum, t *load.Table, i int) {
			w := t.Windows
			if a.table == nil || w.Least[i] < a.least {
				a.least = w.Least[i]
			}
			if a.table == nil || w.Most[i] > a.most {
				a.most = w.Most[i]
			}
			a.table = t
		}
	case "min":
		return func(a *windowSum, t *load.Table, i int) {
			w := t.Windows
			a.pick(t, w.Least[i], timeOf(w.LeastAt, i), w.Least[i] < a.sum)
		}
	case "max":
		return func(a *windowSum, t *load.Table, i int) {
			w := t.Windows
			a.pick(t, w.Most[i], timeOf(w.MostAt, i), w.Most[i] > a.sum)
		}
	case "first":
		return func(a *windowSum, t *load.Table, i int) {
			w := t.Windows
			v, at := w.First[i], timeOf(w.FirstAt, i)
			a.pickTimed(t, v, at, at < a.at)
		}
	}
	return func(a *windowSum, t *load.Table, i int) { // last
		w := t.Windows
		v, at := w.Last[i], timeOf(w.LastAt, i)
		a.pickTimed(t, v, at, at > a.at)
	}
}

// unknownTime is the time of a point that windows do not have.
const unknownTime = math.MinInt64

func timeOf(times []int64, i int) int64 {
	if i < len(times) {
		return times[i]
	}
	return unknownTime
}

// pick takes a value over that is better, or as good and older.
func (a *windowSum) pick(t *load.Table, v float64, at int64, better bool) {
	if a.table == nil || better || v == a.sum && at < a.at {
		a.sum, a.at, a.table = v, at, t
	}
}

// pickTimed takes a value over whose time is better, or the same when it is larger.
func (a *windowSum) pickTimed(t *load.Table, v float64, at int64, better bool) {
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
