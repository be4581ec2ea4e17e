package scantest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Subject is an implementation under test, empty at first.
type Subject struct {
	Source  scan.Source
	Deleter scan.Deleter // nil: the tests of deletes are left out
	// Put writes samples of one series; when it returns they can be queried.
	Put func(key series.Key, samples ...series.Sample) error
}

// RunSourceTests checks everything that package scan guarantees. Open returns a
// fresh subject for every test and may register a clean-up with t.
func RunSourceTests(t *testing.T, open func(t *testing.T) Subject) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"matchers", testMatchers},
		{"databases are apart", testDatabases},
		{"values keep every bit", testValues},
		{"later write wins", testOrder},
		{"range is inclusive", testRange},
		{"windows", testWindows},
		{"windows leave out NaN", testWindowsNaN},
		{"windows have digests", testWindowsDigest},
		{"negative windows", testWindowsNegative},
		{"windows of hours", testWindowsOfHours},
		{"steps", testSteps},
		{"steps that are refused or end early", testStepsEnd},
		{"rows of groups", testFold},
		{"parallel", testParallel},
		{"limits", testLimits},
		{"visitor stops", testVisitorErrors},
		{"cancel", testCancel},
		{"last", testLast},
		{"series", testSeries},
		{"names", testNames},
		{"lists of a range", testBetween},
		{"bad requests", testBadRequests},
		{"delete", testDelete},
		{"random", testRandom},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// put writes or ends the test.
func put(t testing.TB, s Subject, key series.Key, samples ...series.Sample) {
	t.Helper()
	if err := s.Put(key, samples...); err != nil {
		t.Fatalf("put %v: %v", key, err)
	}
}

// ramp returns samples at from, from+step, … with values 0, 1, ….
func ramp(fromMs, stepMs int64, count int) []series.Sample {
	samples := make([]series.Sample, count)
	for i := range samples {
		samples[i] = series.Sample{TimeMs: fromMs + int64(i)*stepMs, Value: float64(i)}
	}
	return samples
}

func collect(t testing.TB, s Subject, r *scan.Request) map[string]*scan.Chunk {
	t.Helper()
	found, err := Collect(context.Background(), s.Source, r)
	if err != nil {
		t.Fatalf("scan of %+v: %v", r.Selector, err)
	}
	return found
}

func everything(selector scan.Selector) *scan.Request {
	return &scan.Request{Selector: selector, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
}

// names returns the keys of a result for people, sorted.
func names[V any](found map[string]V) []string {
	list := make([]string, 0, len(found))
	for key := range found {
		list = append(list, series.Key(key).String())
	}
	slices.Sort(list)
	return list
}

func testMatchers(t *testing.T, s Subject) {
	for _, tags := range [][]string{
		{},
		{"host", "a"},
		{"host", "b"},
		{"host", "B"},
		{"host", "web-01", "dc", "lga"},
		{"host", "web-02", "dc", "lga"},
		{"host", "web-02", "dc", "sjc", "os", "linux"},
		{"dc", "lga"},
		{"host", "straße"},
	} {
		put(t, s, Key("", "m", tags...), ramp(1000, 1000, 3)...)
		put(t, s, Key("", "other", tags...), ramp(1000, 1000, 3)...)
	}
	for name, test := range map[string]struct {
		selector scan.Selector
		want     []string
	}{
		"equal": {one("host", scan.MatchEqual, "a"), []string{"m{host=a}"}},
		"equal to nothing": {one("host", scan.MatchEqual, ""),
			[]string{"m{dc=lga}", "m{}"}},
		"not equal": {one("host", scan.MatchNotEqual, "a"),
			[]string{"m{dc=lga,host=web-01}", "m{dc=lga,host=web-02}", "m{dc=lga}", "m{dc=sjc,host=web-02,os=linux}", "m{host=B}", "m{host=b}", "m{host=straße}", "m{}"}},
		"not equal to nothing": {both(one("host", scan.MatchNotEqual, ""), one("dc", scan.MatchNotEqual, "")),
			[]string{"m{dc=lga,host=web-01}", "m{dc=lga,host=web-02}", "m{dc=sjc,host=web-02,os=linux}"}},
		"in":                     {one("host", scan.MatchIn, "a", "b", "zzz"), []string{"m{host=a}", "m{host=b}"}},
		"in, with nothing":       {one("host", scan.MatchIn, "a", ""), []string{"m{dc=lga}", "m{host=a}", "m{}"}},
		"in no values":           {one("host", scan.MatchIn), []string{}},
		"not in":                 {one("host", scan.MatchNotIn, "a", "b", "B", "straße", ""), []string{"m{dc=lga,host=web-01}", "m{dc=lga,host=web-02}", "m{dc=sjc,host=web-02,os=linux}"}},
		"equal but for case":     {one("host", scan.MatchEqualFold, "b", "STRAßE"), []string{"m{host=B}", "m{host=b}", "m{host=straße}"}},
		"not equal but for case": {both(one("host", scan.MatchNotEqualFold, "B", "A", "straße"), one("dc", scan.MatchAbsent)), []string{"m{}"}},
		"expression":             {one("host", scan.MatchRegexp, "web-0[12]|a"), []string{"m{dc=lga,host=web-01}", "m{dc=lga,host=web-02}", "m{dc=sjc,host=web-02,os=linux}", "m{host=a}"}},
		"expression is anchored": {one("host", scan.MatchRegexp, "eb"), []string{}},
		"expression of nothing":  {one("os", scan.MatchRegexp, "x?"), []string{"m{dc=lga,host=web-01}", "m{dc=lga,host=web-02}", "m{dc=lga}", "m{host=B}", "m{host=a}", "m{host=b}", "m{host=straße}", "m{}"}},
		"not expression":         {one("host", scan.MatchNotRegexp, "web.*|.?"), []string{"m{host=straße}"}},
		"present":                {one("os", scan.MatchPresent), []string{"m{dc=sjc,host=web-02,os=linux}"}},
		"absent":                 {both(one("os", scan.MatchAbsent), one("host", scan.MatchAbsent)), []string{"m{dc=lga}", "m{}"}},
		"two at once":            {both(one("host", scan.MatchEqual, "web-02"), one("dc", scan.MatchEqual, "lga")), []string{"m{dc=lga,host=web-02}"}},
		"two of one tag":         {both(one("host", scan.MatchRegexp, "web.*"), one("host", scan.MatchNotEqual, "web-01")), []string{"m{dc=lga,host=web-02}", "m{dc=sjc,host=web-02,os=linux}"}},
		"exact":                  {exact(one("host", scan.MatchPresent)), []string{"m{host=B}", "m{host=a}", "m{host=b}", "m{host=straße}"}},
		"exact, none named":      {exact(scan.Selector{Metric: "m"}), []string{"m{}"}},
		"unknown metric":         {scan.Selector{Metric: "nope"}, []string{}},
		"any metric":             {scan.Selector{MetricAny: true, Matchers: one("os", scan.MatchPresent).Matchers}, []string{"m{dc=sjc,host=web-02,os=linux}", "other{dc=sjc,host=web-02,os=linux}"}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(test.want)
			if got := names(collect(t, s, everything(test.selector))); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func one(name string, kind scan.MatchKind, values ...string) scan.Selector {
	return scan.Selector{Metric: "m", Matchers: []scan.Matcher{{Name: name, Kind: kind, Values: values}}}
}

func both(a, b scan.Selector) scan.Selector {
	a.Matchers = append(a.Matchers, b.Matchers...)
	return a
}

func exact(a scan.Selector) scan.Selector {
	a.Exact = true
	return a
}

func testDatabases(t *testing.T, s Subject) {
	put(t, s, Key("", "m", "k", "none"), ramp(0, 1, 1)...)
	put(t, s, Key("one", "m", "k", "one"), ramp(0, 1, 2)...)
	put(t, s, Key("two", "m", "k", "two"), ramp(0, 1, 3)...)
	for database, want := range map[string][]string{
		"": {"m{k=none}"}, "one": {"one/m{k=one}"}, "two": {"two/m{k=two}"}, "three": {},
	} {
		if got := names(collect(t, s, everything(scan.Selector{Database: database, MetricAny: true}))); !slices.Equal(got, want) {
			t.Errorf("database %q: got %q, want %q", database, got, want)
		}
	}
	got, err := s.Source.Databases(context.Background())
	if want := []string{"", "one", "two"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("databases: %q, %v; want %q", got, err, want)
	}
}

func testValues(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	var samples []series.Sample
	for i, bits := range []uint64{
		0, 1 << 63, 1, math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)),
		0x7ff8000000000000, 0x7ff8000000000001, 0xfff8dead0000beef, 0x7ff0000000000002,
		math.Float64bits(math.MaxFloat64), math.Float64bits(-math.MaxFloat64), math.Float64bits(math.SmallestNonzeroFloat64),
		math.Float64bits(0.1), math.Float64bits(-123456.789), math.Float64bits(1 << 53), math.Float64bits(1<<53 + 2), math.Float64bits(1e300),
	} {
		samples = append(samples, series.Sample{TimeMs: int64(i) * 1000, Value: math.Float64frombits(bits)})
	}
	put(t, s, key, samples...)
	wantSamples(t, collect(t, s, everything(scan.Selector{Metric: "m"}))[string(key)], samples)
}

// reporter is what testing.T and rapid.T share.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// wantSamples compares times and the bits of values.
func wantSamples(t reporter, got *scan.Chunk, want []series.Sample) {
	t.Helper()
	if got == nil {
		got = &scan.Chunk{}
	}
	if len(got.Times) != len(want) {
		t.Fatalf("%d samples, want %d", len(got.Times), len(want))
	}
	for i, w := range want {
		if got.Times[i] != w.TimeMs || math.Float64bits(got.Values[i]) != math.Float64bits(w.Value) {
			t.Fatalf("sample %d: %v (%x) at %d, want %v (%x) at %d", i, got.Values[i], math.Float64bits(got.Values[i]),
				got.Times[i], w.Value, math.Float64bits(w.Value), w.TimeMs)
		}
	}
}

func testOrder(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	for _, sample := range []series.Sample{
		{TimeMs: 5000, Value: 1}, {TimeMs: 3000, Value: 2}, {TimeMs: 4000, Value: 3}, {TimeMs: 3000, Value: 4},
		{TimeMs: 9000, Value: 5}, {TimeMs: 5000, Value: 6}, {TimeMs: -7000, Value: 7},
	} {
		put(t, s, key, sample)
	}
	put(t, s, key, series.Sample{TimeMs: 9000, Value: 8}, series.Sample{TimeMs: 9000, Value: 9})
	wantSamples(t, collect(t, s, everything(scan.Selector{Metric: "m"}))[string(key)], []series.Sample{
		{TimeMs: -7000, Value: 7}, {TimeMs: 3000, Value: 4}, {TimeMs: 4000, Value: 3}, {TimeMs: 5000, Value: 6}, {TimeMs: 9000, Value: 9},
	})
}

func testRange(t *testing.T, s Subject) {
	key := Key("", "m", "k", "v")
	samples := ramp(10_000, 1000, 500)
	put(t, s, key, samples...)
	for _, test := range []struct{ from, to, first, end int64 }{
		{10_000, 10_000, 0, 1}, {0, 9_999, 0, 0}, {509_000, 900_000, 499, 500}, {509_001, 900_000, 0, 0},
		{100_500, 200_500, 91, 191}, {20_000, 10_000, 0, 0}, {scan.TimeMsMin, scan.TimeMsMax, 0, 500},
	} {
		r := &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: test.from, ToMs: test.to}
		wantSamples(t, collect(t, s, r)[string(key)], samples[test.first:test.end])
	}
}

func testParallel(t *testing.T, s Subject) {
	want := map[string][]series.Sample{}
	for i := range 200 {
		key := Key("", "m", "n", fmt.Sprint(i))
		samples := ramp(int64(i), 1000, 1+i*3)
		put(t, s, key, samples...)
		want[string(key)] = samples
	}
	for _, parallel := range []int{0, 1, 2, 7} {
		r := everything(scan.Selector{Metric: "m"})
		r.Parallel = parallel
		got := collect(t, s, r)
		if len(got) != len(want) {
			t.Fatalf("%d visitors: %d series, want %d", parallel, len(got), len(want))
		}
		for key, samples := range want {
			wantSamples(t, got[key], samples)
		}
	}
}

func testLimits(t *testing.T, s Subject) {
	for i := range 10 {
		put(t, s, Key("", "m", "n", fmt.Sprint(i)), ramp(0, 1000, 1000)...)
	}
	for name, test := range map[string]struct {
		limits scan.Limits
		what   string
	}{
		"enough series":   {scan.Limits{SeriesMax: 10}, ""},
		"too many series": {scan.Limits{SeriesMax: 9}, "series"},
		// A source may decode more than it visits, so the limit is far off.
		"enough samples":   {scan.Limits{SamplesMax: 1e9}, ""},
		"too many samples": {scan.Limits{SamplesMax: 500}, "samples"},
		"enough bytes":     {scan.Limits{BytesMax: 1 << 30}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := everything(scan.Selector{Metric: "m"})
			r.Limits = test.limits
			_, err := Collect(context.Background(), s.Source, r)
			var limit *scan.LimitError
			switch {
			case test.what == "" && err != nil:
				t.Error(err)
			case test.what != "" && (!errors.As(err, &limit) || limit.What != test.what):
				t.Errorf("got %v, want a limit of %s", err, test.what)
			}
		})
	}
}

func testVisitorErrors(t *testing.T, s Subject) {
	for i := range 10 {
		put(t, s, Key("", "m", "n", fmt.Sprint(i)), ramp(0, 1000, 1000)...)
	}
	broken := errors.New("broken")
	for _, parallel := range []int{1, 3} {
		for _, visitorErr := range []error{scan.ErrStopped, fmt.Errorf("far enough: %w", scan.ErrStopped), broken} {
			r := everything(scan.Selector{Metric: "m"})
			r.Parallel = parallel
			err := s.Source.Scan(context.Background(), r, func(int, *scan.Chunk) error { return visitorErr })
			if want := errors.Is(visitorErr, broken); errors.Is(err, broken) != want || !want && err != nil {
				t.Errorf("%d visitors return %v: scan gives %v", parallel, visitorErr, err)
			}
		}
	}
	visits := 0
	err := s.Source.Last(context.Background(), &scan.Selector{Metric: "m"}, scan.TimeMsMin, scan.Limits{}, func(scan.Point) error {
		visits++
		return scan.ErrStopped
	})
	if err != nil || visits != 1 {
		t.Errorf("last: %v after %d visits", err, visits)
	}
}

func testCancel(t *testing.T, s Subject) {
	for i := range 10 {
		put(t, s, Key("", "m", "n", fmt.Sprint(i)), ramp(0, 1000, 10)...)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	selector := scan.Selector{Metric: "m"}
	if err := s.Source.Scan(cancelled, everything(selector), func(int, *scan.Chunk) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("scan: %v", err)
	}
	if err := s.Source.Last(cancelled, &selector, 0, scan.Limits{}, func(scan.Point) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("last: %v", err)
	}
	if _, err := s.Source.Series(cancelled, &selector, 0, func(series.Key) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("series: %v", err)
	}
	during, stop := context.WithCancel(context.Background())
	defer stop()
	visits := 0
	err := s.Source.Scan(during, everything(selector), func(int, *scan.Chunk) error {
		visits++
		stop()
		return nil
	})
	if !errors.Is(err, context.Canceled) || visits == 0 || visits == 10 {
		t.Errorf("cancelled by its visitor: %v after %d of 10 series", err, visits)
	}
}
