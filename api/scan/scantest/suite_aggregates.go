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

// testWindowsOfHours has hours and days of many samples, late ones and deletes among
// them, whose sums are wanted with every bit.
func testWindowsOfHours(t *testing.T, s Subject) {
	const hourMs, dayMs = 3_600_000, 86_400_000
	oracle := NewMemory()
	both := func(key series.Key, samples ...series.Sample) {
		t.Helper()
		put(t, s, key, samples...)
		if err := oracle.Put(key, samples...); err != nil {
			t.Fatal(err)
		}
	}
	key := Key("", "m", "k", "v")
	compare := func(what string) {
		t.Helper()
		for _, width := range []int64{hourMs, 2 * hourMs, dayMs, 3 * dayMs, 30 * hourMs, hourMs + 1, 2*hourMs + 1, dayMs - 7} {
			for _, origin := range []int64{0, hourMs, 1, -17} {
				r := everything(scan.Selector{Metric: "m"})
				r.Windows = &scan.Windows{OriginMs: origin, WidthMs: width, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax}
				if origin == 1 { // ends that cut hours
					r.FromMs, r.ToMs = 3*hourMs+5, 2*dayMs+hourMs-2
				}
				want, err := Collect(t.Context(), oracle, r)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: windows of %d ms from %d", what, width, origin)
				wantWindows(t, collect(t, s, r)[string(key)], want[string(key)], r.Windows.Aggregates)
			}
		}
	}
	samples := ramp(-dayMs, 300_007, 900) // from the day before 1970 on: four days
	for i := range samples {
		samples[i].Value = float64(i*i%1009) / 100
		if i%97 == 0 {
			samples[i].Value = math.NaN()
		}
	}
	both(key, samples...)
	compare("in order")
	both(key, series.Sample{TimeMs: 5*hourMs + 1, Value: 0.3}, series.Sample{TimeMs: samples[400].TimeMs, Value: 1e9})
	compare("with late samples")
	if s.Deleter == nil {
		return
	}
	for _, d := range []scan.Deleter{s.Deleter, oracle} {
		if _, err := d.Delete(t.Context(), &scan.Selector{Metric: "m"}, dayMs+hourMs/2, dayMs+5*hourMs); err != nil {
			t.Fatal(err)
		}
	}
	compare("with a delete")
	both(key, series.Sample{TimeMs: dayMs + 2*hourMs, Value: 0.7})
	compare("written again")
}

// wantWindows compares the aggregates that were asked for. The sums are compared by
// their bits, in the order of adding that scan.Windows describes.
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
		{"sum", scan.AggregateSum, got.Sum, want.Sum, sameBits},
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

// sameBits takes all NaN for one.
func sameBits(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}
