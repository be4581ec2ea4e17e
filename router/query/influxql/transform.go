package influxql

import "github.com/tickmesh/tickmesh/router/query/influxql/load"

// stream returns points one after the other, in the order of the answer; ok is false at the end.
type stream func() (p point, ok bool)

// streamOf returns the values of a field of a group, or the points of a call.
func (s *selection) streamOf(c *call, g *load.Group, held *load.Holding) (stream, error) {
	if c.inner != nil {
		points, err := s.pointsOf(c.inner, g, held)
		if err != nil {
			return nil, err
		}
		at := 0
		return func() (point, bool) {
			for at < len(points) {
				at++
				if p := points[at-1]; !p.empty {
					return p, true
				}
			}
			return point{}, false
		}, nil
	}
	w := load.NewWalk(g.Tables[c.read], c.span.From, c.span.To, !s.ascending)
	return func() (point, bool) {
		for {
			t, row := w.Next()
			if t == nil {
				return point{}, false
			}
			if v := t.Columns[c.input].Number(row); v == v {
				return point{time: t.Times[row], number: v}, true
			}
		}
	}, nil
}

// transformed computes a function of neighbouring points.
func (s *selection) transformed(c *call, g *load.Group, held *load.Holding) ([]point, error) {
	next, err := s.streamOf(c, g, held)
	if err != nil {
		return nil, err
	}
	step := s.stepOf(c)
	var points []point
	charged := 0
	for n := 1; ; n++ {
		p, ok := next()
		if !ok {
			return points, nil
		}
		if v, ok := step(p); ok {
			points = append(points, point{time: p.time, number: v})
		}
		if n&(1<<12-1) == 0 {
			grown := cap(points) - charged
			charged += grown
			if err := s.Take(held, int64(pointBytes*grown)); err != nil {
				return nil, err
			}
			if err := s.Ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
}

// step takes the next point and may give a value for its time.
type step func(p point) (v float64, ok bool)

func (s *selection) stepOf(c *call) step {
	switch c.name {
	case "cumulative_sum":
		var sum float64
		return func(p point) (float64, bool) {
			sum += p.number
			return sum, true
		}
	case "moving_average":
		return movingAverage(c.n)
	case "elapsed":
		return pairs(false, func(before, p point) (float64, bool) { return float64((p.time - before.time) / c.unitNs), true })
	case "difference", "non_negative_difference":
		return pairs(true, func(before, p point) (float64, bool) {
			d := p.number - before.number
			return d, c.name == "difference" || !(d < 0) // what is no number stays
		})
	}
	return pairs(true, func(before, p point) (float64, bool) { // derivative
		d, took := p.number-before.number, p.time-before.time
		if !s.ascending {
			took = -took
		}
		return d / (float64(took) / float64(c.unitNs)), c.name == "derivative" || !(d < 0)
	})
}

// pairs returns a value for each point and the one before. Where several series have points
// of the same time, advancing passes over all but the first.
func pairs(advancing bool, of func(before, p point) (float64, bool)) step {
	var before point
	begun := false
	return func(p point) (float64, bool) {
		if !begun {
			before, begun = p, true
			return 0, false
		}
		if advancing && p.time == before.time {
			return 0, false
		}
		v, ok := of(before, p)
		before = p
		return v, ok
	}
}

func movingAverage(n int) step {
	var window []float64
	var sum float64
	at := 0
	return func(p point) (float64, bool) {
		sum += p.number
		if len(window) < n {
			window = append(window, p.number)
			return sum / float64(n), len(window) == n
		}
		sum -= window[at]
		window[at] = p.number
		at = (at + 1) % n
		return sum / float64(n), true
	}
}

// integrated computes the area under a field by trapezia. At the border of two windows the
// value is interpolated, and the area divided.
func (s *selection) integrated(c *call, g *load.Group) []point {
	w := load.NewWalk(g.Tables[c.read], c.span.From, c.span.To, !s.ascending)
	var points []point
	var before point
	var start, end int64 // of the window; backwards the start is the later one
	begun, grouped, sum := false, s.interval.DurationNs != 0, 0.0
	window := func(t int64) {
		if start, end = s.interval.Window(t); !s.ascending {
			start, end = end, start
		}
	}
	for {
		t, row := w.Next()
		if t == nil {
			break
		}
		p := point{time: t.Times[row], number: t.Columns[c.input].Number(row)}
		switch {
		case p.number != p.number:
			continue
		case !begun:
			begun = true
			if grouped {
				window(p.time)
			}
			before = p
			continue
		case p.time == before.time:
			before = p
			continue
		case grouped && (s.ascending && p.time >= end || !s.ascending && p.time <= end):
			if before.time != end {
				v := linear(end, before.time, p.time, before.number, p.number)
				sum += 0.5 * (v + before.number) * float64(end-before.time) / float64(c.unitNs)
				before = point{time: end, number: v}
			}
			points = append(points, point{time: start, number: sum})
			window(p.time)
			sum = 0
		}
		sum += 0.5 * (p.number + before.number) * float64(p.time-before.time) / float64(c.unitNs)
		before = p
	}
	if begun && before.time != start {
		points = append(points, point{time: start, number: sum})
	}
	return points
}
