package steps_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
)

// samplesOnly is a reader that knows nothing of steps.
type samplesOnly struct{ *scantest.Memory }

// filled returns a memory with series of many samples and series of few.
func filled(t testing.TB, many, few int) *scantest.Memory {
	m := scantest.NewMemory()
	for i := range many + few {
		key := scantest.Key("", "m", "host", fmt.Sprint(i%7), "n", fmt.Sprint(i))
		by := int64(1000)
		if i >= many {
			by = 50_000
		}
		for at := int64(0); at <= 100_000; at += by {
			if err := m.Put(key, series.Sample{TimeMs: at, Value: float64(at)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func request(function scan.StepFunction, fold *scan.Fold) *scan.Request {
	return &scan.Request{
		Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax,
		Steps: &scan.Steps{FirstMs: 0, LastMs: 100_000, StepMs: 5000, RangeMs: 60_000, Function: function, Fold: fold},
	}
}

// TestScanShort: of each series what is fewer bytes is handed out.
func TestScanShort(t *testing.T) {
	m := filled(t, 3, 2)
	var values, samples int
	visit := func(count *int) scan.Visitor {
		return func(_ int, c *scan.Chunk) error {
			*count++
			if len(c.Times) > 21 {
				t.Errorf("%d times of %d steps", len(c.Times), 21)
			}
			return nil
		}
	}
	r := request(scan.StepIncrease, nil)
	if err := steps.ScanShort(t.Context(), samplesOnly{m}, r, visit(&values), visit(&samples)); err != nil || values != 3 || samples != 2 {
		t.Errorf("%d series of values and %d of samples, %v", values, samples, err)
	}
	values, samples = 0, 0
	r = request(scan.StepNewest, nil)
	if err := steps.ScanShort(t.Context(), samplesOnly{m}, r, visit(&values), visit(&samples)); err != nil || values != 0 || samples != 5 {
		t.Errorf("%d series of values and %d of newest samples, %v", values, samples, err)
	}
}

// TestFoldFlushes: rows of more groups than are held at once are visited in parts, and what is
// held of samples has the request's limit.
func TestFoldFlushes(t *testing.T) {
	m := scantest.NewMemory()
	const groups = 400
	for i := range groups {
		for at := range int64(3) {
			if err := m.Put(scantest.Key("", "m", "n", fmt.Sprint(i)), series.Sample{TimeMs: at * 1000, Value: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := request(scan.StepCount, &scan.Fold{Kind: scan.FoldMax, Names: []string{"n"}})
	r.Steps.StepMs = 500 // 201 steps of 16 bytes
	seen := map[string]int{}
	err := steps.Scan(t.Context(), samplesOnly{m}, r, func(_ int, c *scan.Chunk) error {
		seen[string(c.Key)]++
		return nil
	})
	if err != nil || len(seen) != groups {
		t.Fatalf("%d groups, %v", len(seen), err)
	}
	r.Limits.BytesMax = 100
	var limit *scan.LimitError
	if err := steps.Scan(t.Context(), samplesOnly{m}, r, func(int, *scan.Chunk) error { return nil }); !errors.As(err, &limit) || limit.What != "bytes" {
		t.Errorf("more bytes than the limit: %v", err)
	}
}

// TestFoldLast: newest samples stand for the groups of one step, unless there are too many groups.
func TestFoldLast(t *testing.T) {
	m := filled(t, 2, 5)
	r := request(scan.StepNewest, &scan.Fold{Kind: scan.FoldCount, Names: []string{"host"}})
	r.Steps.FirstMs, r.FromMs = 100_000, 40_001
	for _, bytesMax := range []int64{0, 1 << 20, 300} { // with the least, samples are read
		r.Limits.BytesMax = bytesMax
		rows := 0
		err := steps.Scan(t.Context(), samplesOnly{m}, r, func(_ int, c *scan.Chunk) error {
			rows++
			if c.Series != 1 || c.Count[0] != 1 {
				t.Errorf("%v: %d of %d series", c.Key, c.Count, c.Series)
			}
			return nil
		})
		var limit *scan.LimitError
		if rows != 7 && !errors.As(err, &limit) || bytesMax != 300 && err != nil {
			t.Errorf("%d bytes: %d rows, %v", bytesMax, rows, err)
		}
	}
}

// oneSeries is a reader that looks at no context and hands out one series in chunks: a sample a
// second, but for a staleness marker.
type oneSeries struct {
	*scantest.Memory
	samples, inChunk int
	begin            func()
	taken            error // by the visitor
}

func (r *oneSeries) Scan(_ context.Context, _ *scan.Request, visit scan.Visitor) error {
	times, values := make([]int64, r.samples), make([]float64, r.samples)
	for i := range times {
		times[i], values[i] = int64(i)*1000, float64(i)
	}
	values[500] = math.Float64frombits(scan.StaleBits)
	key := scantest.Key("", "m")
	r.begin()
	for from := 0; from < len(times) && r.taken == nil; from += r.inChunk {
		to := min(from+r.inChunk, len(times))
		r.taken = visit(0, &scan.Chunk{Key: key, Times: times[from:to], Values: values[from:to]})
	}
	return r.taken
}

// TestCanceledWithinSeries: whoever asked may be gone while one series is evaluated, as functions go
// through the samples of all ranges.
func TestCanceledWithinSeries(t *testing.T) {
	r := request(scan.StepSum, nil)
	r.Steps.FirstMs, r.Steps.LastMs, r.Steps.StepMs, r.Steps.RangeMs = 4_000_000, 8_000_000, 2000, 4_000_000
	ctx, cancel := context.WithCancel(t.Context())
	reader := &oneSeries{Memory: scantest.NewMemory(), samples: 10_000, inChunk: 10_000, begin: cancel}
	err := steps.Scan(ctx, reader, r, func(int, *scan.Chunk) error { return nil })
	if !errors.Is(err, context.Canceled) || !errors.Is(reader.taken, context.Canceled) {
		t.Errorf("%v, and %v while the series was taken", err, reader.taken)
	}
}

// TestUnseenSamples: samples between the ranges of steps that are far apart are not held, however they come.
func TestUnseenSamples(t *testing.T) {
	r := request(scan.StepCount, nil)
	r.Steps.LastMs, r.Steps.StepMs, r.Steps.RangeMs = 200_000_000, 100_000_000, 60_000
	r.Limits.BytesMax = 64 << 10
	for _, inChunk := range []int{1, 500, 200_001} {
		reader := &oneSeries{Memory: scantest.NewMemory(), samples: 200_001, inChunk: inChunk, begin: func() {}}
		var got []float64
		err := steps.Scan(t.Context(), reader, r, func(_ int, c *scan.Chunk) error {
			got = append(got, c.Values...)
			return nil
		})
		if err != nil || !slices.Equal(got, []float64{1, 60, 60}) {
			t.Errorf("chunks of %d: %v, %v", inChunk, got, err)
		}
	}
}

func BenchmarkEvaluator(b *testing.B) {
	const samples = 390
	times, values := make([]int64, samples), make([]float64, samples)
	for i := range times {
		times[i], values[i] = int64(i)*10_000, float64(i*100+i*i%97)
	}
	for name, function := range map[string]scan.StepFunction{"rate": scan.StepRate, "avg": scan.StepAvg, "newest": scan.StepNewest} {
		b.Run(name, func(b *testing.B) {
			e := steps.NewEvaluator(b.Context(), &scan.Steps{FirstMs: 300_000, LastMs: 3900_000, StepMs: 60_000, RangeMs: 300_000, Function: function})
			for b.Loop() {
				e.Begin()
				if err := e.Add(times, values); err != nil {
					b.Fatal(err)
				}
				if _, _, err := e.End(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*samples/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

func BenchmarkFolder(b *testing.B) {
	request := &scan.Steps{FirstMs: 0, LastMs: 3600_000, StepMs: 60_000, RangeMs: 300_000, Function: scan.StepRate, Fold: &scan.Fold{Kind: scan.FoldMax, Names: []string{"region"}}}
	f := steps.NewFolder(request)
	var times []int64
	var values []float64
	for at := int64(0); at <= request.LastMs; at += request.StepMs {
		times, values = append(times, at), append(values, math.Sqrt(float64(at)))
	}
	key := scantest.Key("", "requests_total", "host", "host-00012", "region", "eu-1", "sensor", "s4")
	for b.Loop() {
		if _, err := f.Add(key, times, values); err != nil {
			b.Fatal(err)
		}
	}
}

// account notes what is charged. It refuses what is beyond most.
type account struct {
	held, most, top int64
	refusal         error // nil: errAccount
}

var errAccount = errors.New("the account is full")

func (a *account) Take(bytes int64) error {
	if a.held+bytes > a.most {
		return cmp.Or(a.refusal, errAccount)
	}
	a.held += bytes
	a.top = max(a.top, a.held)
	return nil
}

func (a *account) Await(_ context.Context, bytes int64) error { return a.Take(bytes) }

func (a *account) Turn() chan struct{} { return make(chan struct{}, 1) }

func (a *account) Give(bytes int64) { a.held -= bytes }

// TestHeldIsCharged: samples that a step can see, and groups, are charged while they are held, and a
// scan ends where its account is full.
func TestHeldIsCharged(t *testing.T) {
	const samples = 100_000
	long := func() (steps.Reader, *scan.Request) {
		r := request(scan.StepMax, nil)
		r.Steps.FirstMs, r.Steps.LastMs, r.Steps.RangeMs, r.ToMs = samples*1000, samples*1000, 2*samples*1000, samples*1000
		return &oneSeries{Memory: scantest.NewMemory(), samples: samples, inChunk: 1000, begin: func() {}}, r
	}
	groups := func(function scan.StepFunction, from int64) func() (steps.Reader, *scan.Request) {
		return func() (steps.Reader, *scan.Request) {
			m := scantest.NewMemory()
			for i := range 2000 {
				if err := m.Put(scantest.Key("", "m", "n", fmt.Sprint(i)), series.Sample{TimeMs: 50_000, Value: 1}); err != nil {
					t.Fatal(err)
				}
			}
			r := request(function, &scan.Fold{Kind: scan.FoldMax, Names: []string{"n"}})
			r.Steps.FirstMs, r.Steps.LastMs, r.FromMs = from, max(from, r.Steps.LastMs), 0
			return samplesOnly{m}, r
		}
	}
	for name, c := range map[string]struct {
		make  func() (steps.Reader, *scan.Request)
		least int64 // bytes that are held at one time
	}{
		"samples of a range": {long, 16 * (samples - 1)}, // without the staleness marker
		"groups":             {groups(scan.StepCount, 0), 128 << 10},
		"newest samples":     {groups(scan.StepNewest, 100_000), 128 << 10},
	} {
		reader, r := c.make()
		a := &account{most: 1 << 40}
		r.Limits.Account = a
		if err := steps.Scan(t.Context(), reader, r, func(int, *scan.Chunk) error { return nil }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.top < c.least-32<<10 || a.held != 0 {
			t.Errorf("%s: %d bytes were charged at most, want %d; %d are left", name, a.top, c.least, a.held)
		}
		reader, r = c.make()
		a = &account{most: c.least / 4}
		r.Limits.Account = a
		if err := steps.Scan(t.Context(), reader, r, func(int, *scan.Chunk) error { return nil }); !errors.Is(err, errAccount) || a.held != 0 {
			t.Errorf("%s: %v of a full account; %d bytes are left", name, err, a.held)
		}
	}
}

// TestNewestGroupsBeyondTheAccount: where the groups of newest samples are more than the account may ever have, samples are
// read, which needs fewer groups at once.
func TestNewestGroupsBeyondTheAccount(t *testing.T) {
	const groups, most = 20_000, 2 << 20 // one group takes 170 bytes or more
	m := scantest.NewMemory()
	for i := range groups {
		if err := m.Put(scantest.Key("", "m", "n", fmt.Sprint(i)), series.Sample{TimeMs: 50_000, Value: 1}); err != nil {
			t.Fatal(err)
		}
	}
	r := request(scan.StepNewest, &scan.Fold{Kind: scan.FoldMax, Names: []string{"n"}})
	r.Steps.FirstMs, r.Steps.LastMs, r.FromMs = 100_000, 100_000, 0
	a := &account{most: most, refusal: &scan.LimitError{What: "bytes", Limit: most}}
	r.Limits.Account = a
	rows := 0
	err := steps.Scan(t.Context(), samplesOnly{m}, r, func(int, *scan.Chunk) error { rows++; return nil })
	if err != nil || rows != groups || a.held != 0 {
		t.Errorf("%v, %d rows of %d; %d bytes are left", err, rows, groups, a.held)
	}
}
