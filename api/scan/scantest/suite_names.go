package scantest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

func testLast(t *testing.T, s Subject) {
	a, b, c := Key("", "m", "n", "a"), Key("", "m", "n", "b"), Key("", "m", "n", "c")
	put(t, s, a, ramp(1000, 1000, 300)...)
	put(t, s, b, series.Sample{TimeMs: 9000, Value: 9}, series.Sample{TimeMs: 5000, Value: 5})
	put(t, s, c, series.Sample{TimeMs: -5, Value: -1})
	for name, test := range map[string]struct {
		selector scan.Selector
		fromMs   int64
		want     map[string]series.Sample
	}{
		"all of time": {scan.Selector{Metric: "m"}, scan.TimeMsMin, map[string]series.Sample{
			string(a): {TimeMs: 300_000, Value: 299}, string(b): {TimeMs: 9000, Value: 9}, string(c): {TimeMs: -5, Value: -1}}},
		"from is inclusive": {scan.Selector{Metric: "m"}, 9000, map[string]series.Sample{
			string(a): {TimeMs: 300_000, Value: 299}, string(b): {TimeMs: 9000, Value: 9}}},
		"too late":     {scan.Selector{Metric: "m"}, 300_001, map[string]series.Sample{}},
		"with matcher": {one("n", scan.MatchEqual, "b"), scan.TimeMsMin, map[string]series.Sample{string(b): {TimeMs: 9000, Value: 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := last(t, s, &test.selector, test.fromMs)
			if !slices.Equal(names(got), names(test.want)) {
				t.Fatalf("got %q, want %q", names(got), names(test.want))
			}
			for key, want := range test.want {
				if got[key] != want {
					t.Errorf("%v: %v, want %v", series.Key(key), got[key], want)
				}
			}
		})
	}
	var limit *scan.LimitError
	err := s.Source.Last(context.Background(), &scan.Selector{Metric: "m"}, 0, scan.Limits{SeriesMax: 2}, func(scan.Point) error { return nil })
	if !errors.As(err, &limit) || limit.What != "series" {
		t.Errorf("got %v, want a limit of series", err)
	}
}

func last(t testing.TB, s Subject, selector *scan.Selector, fromMs int64) map[string]series.Sample {
	t.Helper()
	got := map[string]series.Sample{}
	err := s.Source.Last(context.Background(), selector, fromMs, scan.Limits{}, func(p scan.Point) error {
		if _, twice := got[string(p.Key)]; twice {
			t.Errorf("%v comes twice", p.Key)
		}
		got[string(p.Key)] = p.Sample
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func testSeries(t *testing.T, s Subject) {
	for _, n := range []string{"a", "b", "c", "d"} {
		put(t, s, Key("", "m", "n", n), ramp(0, 1, 1)...)
	}
	for _, test := range []struct {
		selector scan.Selector
		limit    int
		visited  int
		total    int64
	}{
		{scan.Selector{Metric: "m"}, 0, 4, 4},
		{scan.Selector{Metric: "m"}, 3, 3, 4},
		{scan.Selector{Metric: "m"}, 9, 4, 4},
		{scan.Selector{Metric: "none"}, 0, 0, 0},
		{one("n", scan.MatchIn, "a", "d"), 0, 2, 2},
		{scan.Selector{MetricAny: true}, 1, 1, 4},
	} {
		seen := map[string]bool{}
		total, err := s.Source.Series(context.Background(), &test.selector, test.limit, func(key series.Key) error {
			seen[string(key)] = true
			return nil
		})
		if err != nil || len(seen) != test.visited || total != test.total {
			t.Errorf("%+v limit %d: %d of %d series, %v; want %d of %d", test.selector, test.limit, len(seen), total, err, test.visited, test.total)
		}
	}
}

func testNames(t *testing.T, s Subject) {
	ctx := context.Background()
	for _, key := range []series.Key{
		Key("", "cpu.user", "host", "a", "core", "0"), Key("", "cpu.sys", "host", "b"), Key("", "mem", "host", "a", "zone", "Z"),
		Key("", "CPU"), Key("x", "cpu.other", "rack", "r1"),
	} {
		put(t, s, key, ramp(0, 1, 1)...)
	}
	for _, test := range []struct {
		name string
		got  func() ([]string, error)
		want []string
	}{
		{"metrics", func() ([]string, error) { return s.Source.Metrics(ctx, "", "", 0) }, []string{"CPU", "cpu.sys", "cpu.user", "mem"}},
		{"metrics by prefix", func() ([]string, error) { return s.Source.Metrics(ctx, "", "cpu", 0) }, []string{"cpu.sys", "cpu.user"}},
		{"metrics, one", func() ([]string, error) { return s.Source.Metrics(ctx, "", "cpu", 1) }, []string{"cpu.sys"}},
		{"metrics of x", func() ([]string, error) { return s.Source.Metrics(ctx, "x", "", 0) }, []string{"cpu.other"}},
		{"metrics, none", func() ([]string, error) { return s.Source.Metrics(ctx, "", "cpu.users", 0) }, []string{}},
		{"tag names", func() ([]string, error) { return s.Source.TagNames(ctx, "", "", "", 0) }, []string{"core", "host", "zone"}},
		{"tag names of a metric", func() ([]string, error) { return s.Source.TagNames(ctx, "", "mem", "", 0) }, []string{"host", "zone"}},
		{"tag names by prefix", func() ([]string, error) { return s.Source.TagNames(ctx, "", "cpu.user", "h", 0) }, []string{"host"}},
		{"tag names, two", func() ([]string, error) { return s.Source.TagNames(ctx, "", "", "", 2) }, []string{"core", "host"}},
		{"tag values", func() ([]string, error) { return s.Source.TagValues(ctx, "", "", "host", "", 0) }, []string{"a", "b"}},
		{"tag values of a metric", func() ([]string, error) { return s.Source.TagValues(ctx, "", "cpu.sys", "host", "", 0) }, []string{"b"}},
		{"tag values by prefix", func() ([]string, error) { return s.Source.TagValues(ctx, "", "", "host", "b", 0) }, []string{"b"}},
		{"tag values of every name", func() ([]string, error) { return s.Source.TagValues(ctx, "", "", "", "", 0) }, []string{"0", "Z", "a", "b"}},
		{"tag values of no name", func() ([]string, error) { return s.Source.TagValues(ctx, "", "mem", "core", "", 0) }, []string{}},
		{"databases", func() ([]string, error) { return s.Source.Databases(ctx) }, []string{"", "x"}},
	} {
		if got, err := test.got(); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}
}

// testBetween: a series with a sample in a range is in the lists of it; one without may be.
func testBetween(t *testing.T, s Subject) {
	const dayMs = 24 * 3600_000
	ctx := context.Background()
	times := []int64{-400 * dayMs, -1, 0, 5, 31 * dayMs, 365*dayMs - 1, 365 * dayMs, 20_000 * dayMs}
	for i, at := range times {
		put(t, s, Key("", fmt.Sprint("m", i), "host", fmt.Sprint("h", i), fmt.Sprint("t", i), "x"), series.Sample{TimeMs: at, Value: 1})
	}
	ends := append([]int64{scan.TimeMsMin, -1000 * dayMs, 1, 100 * dayMs, 30_000 * dayMs, scan.TimeMsMax}, times...)
	for _, from := range ends {
		for _, to := range ends {
			dated := scan.Between(s.Source, from, to)
			keys := map[string]bool{}
			_, err := dated.Series(ctx, &scan.Selector{MetricAny: true}, 0, func(key series.Key) error {
				_, metric, _, err := key.Parts(nil)
				keys[string(metric)] = true
				return err
			})
			metrics, err1 := dated.Metrics(ctx, "", "", 0)
			names, err2 := dated.TagNames(ctx, "", "", "t", 0)
			values, err3 := dated.TagValues(ctx, "", "", "host", "", 0)
			databases, err4 := dated.Databases(ctx)
			if err := errors.Join(err, err1, err2, err3, err4); err != nil || len(databases) != 1 {
				t.Fatal(databases, err)
			}
			for i, at := range times {
				if at < from || at > to {
					continue
				}
				if n := fmt.Sprint(i); !keys["m"+n] || !slices.Contains(metrics, "m"+n) || !slices.Contains(names, "t"+n) || !slices.Contains(values, "h"+n) {
					t.Errorf("from %d to %d the sample at %d is not listed: %v, %q, %q, %q", from, to, at, keys, metrics, names, values)
				}
			}
		}
	}
}

func testBadRequests(t *testing.T, s Subject) {
	put(t, s, Key("", "m", "host", "a"), ramp(0, 1, 1)...)
	for name, r := range map[string]*scan.Request{
		"expression":      everything(one("host", scan.MatchRegexp, "a(")),
		"no such matcher": everything(one("host", scan.MatchAbsent+1, "a")),
		"window of nothing": {Selector: scan.Selector{Metric: "m"}, ToMs: 10,
			Windows: &scan.Windows{WidthMs: 0, Aggregates: scan.AggregateSum}},
	} {
		if err := s.Source.Scan(context.Background(), r, func(int, *scan.Chunk) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func testDelete(t *testing.T, s Subject) {
	if s.Deleter == nil {
		t.Skip("no Deleter")
	}
	ctx := context.Background()
	a, b := Key("", "m", "n", "a"), Key("", "m", "n", "b")
	put(t, s, a, ramp(0, 1000, 300)...)
	put(t, s, b, ramp(0, 1000, 300)...)
	selector := one("n", scan.MatchEqual, "a")
	touched, err := s.Deleter.Delete(ctx, &selector, 10_000, 289_000)
	if err != nil || touched != 1 {
		t.Fatalf("delete: %d series, %v", touched, err)
	}
	kept := append(ramp(0, 1000, 10), ramp(0, 1000, 300)[290:]...)
	r := everything(scan.Selector{Metric: "m"})
	wantSamples(t, collect(t, s, r)[string(a)], kept)
	wantSamples(t, collect(t, s, r)[string(b)], ramp(0, 1000, 300))

	// What is written after a delete is there.
	put(t, s, a, series.Sample{TimeMs: 20_000, Value: -1})
	kept = slices.Insert(kept, 10, series.Sample{TimeMs: 20_000, Value: -1})
	wantSamples(t, collect(t, s, r)[string(a)], kept)

	r.Windows = &scan.Windows{WidthMs: 1_000_000, Aggregates: scan.AggregateCount}
	if got := collect(t, s, r)[string(a)]; got == nil || !slices.Equal(got.Count, []int64{21}) {
		t.Errorf("count by window after the delete: %+v, want 21", got)
	}
	if _, err := s.Deleter.Delete(ctx, &selector, 290_000, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
	if got := last(t, s, &selector, scan.TimeMsMin)[string(a)]; got.TimeMs != 20_000 {
		t.Errorf("last after the delete of the end: %v", got)
	}
	if _, err := s.Deleter.Delete(ctx, &selector, scan.TimeMsMin, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
	r.Windows = nil
	if got := collect(t, s, r)[string(a)]; got != nil {
		t.Errorf("%d samples left", len(got.Times))
	}
}
