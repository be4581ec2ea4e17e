package influxql

import (
	"fmt"
	"math"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// fillPoints adds the windows that hold nothing, as fill() says. A group without any point
// stays without.
func (s *selection) fillPoints(c *call, in []point) ([]point, error) {
	if s.interval.DurationNs == 0 || s.fill == ql.NoFill || len(in) == 0 {
		return in, nil
	}
	f := filler{call: c, interval: &s.interval, how: s.fill, number: math.NaN(), backwards: !s.ascending, in: in, out: make([]point, 0, len(in))}
	switch {
	case f.how == ql.NullFill && c.name == "count":
		f.number = 0
	case f.how == ql.NumberFill:
		f.number = s.fillValue.Cast(c.kind).Number
	}
	from, to := c.span.From, c.span.To
	first, _ := s.interval.Window(from)
	last, _ := s.interval.Window(to)
	open := from == ql.MinTime
	if f.backwards {
		first, last = last, first
	} else if open {
		first = in[0].time
	}
	f.at, f.last, f.open = first, last, open && f.backwards
	f.zone = s.interval.Zone(first)
	for len(f.out) <= int(min(s.limits.WindowsMax, math.MaxInt32)) {
		if !f.step() {
			return f.out, nil
		}
	}
	return nil, fmt.Errorf("max-select-buckets limit exceeded: (%d/%d)", len(f.out), s.limits.WindowsMax)
}

// filler goes from window to window.
type filler struct {
	call      *call
	interval  *load.Interval
	how       ql.FillOption
	number    float64 // what is put in; NaN: null
	backwards bool
	open      bool // windows end with the last point
	in, out   []point

	at, last, zone int64 // the next window, the last one
	before         *point
}

// step returns the next window; false: there is none.
func (f *filler) step() bool {
	var p point
	switch {
	case len(f.in) == 0:
		if f.open || !f.backwards && f.at > f.last || f.backwards && f.at < f.last {
			return false
		}
		p = f.empty()
	case !f.backwards && f.in[0].time > f.at, f.backwards && f.in[0].time < f.at:
		p = f.empty()
	default:
		f.before, p = &f.in[0], f.in[0]
		f.in = f.in[1:]
	}
	f.out = append(f.out, p)
	f.at, f.zone = f.interval.Next(f.at, f.zone, f.backwards)
	return true
}

// empty returns the point of a window that holds nothing.
func (f *filler) empty() point {
	p := point{time: f.at, number: f.number, empty: f.number != f.number}
	switch f.how {
	case ql.PreviousFill:
		if f.before != nil {
			p.number, p.empty = f.before.number, f.before.empty
		}
	case ql.LinearFill:
		if f.before == nil || len(f.in) == 0 {
			break
		}
		d := f.interval.DurationNs
		p.empty = false
		p.number = linear(f.at/d, f.before.time/d, f.in[0].time/d, f.before.number, f.in[0].number)
		if f.call.kind == answer.KindInteger {
			p.number = math.Trunc(p.number)
		}
	}
	return p
}

// linear returns the value at a time on the line through two points.
func linear(t, t1, t2 int64, v1, v2 float64) float64 {
	return v1 + (v2-v1)/float64(t2-t1)*float64(t-t1)
}
