package influxql

import (
	"math"
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// pointBytes is what a point takes.
const pointBytes = 40

// pointsOf computes a call for a group, in the order of the answer.
func (s *selection) pointsOf(c *call, g *load.Group, held *load.Holding) (points []point, err error) {
	switch {
	case isTransform(c.name):
		points, err = s.transformed(c, g, held)
	case isForecast(c.name):
		points, err = s.forecast(c, g, held)
	case c.name == "integral":
		points = s.integrated(c, g)
	case c.inner != nil: // count(distinct(field))
		points, err = s.pointsOf(c.inner, g, held)
		if err == nil {
			points, err = s.fillPoints(c, s.countPoints(points))
		}
	default:
		points, err = s.reduced(c, g, held)
	}
	if err != nil {
		return nil, err
	}
	return points, s.Take(held, int64(pointBytes*cap(points)))
}

// reduced computes a function of the values of each window.
func (s *selection) reduced(c *call, g *load.Group, held *load.Holding) ([]point, error) {
	tables := g.Tables[c.read]
	var points []point
	if slices.ContainsFunc(tables, func(t *load.Table) bool { return t.Windows != nil }) {
		points = s.combine(c, tables)
	} else {
		var err error
		if points, err = s.reduceRows(c, tables, held); err != nil {
			return nil, err
		}
	}
	switch c.name {
	case "top", "bottom", "sample":
		return points, nil
	case "distinct":
		s.labelPoints(c, points)
		return points, nil
	}
	if !c.selector || s.interval.DurationNs != 0 {
		s.labelPoints(c, points)
	}
	return s.fillPoints(c, points)
}

// labelPoints sets the time of each point to the start of its window.
func (s *selection) labelPoints(c *call, points []point) {
	for i := range points {
		start := c.span.From
		if s.interval.DurationNs != 0 {
			start, _ = s.interval.Window(points[i].time)
		}
		if start == ql.MinTime {
			start = 0
		}
		points[i].time = start
	}
}

// countPoints counts the points of each window.
func (s *selection) countPoints(in []point) []point {
	var counted []point
	for _, p := range in {
		if n := len(counted); n > 0 && counted[n-1].time == p.time {
			counted[n-1].number++
			continue
		}
		counted = append(counted, point{time: p.time, number: 1})
	}
	return counted
}

// sample is a value that a function is computed from.
type sample struct {
	time   int64
	number float64 // NaN: a text
	table  *load.Table
	row    int32
}

const sampleBytes = 32

// reduceRows goes through the rows of tables, window by window.
func (s *selection) reduceRows(c *call, tables []*load.Table, held *load.Holding) ([]point, error) {
	w := load.NewWalk(tables, c.span.From, c.span.To, !s.ascending)
	start, end := int64(math.MaxInt64), int64(math.MinInt64)
	var points []point
	var buffer []sample
	charged := 0
	texts := c.name == "count" || c.name == "distinct" || c.name == "first" || c.name == "last" || c.name == "mode" || c.name == "sample"
	for n := 0; ; n++ {
		t, row := w.Next()
		if t == nil {
			break
		}
		v := t.Columns[c.input].Number(row)
		if v != v && (!texts || t.Columns[c.input].IsNull(row)) {
			continue
		}
		at := t.Times[row]
		if at < start || at >= end {
			points = s.reduce(c, buffer, points)
			buffer = buffer[:0]
			start, end = math.MinInt64, math.MaxInt64
			if s.interval.DurationNs != 0 {
				start, end = s.interval.Window(at)
			}
		}
		buffer = append(buffer, sample{time: at, number: v, table: t, row: int32(row)})
		if grown := cap(buffer) - charged; grown > 0 {
			charged = cap(buffer)
			if err := s.Take(held, int64(sampleBytes*grown)); err != nil {
				return nil, err
			}
		}
		if n&(1<<12-1) == 0 {
			if err := s.Ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	return s.reduce(c, buffer, points), nil
}
