package read

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"pgregory.net/rapid"
)

// drawTimes draws times with repetitions, in order or not.
func drawTimes(t *rapid.T, limit int64) []int64 {
	times := rapid.SliceOfN(rapid.Int64Range(-limit, limit), 0, 40).Draw(t, "times")
	if rapid.Bool().Draw(t, "sorted") {
		slices.Sort(times)
	}
	return times
}

// lastOfEach is what sorting must give: the last index of each time.
func lastOfEach(times []int64) (order []int) {
	last := map[int64]int{}
	for i, at := range times {
		last[at] = i
	}
	for _, i := range last {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	return order
}

func TestSortingKeepsTheLastOfEqualTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := drawTimes(t, 20)
		var columns, sorted codec.Columns
		var points, scratch codec.Points
		for i, at := range times {
			columns.Append(at, series.Number{Mantissa: int64(i), Scale: uint8(i % 16)})
			points.Times, points.Values = append(points.Times, at), append(points.Values, float64(i))
		}
		var order []int32
		codec.SortColumns(&columns, &sorted, &order)
		codec.SortPoints(&points, &scratch, &order)
		want := lastOfEach(times)
		if len(want) != sorted.Len() || len(want) != points.Len() {
			t.Fatalf("%d and %d of %d", sorted.Len(), points.Len(), len(want))
		}
		for n, i := range want {
			if sorted.Times[n] != times[i] || sorted.Mantissas[n] != int64(i) || sorted.Scales[n] != uint8(i%16) {
				t.Fatalf("column %d is of %d", n, sorted.Mantissas[n])
			}
			if points.Times[n] != times[i] || points.Values[n] != float64(i) {
				t.Fatalf("point %d is of %v", n, points.Values[n])
			}
		}
	})
}

func drawSpans(t *rapid.T) (spans []segment.TimeRange) {
	for range rapid.IntRange(0, 4).Draw(t, "spans") {
		from := rapid.Int64Range(-25, 25).Draw(t, "from")
		spans = append(spans, segment.TimeRange{FromMs: from, ToMs: from + rapid.Int64Range(-2, 20).Draw(t, "length")})
	}
	return spans
}

func TestHidingAndClipping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := drawTimes(t, 20)
		spans := drawSpans(t)
		start := rapid.IntRange(0, len(times)).Draw(t, "start")
		within := segment.TimeRange{FromMs: rapid.Int64Range(-25, 25).Draw(t, "first"), ToMs: rapid.Int64Range(-25, 25).Draw(t, "last")}
		if within.FromMs > within.ToMs {
			within.FromMs, within.ToMs = within.ToMs, within.FromMs
		}
		var columns codec.Columns
		var hiding, clipping codec.Points
		for i, at := range times {
			columns.Append(at, series.Number{Mantissa: int64(i)})
			hiding.Times, hiding.Values = append(hiding.Times, at), append(hiding.Values, float64(i))
			clipping.Times, clipping.Values = append(clipping.Times, at), append(clipping.Values, float64(i))
		}
		manifest.DropHidden(&columns, start, spans)
		hidePoints(&hiding, start, spans)
		clipPoints(&clipping, start, within)
		var wantHidden, wantClipped []int64
		for i, at := range times {
			if i < start || !slices.ContainsFunc(spans, func(s segment.TimeRange) bool { return s.Has(at) }) {
				wantHidden = append(wantHidden, int64(i))
			}
			if i < start || within.FromMs <= at && at <= within.ToMs {
				wantClipped = append(wantClipped, int64(i))
			}
		}
		if !slices.Equal(columns.Mantissas, wantHidden) || columns.Len() != len(columns.Scales) {
			t.Fatalf("columns %v, want %v", columns.Mantissas, wantHidden)
		}
		for name, c := range map[string]struct {
			points codec.Points
			want   []int64
		}{"hidden": {hiding, wantHidden}, "clipped": {clipping, wantClipped}} {
			if len(c.points.Times) != len(c.want) || len(c.points.Values) != len(c.want) {
				t.Fatalf("%s: %v, want %v", name, c.points.Values, c.want)
			}
			for n, i := range c.want {
				if c.points.Times[n] != times[i] || c.points.Values[n] != float64(i) {
					t.Fatalf("%s: %v, want %v", name, c.points.Values, c.want)
				}
			}
		}
	})
}

// TestWindowsAgreeWithAMap sums windows in a map, in whatever stretches they come.
func TestWindowsAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := scan.Windows{
			OriginMs: rapid.Int64Range(-50, 50).Draw(t, "origin"), WidthMs: rapid.Int64Range(1, 30).Draw(t, "width"),
			Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
		}
		times := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Int64Range(-300, 300), 0, 80).Draw(t, "times"))))
		values := make([]float64, len(times))
		special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1.5, -3, 1e300}
		for i := range values {
			values[i] = rapid.SampledFrom(special).Draw(t, "value")
		}
		var w windower
		w.reset(&spec)
		var got scan.Chunk
		take := func() {
			c := &w.chunk
			got.Times, got.Count = append(got.Times, c.Times...), append(got.Count, c.Count...)
			got.Sum, got.Min, got.Max = append(got.Sum, c.Sum...), append(got.Min, c.Min...), append(got.Max, c.Max...)
			got.First, got.Last = append(got.First, c.First...), append(got.Last, c.Last...)
			w.clear()
		}
		for from := 0; from < len(times); {
			to := min(len(times), from+rapid.IntRange(1, 20).Draw(t, "stretch"))
			w.add(times[from:to], values[from:to])
			take()
			from = to
		}
		w.flush()
		take()
		checkWindows(t, &spec, times, values, &got)
	})
}

func checkWindows(t *rapid.T, spec *scan.Windows, times []int64, values []float64, got *scan.Chunk) {
	byStart := map[int64][]float64{}
	for i, at := range times {
		n := int64(math.Floor(float64(at-spec.OriginMs) / float64(spec.WidthMs)))
		if !math.IsNaN(values[i]) {
			start := spec.OriginMs + n*spec.WidthMs
			byStart[start] = append(byStart[start], values[i])
		}
	}
	if len(byStart) != len(got.Times) || !slices.IsSorted(got.Times) {
		t.Fatalf("windows at %v, want %d", got.Times, len(byStart))
	}
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	for i, start := range got.Times {
		v := byStart[start]
		if len(v) == 0 {
			t.Fatalf("a window at %d", start)
		}
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		near := same(got.Sum[i], sum) || math.Abs(got.Sum[i]-sum) <= 1e-12*math.Abs(sum) // another order of adding
		if got.Count[i] != int64(len(v)) || !near || !same(got.Min[i], slices.Min(v)) || !same(got.Max[i], slices.Max(v)) ||
			!same(got.First[i], v[0]) || !same(got.Last[i], v[len(v)-1]) {
			t.Fatalf("the window at %d of %v is %v %v %v %v %v %v", start, v, got.Count[i], got.Sum[i], got.Min[i], got.Max[i], got.First[i], got.Last[i])
		}
	}
}
