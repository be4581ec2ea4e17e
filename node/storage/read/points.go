package read

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// clipSorted returns the points within the span, of points whose times grow.
func clipSorted(p *codec.Points, within segment.TimeRange) (times []int64, values []float64) {
	from, to := 0, len(p.Times)
	if to > 0 && p.Times[0] < within.FromMs {
		from, _ = slices.BinarySearch(p.Times, within.FromMs)
	}
	if to > 0 && p.Times[to-1] > within.ToMs {
		var found bool
		if to, found = slices.BinarySearch(p.Times, within.ToMs); found {
			to++
		}
	}
	return p.Times[from:max(from, to)], p.Values[from:max(from, to)]
}

// clipPoints removes the points from index start on that lie outside of the span.
func clipPoints(p *codec.Points, start int, within segment.TimeRange) {
	if n := len(p.Times); n > start && codec.Growing(p.Times[start:]) {
		times, values := clipSorted(&codec.Points{Times: p.Times[start:], Values: p.Values[start:]}, within)
		if len(times) < n-start {
			p.Times = append(p.Times[:start], times...)
			p.Values = append(p.Values[:start], values...)
		}
		return
	}
	keepPoints(p, start, within.Has)
}

// hidePoints removes the points from index start on that lie in one of the spans.
func hidePoints(p *codec.Points, start int, spans []segment.TimeRange) {
	if len(spans) == 0 {
		return
	}
	keepPoints(p, start, func(timeMs int64) bool { return !manifest.Hides(spans, timeMs) })
}

func keepPoints(p *codec.Points, start int, keep func(timeMs int64) bool) {
	kept := start
	for i := start; i < len(p.Times); i++ {
		if keep(p.Times[i]) {
			p.Times[kept], p.Values[kept] = p.Times[i], p.Values[i]
			kept++
		}
	}
	p.Times, p.Values = p.Times[:kept], p.Values[:kept]
}
