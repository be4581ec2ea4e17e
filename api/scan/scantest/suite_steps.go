package scantest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// counter is a counter that grows by 10 every 10 s, is reset at 60 s, ends at 100 s, and comes
// back at 150 s.
func counter() []series.Sample {
	samples := ramp(0, 10_000, 11)
	for i := range samples {
		samples[i].Value = float64(10 * i % 60)
	}
	samples[10].Value = math.Float64frombits(scan.StaleBits)
	return append(samples, series.Sample{TimeMs: 150_000, Value: 7}, series.Sample{TimeMs: 160_000, Value: 8})
}

// testSteps has numbers that were worked out by hand.
func testSteps(t *testing.T, s Subject) {
	key := Key("", "m", "host", "a")
	put(t, s, key, counter()...)
	stale := math.Float64frombits(scan.StaleBits)
	for _, c := range []struct {
		function        scan.StepFunction
		first, last, by int64
		times           []int64
		values          []float64
	}{
		{scan.StepCount, 0, 160_000, 40_000, []int64{0, 40_000, 80_000, 120_000, 160_000}, []float64{1, 3, 3, stale, 2}},
		{scan.StepCount, 85_000, 145_000, 30_000, []int64{85_000, 115_000, 145_000}, []float64{3, 1, stale}},
		{scan.StepIncrease, 60_000, 90_000, 30_000, []int64{60_000, 90_000}, []float64{15, 30}},
		{scan.StepRate, 90_000, 90_000, 1, []int64{90_000}, []float64{1}},
		{scan.StepResets, 60_000, 60_000, 1, []int64{60_000}, []float64{1}},
		{scan.StepDeriv, 50_000, 50_000, 1, []int64{50_000}, []float64{1}},
		{scan.StepLast, 100_000, 100_000, 1, []int64{100_000}, []float64{30}},
		{scan.StepNewest, 100_000, 130_000, 30_000, []int64{100_000}, []float64{stale}},
		{scan.StepNewest, 25_000, 85_000, 30_000, []int64{20_000, 50_000, 80_000}, []float64{20, 50, 20}},
	} {
		r := everything(scan.Selector{Metric: "m"})
		r.Steps = &scan.Steps{FirstMs: c.first, LastMs: c.last, StepMs: c.by, RangeMs: 30_000, Function: c.function}
		got := collect(t, s, r)[string(key)]
		wantSteps(t, got, &scan.Chunk{Times: c.times, Values: c.values})
	}
	testDeduplicated(t, s, key)
	r := everything(scan.Selector{Metric: "m"})
	r.FromMs, r.ToMs = 20_000, 39_999 // only samples of the range count
	r.Steps = &scan.Steps{FirstMs: 40_000, LastMs: 40_000, StepMs: 1, RangeMs: 30_000, Function: scan.StepCount}
	wantSteps(t, collect(t, s, r)[string(key)], &scan.Chunk{Times: []int64{40_000}, Values: []float64{2}})
}

// testFold folds series of several groups.
func testFold(t *testing.T, s Subject) {
	for i := range 40 {
		value := float64(i)
		if i%10 == 0 {
			value = math.NaN()
		}
		put(t, s, Key("", "m", "host", string(rune('a'+i%2)), "n", string(rune('A'+i))), series.Sample{TimeMs: 1000, Value: value}, series.Sample{TimeMs: 2000, Value: -value})
	}
	put(t, s, Key("", "m", "host", "a", "n", "gone"), series.Sample{TimeMs: 2000, Value: math.Float64frombits(scan.StaleBits)})
	put(t, s, Key("", "m", "host", "a", "n", "young"), series.Sample{TimeMs: 1_000_000, Value: 1})
	put(t, s, Key("", "m", "host", "c", "n", "zero"), series.Sample{TimeMs: 1000, Value: 0})
	put(t, s, Key("", "m", "host", "c", "n", "negative"), series.Sample{TimeMs: 1000, Value: math.Copysign(0, -1)})
	hosts := func(metric string, names ...string) (keys []series.Key) {
		for _, name := range names {
			keys = append(keys, Key("", metric, "host", name))
		}
		return keys
	}
	for _, c := range []struct {
		fold   scan.Fold
		first  int64
		last   int64
		keys   []series.Key
		times  []int64
		counts [][]int64
		values [][]float64
		sums   [][]float64
	}{
		{scan.Fold{Kind: scan.FoldCount}, 1000, 1000, []series.Key{Key("", "")}, []int64{1000}, [][]int64{{42}}, nil, nil},
		{scan.Fold{Kind: scan.FoldCount, Names: []string{"host"}}, 1000, 2000, hosts("", "a", "b", "c"), []int64{1000, 2000}, [][]int64{{20, 20}, {20, 20}, {2, 2}}, nil, nil},
		{scan.Fold{Kind: scan.FoldGroup, Names: []string{scan.NameTag, "host"}}, 2000, 2000, hosts("m", "a", "b", "c"), []int64{2000}, nil, nil, nil},
		{scan.Fold{Kind: scan.FoldMax, Without: true, Names: []string{"n"}}, 1000, 2000, hosts("", "a", "b", "c"), []int64{1000, 2000}, nil, [][]float64{{38, -2}, {39, -1}, {0, 0}}, nil},
		{scan.Fold{Kind: scan.FoldMin, Names: []string{"host"}}, 1000, 2000, hosts("", "a", "b", "c"), []int64{1000, 2000}, nil, [][]float64{{2, -38}, {1, -39}, {math.Copysign(0, -1), math.Copysign(0, -1)}}, nil},
		{scan.Fold{Kind: scan.FoldSum, Names: []string{"host"}}, 1000, 2000, hosts("", "a", "b", "c"), []int64{1000, 2000}, [][]int64{{20, 20}, {20, 20}, {2, 2}}, nil, [][]float64{{math.NaN(), math.NaN()}, {400, -400}, {0, 0}}},
	} {
		for _, parallel := range []int{1, 3} {
			r := everything(scan.Selector{Metric: "m"})
			r.FromMs, r.Parallel = 1, parallel
			r.Steps = &scan.Steps{FirstMs: c.first, LastMs: c.last, StepMs: 1000, RangeMs: 5000, Function: scan.StepNewest, Fold: &c.fold}
			found := collect(t, s, r)
			if len(found) != len(c.keys) {
				t.Errorf("%+v: groups %q", c.fold, names(found))
			}
			for i, key := range c.keys {
				want := &scan.Chunk{Times: c.times}
				if c.counts != nil {
					want.Count = c.counts[i]
				}
				if c.values != nil {
					want.Values = c.values[i]
				}
				if c.sums != nil {
					for _, v := range c.sums[i] {
						want.Sums = append(want.Sums, exactly([]float64{v}))
					}
				}
				got := found[string(key)]
				if got != nil {
					want.Series = got.Series
				}
				wantSteps(t, got, want)
			}
		}
	}
}

// testStepsEnd: steps have the limits of samples, and end with their visitor and context.
func testStepsEnd(t *testing.T, s Subject) {
	for i := range 50 {
		put(t, s, Key("", "m", "n", string(rune('A'+i))), ramp(0, 1000, 100)...)
	}
	ask := func() *scan.Request {
		r := everything(scan.Selector{Metric: "m"})
		r.Steps = &scan.Steps{FirstMs: 0, LastMs: 100_000, StepMs: 10_000, RangeMs: 30_000, Function: scan.StepRate}
		return r
	}
	for _, fold := range []*scan.Fold{nil, {Kind: scan.FoldMax, Names: []string{"n"}}} {
		for what, limits := range map[string]scan.Limits{"series": {SeriesMax: 49}, "samples": {SamplesMax: 20}} {
			r := ask()
			r.Steps.Fold, r.Limits = fold, limits
			var limit *scan.LimitError
			if err := s.Source.Scan(t.Context(), r, func(int, *scan.Chunk) error { return nil }); !errors.As(err, &limit) || limit.What != what {
				t.Errorf("a limit of %s: %v", what, err)
			}
		}
		r := ask()
		r.Steps.Fold = fold
		broken := errors.New("broken")
		var read atomic.Int64
		r.SamplesRead = func(samples int64) error {
			read.Add(samples)
			return nil
		}
		if err := s.Source.Scan(t.Context(), r, func(int, *scan.Chunk) error { return nil }); err != nil || read.Load() != 50*100 {
			t.Errorf("told of %d samples that are read, want %d; %v", read.Load(), 50*100, err)
		}
		r.SamplesRead = func(int64) error { return broken }
		if err := s.Source.Scan(t.Context(), r, func(int, *scan.Chunk) error { return nil }); !errors.Is(err, broken) {
			t.Errorf("samples that may not be read: %v", err)
		}
		r.SamplesRead = nil
		for end, want := range map[error]error{scan.ErrStopped: nil, broken: broken} {
			visits := 0
			err := s.Source.Scan(t.Context(), r, func(int, *scan.Chunk) error {
				visits++
				return end
			})
			if visits != 1 || !errors.Is(err, want) {
				t.Errorf("%d visits of a visitor that ends with %v: %v", visits, end, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Source.Scan(ctx, r, func(int, *scan.Chunk) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("a scan whose context has ended: %v", err)
		}
	}
	for _, wrong := range []func(*scan.Steps){
		func(s *scan.Steps) { s.StepMs = 0 }, func(s *scan.Steps) { s.LastMs = -1 }, func(s *scan.Steps) { s.RangeMs = 0 },
		func(s *scan.Steps) { s.LastMs = s.StepMs * scan.StepsMax }, func(s *scan.Steps) { s.Function = 0 }, func(s *scan.Steps) { s.Fold = &scan.Fold{} },
	} {
		r := ask()
		wrong(r.Steps)
		if err := s.Source.Scan(t.Context(), r, func(int, *scan.Chunk) error { return nil }); err == nil {
			t.Errorf("no error for %+v", r.Steps)
		}
	}
}

// wantSteps compares every bit of values, but those of NaN where series were folded.
func wantSteps(t reporter, got, want *scan.Chunk) {
	t.Helper()
	if got == nil {
		got = &scan.Chunk{}
	}
	exact := func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b) && stale(a) == stale(b)
	}
	if !slices.Equal(got.Times, want.Times) || !slices.EqualFunc(got.Values, want.Values, exact) || !slices.Equal(got.Count, want.Count) || !slices.EqualFunc(got.Sums, want.Sums, sameSum) || got.Series != want.Series {
		t.Fatalf("got  %v %v %v of %d series\nwant %v %v %v of %d", got.Times, got.Values, got.Count, got.Series, want.Times, want.Values, want.Count, want.Series)
	}
}

// sameSum reports whether two sums are rounded to the same bits, but those of NaN.
func sameSum(a, b exactsum.Sum) bool {
	x, y := a.Value(), b.Value()
	return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
}

// testDeduplicated asks for the samples of testSteps, of which there is one every 10 s, by intervals.
func testDeduplicated(t *testing.T, s Subject, key series.Key) {
	t.Helper()
	for _, c := range []struct {
		function   scan.StepFunction
		intervalMs int64
		times      []int64
		values     []float64
	}{
		{scan.StepCount, 1, []int64{60_000, 90_000}, []float64{3, 3}},
		{scan.StepCount, 10_000, []int64{60_000, 90_000}, []float64{3, 3}}, // an interval has its end
		{scan.StepCount, 20_000, []int64{60_000, 90_000}, []float64{2, 1}}, // 40 and 60 s, 80 s; that of 100 s is in its interval
		{scan.StepNewest, 40_000, []int64{40_000, 80_000}, []float64{40, 20}},
	} {
		r := everything(scan.Selector{Metric: "m"})
		r.Steps = &scan.Steps{FirstMs: 60_000, LastMs: 90_000, StepMs: 30_000, RangeMs: 30_000, Function: c.function, DeduplicateMs: c.intervalMs}
		wantSteps(t, collect(t, s, r)[string(key)], &scan.Chunk{Times: c.times, Values: c.values})
	}
}
