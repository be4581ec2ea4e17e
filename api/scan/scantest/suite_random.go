package scantest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// testRandom does the same random things to the subject and to a Memory and
// compares what both answer. Each run has a database of its own.
func testRandom(t *testing.T, s Subject) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		run := randomRun{subject: s, oracle: NewMemory(), database: fmt.Sprintf("run%d", runs), unitMs: rapid.SampledFrom([]int64{1, 1, 3600}).Draw(rt, "unit")}
		for range rapid.IntRange(1, 12).Draw(rt, "operations") {
			run.write(rt)
		}
		for range rapid.IntRange(1, 6).Draw(rt, "queries") {
			run.query(rt)
		}
	})
}

type randomRun struct {
	subject  Subject
	oracle   *Memory
	database string
	unitMs   int64 // by which all times are multiplied: seconds become hours
}

func (r *randomRun) write(t *rapid.T) {
	if r.subject.Deleter != nil && rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
		selector := r.selector(t)
		from, to := r.drawRange(t)
		if _, err := r.subject.Deleter.Delete(context.Background(), &selector, from, to); err != nil {
			t.Fatalf("delete: %v", err)
		}
		if _, err := r.oracle.Delete(context.Background(), &selector, from, to); err != nil {
			t.Fatalf("delete from the oracle: %v", err)
		}
		return
	}
	key := r.key(t)
	start := rapid.Int64Range(-5_000, 20_000).Draw(t, "start")
	step := rapid.SampledFrom([]int64{-250, 1, 7, 1000, 1000, 1000}).Draw(t, "step")
	samples := make([]series.Sample, rapid.IntRange(1, 150).Draw(t, "count"))
	seed := rapid.Uint64().Draw(t, "seed")
	for i := range samples {
		seed = seed*6364136223846793005 + 1442695040888963407
		samples[i] = series.Sample{TimeMs: (start + int64(i)*step) * r.unitMs, Value: float64(int32(seed>>33)%1000) / 4}
		switch seed >> 58 {
		case 0:
			samples[i].Value = math.NaN()
		case 1:
			samples[i].Value = math.Float64frombits(scan.StaleBits)
		case 2:
			samples[i].Value = math.Copysign(0, -1)
		}
	}
	if err := r.subject.Put(key, samples...); err != nil {
		t.Fatalf("put: %v", err)
	}
	if err := r.oracle.Put(key, samples...); err != nil {
		t.Fatalf("put to the oracle: %v", err)
	}
}

func (r *randomRun) key(t *rapid.T) series.Key {
	tags := []string{"host", rapid.SampledFrom([]string{"a", "b", "A", "ab"}).Draw(t, "host")}
	if dc := rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "dc"); dc != "" {
		tags = append(tags, "dc", dc)
	}
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		tags = append(tags, rapid.SampledFrom([]string{"empty", "__type__"}).Draw(t, "odd tag"), "")
	}
	return Key(r.database, rapid.SampledFrom([]string{"m", "m", "n"}).Draw(t, "metric"), tags...)
}

func (r *randomRun) selector(t *rapid.T) scan.Selector {
	selector := scan.Selector{Database: r.database, Metric: "m"}
	if rapid.IntRange(0, 4).Draw(t, "metrics") == 0 {
		selector.Metric, selector.MetricAny = "", true
	}
	for range rapid.IntRange(0, 2).Draw(t, "matchers") {
		m := scan.Matcher{
			Name: rapid.SampledFrom([]string{"host", "dc", "none"}).Draw(t, "name"),
			Kind: scan.MatchKind(rapid.IntRange(0, int(scan.MatchAbsent)).Draw(t, "kind")),
		}
		m.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "AB", "x", "", "zz"}), 1, 3).Draw(t, "values")
		if m.Kind == scan.MatchEqual || m.Kind == scan.MatchNotEqual {
			m.Values = m.Values[:1] // they compare with one value
		}
		if m.Kind == scan.MatchRegexp || m.Kind == scan.MatchNotRegexp {
			m.Values = []string{rapid.SampledFrom([]string{".*", ".+", "a.*", "a|x", "(?i)ab?", ""}).Draw(t, "expression")}
		}
		selector.Matchers = append(selector.Matchers, m)
	}
	selector.Exact = rapid.IntRange(0, 5).Draw(t, "exact") == 0
	return selector
}

func (r *randomRun) drawRange(t *rapid.T) (from, to int64) {
	from = rapid.Int64Range(-6_000, 100_000).Draw(t, "from") * r.unitMs
	return from, from + rapid.Int64Range(0, 200_000).Draw(t, "length")*r.unitMs
}

func (r *randomRun) steps(t *rapid.T, request *scan.Request) *scan.Steps {
	s := &scan.Steps{
		FirstMs:  request.FromMs + rapid.Int64Range(-2000, 60_000).Draw(t, "first")*r.unitMs,
		StepMs:   rapid.SampledFrom([]int64{1000, 60, 3000, 60_000}).Draw(t, "step")*r.unitMs + rapid.Int64Range(0, 1).Draw(t, "more"),
		RangeMs:  rapid.SampledFrom([]int64{1000, 5, 2500, 300_000}).Draw(t, "width") * r.unitMs,
		Function: scan.StepFunction(rapid.IntRange(int(scan.StepNewest), int(scan.StepLast)).Draw(t, "function")),
	}
	s.LastMs = s.FirstMs + rapid.SampledFrom([]int64{0, 1, 50, 150}).Draw(t, "steps")*s.StepMs
	s.DeduplicateMs = rapid.SampledFrom([]int64{0, 0, 1, 15, 4000}).Draw(t, "deduplicated") * r.unitMs
	if rapid.Bool().Draw(t, "folded") {
		s.Fold = &scan.Fold{
			Kind:    scan.FoldKind(rapid.IntRange(int(scan.FoldCount), int(scan.FoldSum)).Draw(t, "fold")),
			Without: rapid.Bool().Draw(t, "without"),
			Names:   rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"host", "dc", "none", scan.NameTag}), 0, 2, rapid.ID[string]).Draw(t, "names"),
		}
	}
	return s
}

func (r *randomRun) query(t *rapid.T) {
	request := &scan.Request{Selector: r.selector(t), Parallel: rapid.IntRange(0, 3).Draw(t, "parallel")}
	request.FromMs, request.ToMs = r.drawRange(t)
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		request.Steps = r.steps(t, request)
	case 1:
		request.Windows = &scan.Windows{
			OriginMs:   rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-10_000, 10_000)).Draw(t, "origin") * r.unitMs,
			WidthMs:    rapid.SampledFrom([]int64{1, 10, 999, 1000, 24_000, 60_000, 3_600_000}).Draw(t, "width") * r.unitMs,
			Aggregates: scan.Aggregate(rapid.IntRange(1, int(allAggregates)).Draw(t, "aggregates")),
		}
		if rapid.IntRange(0, 3).Draw(t, "digests") == 0 {
			request.Windows.Aggregates = scan.AggregateDigest | request.Windows.Aggregates&scan.AggregateCount
			request.Windows.RecordedDigests = rapid.Bool().Draw(t, "recorded")
		}
	}
	got, err := Collect(context.Background(), r.subject.Source, request)
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	want, err := Collect(context.Background(), r.oracle, request)
	if err != nil {
		t.Fatalf("scan of the oracle: %v", err)
	}
	if !slices.Equal(names(got), names(want)) {
		t.Fatalf("%+v\ngot  %q\nwant %q", request, names(got), names(want))
	}
	for key, w := range want {
		r.compare(t, request, got[key], w)
	}
}

func (r *randomRun) compare(t *rapid.T, request *scan.Request, got, want *scan.Chunk) {
	if request.Steps != nil {
		wantSteps(t, got, want)
		return
	}
	if request.Windows != nil {
		wantWindows(t, got, want, request.Windows.Aggregates)
		return
	}
	samples := make([]series.Sample, len(want.Times))
	for i := range samples {
		samples[i] = series.Sample{TimeMs: want.Times[i], Value: want.Values[i]}
	}
	wantSamples(t, got, samples)
}
