package scantest

import (
	"math"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

const allAggregates = scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast

// testWindows has numbers that were worked out by hand.
func testWindows(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	put(t, s, key,
		series.Sample{TimeMs: 0, Value: 4}, series.Sample{TimeMs: 999, Value: -2}, // window 0
		series.Sample{TimeMs: 1000, Value: 8},                                          // window 1000
		series.Sample{TimeMs: 3500, Value: 1.5}, series.Sample{TimeMs: 3999, Value: 7}, // window 3000
		series.Sample{TimeMs: 3600, Value: 0.5})
	r := everything(scan.Selector{Metric: "m"})
	r.Windows = &scan.Windows{WidthMs: 1000, Aggregates: allAggregates}
	wantWindows(t, collect(t, s, r)[string(key)], &scan.Chunk{
		Times: []int64{0, 1000, 3000}, Sum: []float64{2, 8, 9}, Count: []int64{2, 1, 3}, Min: []float64{-2, 8, 0.5},
		Max: []float64{4, 8, 7}, First: []float64{4, 8, 1.5}, Last: []float64{-2, 8, 7},
	}, allAggregates)

	// The range cuts windows: only samples in it count.
	r.FromMs, r.ToMs = 999, 3600
	wantWindows(t, collect(t, s, r)[string(key)], &scan.Chunk{
		Times: []int64{0, 1000, 3000}, Sum: []float64{-2, 8, 2}, Count: []int64{1, 1, 2}, Min: []float64{-2, 8, 0.5},
		Max: []float64{-2, 8, 1.5}, First: []float64{-2, 8, 1.5}, Last: []float64{-2, 8, 0.5},
	}, allAggregates)

	// An origin that is no multiple of the width, and only some aggregates.
	r.FromMs, r.ToMs = scan.TimeMsMin, scan.TimeMsMax
	r.Windows = &scan.Windows{OriginMs: 100_600, WidthMs: 1000, Aggregates: scan.AggregateSum | scan.AggregateLast}
	wantWindows(t, collect(t, s, r)[string(key)], &scan.Chunk{
		Times: []int64{-400, 600, 2600, 3600}, Sum: []float64{4, 6, 1.5, 7.5}, Last: []float64{4, 8, 1.5, 7},
	}, r.Windows.Aggregates)
}

func testWindowsNaN(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	stale := math.Float64frombits(0x7ff0000000000002)
	put(t, s, key,
		series.Sample{TimeMs: 0, Value: math.NaN()}, series.Sample{TimeMs: 10, Value: 3}, series.Sample{TimeMs: 20, Value: stale},
		series.Sample{TimeMs: 1000, Value: stale}, series.Sample{TimeMs: 1001, Value: math.NaN()}, // no number: no window
		series.Sample{TimeMs: 2000, Value: 5}, series.Sample{TimeMs: 2999, Value: math.NaN()},
		series.Sample{TimeMs: 3000, Value: math.Inf(1)}, series.Sample{TimeMs: 3001, Value: 1})
	r := everything(scan.Selector{Metric: "m"})
	r.Windows = &scan.Windows{WidthMs: 1000, Aggregates: allAggregates}
	inf := math.Inf(1)
	wantWindows(t, collect(t, s, r)[string(key)], &scan.Chunk{
		Times: []int64{0, 2000, 3000}, Sum: []float64{3, 5, inf}, Count: []int64{1, 1, 2}, Min: []float64{3, 5, 1},
		Max: []float64{3, 5, inf}, First: []float64{3, 5, inf}, Last: []float64{3, 5, 1},
	}, allAggregates)
}

// testWindowsDigest: every bit counts, NaN's too, and parts add up.
func testWindowsDigest(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	stale := math.Float64frombits(0x7ff0000000000002)
	put(t, s, key,
		series.Sample{TimeMs: 0, Value: 3}, series.Sample{TimeMs: 20, Value: stale},
		series.Sample{TimeMs: 1000, Value: math.NaN()},
		series.Sample{TimeMs: 2500, Value: math.Copysign(0, -1)})
	r := everything(scan.Selector{Metric: "m"})
	r.Windows = &scan.Windows{WidthMs: 1000, Aggregates: scan.AggregateDigest | scan.AggregateCount}
	digest := func(ms int64, v float64) uint64 { return scan.DigestSamples([]int64{ms}, []float64{v}) }
	wantWindows(t, collect(t, s, r)[string(key)], &scan.Chunk{
		Times: []int64{0, 1000, 2000}, Count: []int64{2, 1, 1},
		Digest: []uint64{digest(0, 3) + digest(20, stale), digest(1000, math.NaN()), digest(2500, math.Copysign(0, -1))},
	}, r.Windows.Aggregates)
	if digest(2500, 0) == digest(2500, math.Copysign(0, -1)) || digest(20, stale) == digest(20, math.NaN()) || digest(1, 2) == digest(2, 1) {
		t.Error("different samples have the same digest")
	}
}

func testWindowsNegative(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	put(t, s, key, series.Sample{TimeMs: -1001, Value: 1}, series.Sample{TimeMs: -1000, Value: 2},
		series.Sample{TimeMs: -1, Value: 3}, series.Sample{TimeMs: 0, Value: 4})
	r := everything(scan.Selector{Metric: "m"})
	r.Windows = &scan.Windows{OriginMs: 5000, WidthMs: 1000, Aggregates: allAggregates}
	wantWindows(t, collect(t, s, r)[string(key)], &scan.Chunk{
		Times: []int64{-2000, -1000, 0}, Sum: []float64{1, 5, 4}, Count: []int64{1, 2, 1}, Min: []float64{1, 2, 4},
		Max: []float64{1, 3, 4}, First: []float64{1, 2, 4}, Last: []float64{1, 3, 4},
	}, allAggregates)
}

// wantWindows compares the aggregates that were asked for. A sum may have been
// built from parts, in another order, so it may differ in its last bits.
func wantWindows(t reporter, got, want *scan.Chunk, asked scan.Aggregate) {
	t.Helper()
	if got == nil {
		got = &scan.Chunk{}
	}
	if !slices.Equal(got.Times, want.Times) {
		t.Fatalf("windows %v, want %v", got.Times, want.Times)
	}
	exact := func(a, b float64) bool { return a == b }
	for _, column := range []struct {
		name      string
		kind      scan.Aggregate
		got, want []float64
		same      func(a, b float64) bool
	}{
		{"sum", scan.AggregateSum, got.Sum, want.Sum, near},
		{"min", scan.AggregateMin, got.Min, want.Min, exact},
		{"max", scan.AggregateMax, got.Max, want.Max, exact},
		{"first", scan.AggregateFirst, got.First, want.First, exact},
		{"last", scan.AggregateLast, got.Last, want.Last, exact},
	} {
		if asked&column.kind != 0 && !slices.EqualFunc(column.got, column.want, column.same) {
			t.Errorf("%s: %v, want %v", column.name, column.got, column.want)
		}
	}
	if asked&scan.AggregateCount != 0 && !slices.Equal(got.Count, want.Count) {
		t.Errorf("count: %v, want %v", got.Count, want.Count)
	}
	if asked&scan.AggregateDigest != 0 && !slices.Equal(got.Digest, want.Digest) {
		t.Errorf("digest: %x, want %x", got.Digest, want.Digest)
	}
}

// near allows the rounding of sums of numbers below sumMagnitude.
func near(a, b float64) bool {
	const sumMagnitude = 1e6
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Max(sumMagnitude, math.Abs(b))
}
