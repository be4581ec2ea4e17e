package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// minutes asks for sums by minute.
func minutes(fromMs, toMs int64) *scan.Request {
	return &scan.Request{
		Selector: scan.Selector{Metric: "m"}, FromMs: fromMs, ToMs: toMs,
		Windows: &scan.Windows{WidthMs: 60_000, Aggregates: scan.AggregateSum | scan.AggregateCount},
	}
}

func fill(t testing.TB, m *chronicle, seriesCount int, fromMs, toMs int64) {
	t.Helper()
	for i := range seriesCount {
		for timeMs := fromMs; timeMs < toMs; timeMs += 20_000 {
			if err := m.Put(scantest.Key("", "m", "n", fmt.Sprint(i)), series.Sample{TimeMs: timeMs, Value: float64(timeMs/20_000 + int64(i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// check compares an answer with that of the memory.
func check(t testing.TB, cached scan.Source, m *chronicle, r *scan.Request) {
	t.Helper()
	got, err := scantest.Collect(context.Background(), cached, r)
	if err != nil {
		t.Fatal(err)
	}
	want, err := scantest.Collect(context.Background(), m.Memory, r)
	if err != nil {
		t.Fatal(err)
	}
	if tt, ok := t.(*testing.T); ok {
		compareChunks(tt, got, want)
	}
}

const hourMs = 3_600_000

// TestOnlyWhatIsNewIsRead: the second time an answer is kept, and then only the windows
// around it are read; a late sample has those read again that lie behind it.
func TestOnlyWhatIsNewIsRead(t *testing.T) {
	c, now := opened(Options{Bytes: 1 << 20})
	m := newChronicle()
	cached := c.Source(m)
	fill(t, m, 3, 0, hourMs)
	now.Store(hourMs)
	var read []int64 // the ranges that were scanned
	m.seen = func(r *scan.Request) { read = append(read, r.FromMs, r.ToMs) }
	expect := func(what string, r *scan.Request, want ...int64) {
		t.Helper()
		read = nil
		check(t, cached, m, r)
		if fmt.Sprint(read) != fmt.Sprint(want) {
			t.Fatalf("%s: read %v, want %v", what, read, want)
		}
	}
	expect("the first time", minutes(0, hourMs+5), 0, hourMs+5)
	expect("it is kept", minutes(0, hourMs+5), 0, hourMs+5)
	expect("a tail", minutes(0, hourMs+5), hourMs, hourMs+5)
	expect("all is kept", minutes(0, hourMs-1))
	expect("a front", minutes(90_000, hourMs-1), 90_000, 119_999)
	expect("both", minutes(90_000, hourMs-2), 90_000, 119_999, hourMs-60_000, hourMs-2)
	expect("an origin some windows away", &scan.Request{
		Selector: scan.Selector{Metric: "m"}, ToMs: hourMs - 1,
		Windows: &scan.Windows{OriginMs: -7 * 60_000, WidthMs: 60_000, Aggregates: scan.AggregateSum | scan.AggregateCount},
	})
	now.Store(hourMs + 130_000)
	expect("more is closed", minutes(0, hourMs+130_000), hourMs, hourMs+130_000)
	expect("and kept", minutes(0, hourMs+130_000), hourMs+120_000, hourMs+130_000)
	late := series.Sample{TimeMs: hourMs - 90_000, Value: 7}
	if err := m.Put(scantest.Key("", "m", "n", "late"), late); err != nil {
		t.Fatal(err)
	}
	expect("a late one", minutes(0, hourMs+130_000), hourMs-120_000, hourMs+130_000)
	expect("is kept, too", minutes(0, hourMs+130_000), hourMs+120_000, hourMs+130_000)
	if _, err := m.Delete(context.Background(), &scan.Selector{Metric: "m"}, -5, 70_000); err != nil {
		t.Fatal(err)
	}
	expect("a delete", minutes(0, hourMs+130_000), 0, hourMs+130_000)
	expect("is kept, too", minutes(0, hourMs+130_000), hourMs+120_000, hourMs+130_000)
	m.run.Store(2)
	expect("another leader", minutes(0, hourMs+130_000), 0, hourMs+130_000)
	expect("is kept, too", minutes(0, hourMs+130_000), hourMs+120_000, hourMs+130_000)
	m.run.Store(0)
	expect("nothing is known", minutes(0, hourMs+130_000), 0, hourMs+130_000)
	expect("and nothing kept", minutes(0, hourMs+130_000), 0, hourMs+130_000)
	m.run.Store(3)
	expect("until it is known again", minutes(20*60_000, hourMs), 20*60_000, hourMs)
	expect("a wider request", minutes(0, hourMs), 0, hourMs)
	expect("is what is kept", minutes(20*60_000, hourMs-1))
	expect("as a narrow one ends early", minutes(-hourMs, -1), -hourMs, -1)
	expect("it does not end that", minutes(20*60_000, hourMs-1))
}

// TestWhatIsNotKept goes to the source as it is.
func TestWhatIsNotKept(t *testing.T) {
	c, now := opened(Options{Bytes: 1 << 20})
	m := newChronicle()
	cached := c.Source(m)
	fill(t, m, 2, 0, hourMs)
	now.Store(hourMs)
	few, digest, samples, backwards := minutes(0, 15*60_000-1), minutes(0, hourMs), minutes(0, hourMs), minutes(hourMs, 0)
	digest.Windows.Aggregates, samples.Windows = scan.AggregateDigest|scan.AggregateCount, nil
	for range 3 {
		for _, r := range []*scan.Request{few, digest, samples, backwards} {
			check(t, cached, m, r)
		}
	}
	if entries, bytes := c.size(); entries != 0 || bytes != 0 || m.asked != 0 {
		t.Fatalf("%d entries, %d bytes, asked %d times", entries, bytes, m.asked)
	}
	if plain := scan.Source(m.Memory); c.Source(plain) != plain {
		t.Fatal("a source without history is wrapped")
	}
}

// TestLimitsHoldForWhatIsKept: series, windows and the bytes of fronts.
func TestLimitsHoldForWhatIsKept(t *testing.T) {
	c, now := opened(Options{Bytes: 1 << 20})
	m := newChronicle()
	cached := c.Source(m)
	fill(t, m, 10, 0, hourMs)
	now.Store(hourMs)
	for _, parallel := range []int{0, 3} {
		for range 3 {
			check(t, cached, m, minutes(0, hourMs-1))
		}
		for what, limits := range map[string]scan.Limits{"series": {SeriesMax: 9}, "samples": {SamplesMax: 599}, "bytes": {BytesMax: 300}} {
			r := minutes(0, hourMs-1)
			r.Parallel, r.Limits = parallel, limits
			if what == "bytes" {
				r.FromMs = 30_000
			}
			var limit *scan.LimitError
			if _, err := scantest.Collect(context.Background(), cached, r); !errors.As(err, &limit) || limit.What != what {
				t.Errorf("%s: %v", what, err)
			}
		}
		r := minutes(0, hourMs-1)
		r.Limits = scan.Limits{SeriesMax: 10, SamplesMax: 600}
		if found, err := scantest.Collect(context.Background(), cached, r); err != nil || len(found) != 10 {
			t.Fatalf("%d series, %v", len(found), err)
		}
	}
}

// TestVisitorsEndIt: an error of a visitor comes back, ErrStopped ends without one, and a
// context that has ended gives its error, wherever the series come from.
func TestVisitorsEndIt(t *testing.T) {
	c, now := opened(Options{Bytes: 1 << 20})
	m := newChronicle()
	cached := c.Source(m)
	fill(t, m, 10, 0, hourMs)
	now.Store(hourMs)
	check(t, cached, m, minutes(0, hourMs-1))
	check(t, cached, m, minutes(0, hourMs-1))
	wrong := errors.New("wrong")
	for _, parallel := range []int{1, 4} {
		for _, toMs := range []int64{hourMs - 1, hourMs - 30_000} {
			for stopAt := range 12 {
				for _, with := range []error{scan.ErrStopped, wrong} {
					r := minutes(0, toMs)
					r.Parallel = parallel
					var mu sync.Mutex
					visits := 0
					err := cached.Scan(context.Background(), r, func(int, *scan.Chunk) error {
						mu.Lock()
						defer mu.Unlock()
						if visits++; visits > stopAt {
							return with
						}
						return nil
					})
					if want := map[error]error{scan.ErrStopped: nil, wrong: wrong}[with]; visits > stopAt && !errors.Is(err, want) || visits > stopAt+parallel {
						t.Fatalf("%v after %d of %d visits, want %v", err, visits, stopAt, want)
					}
				}
			}
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := scantest.Collect(ended, cached, minutes(0, hourMs-1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	check(t, cached, m, minutes(0, hourMs-1))
}

// TestManyAtOnce: readers, writers of late samples, and entries that push each other out.
func TestManyAtOnce(t *testing.T) {
	c, now := opened(Options{Bytes: 40_000})
	m := newChronicle()
	cached := c.Source(m)
	fill(t, m, 8, 0, hourMs)
	now.Store(hourMs)
	var group sync.WaitGroup
	for seed := range uint64(6) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for range 60 {
				r := minutes(random.Int64N(2)*30_000, hourMs-1-random.Int64N(5)*70_000)
				r.Windows.OriginMs = random.Int64N(3) * 10_000
				r.Parallel = random.IntN(3)
				_, err := scantest.Collect(context.Background(), cached, r)
				if err == nil && seed < 2 && random.IntN(3) == 0 {
					now.Store(hourMs - random.Int64N(hourMs/3))
					err = m.Put(scantest.Key("", "m", "n", fmt.Sprint(random.IntN(12))), series.Sample{TimeMs: random.Int64N(hourMs), Value: random.Float64()})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for origin := range int64(3) { // whatever is kept now is right
		r := minutes(0, hourMs-1)
		r.Windows.OriginMs = origin * 10_000
		check(t, cached, m, r)
	}
	if _, bytes := c.size(); bytes > 40_000 || counted(c.metrics.hits) == 0 {
		t.Fatalf("%d bytes, %g hits", bytes, counted(c.metrics.hits))
	}
}

// TestBytesAreCounted: what the cache believes to hold is what its entries have, after
// entries have grown, were cut, trimmed and pushed out.
func TestBytesAreCounted(t *testing.T) {
	c, now := opened(Options{Bytes: 90_000})
	m := newChronicle()
	cached := c.Source(m)
	random := rand.New(rand.NewPCG(5, 1))
	fill(t, m, 6, 0, hourMs)
	trimmed := false
	for round := range int64(150) {
		nowMs := hourMs + round*50_000
		now.Store(nowMs)
		fill(t, m, 6, nowMs, nowMs+50_000)
		if random.IntN(8) == 0 {
			fill(t, m, 7, nowMs-random.Int64N(hourMs), nowMs)
		}
		r := minutes(nowMs-hourMs, nowMs)
		r.Windows.OriginMs = random.Int64N(3) * 10_000
		check(t, cached, m, r)
		sum := int64(0)
		for at := c.mu.order.Front(); at != nil; at = at.Next() {
			e := at.Value.(*entry)
			sum += e.bytes
			actual := entryBytes + int64(len(e.key))
			for _, s := range e.mu.series {
				actual += s.bytes() + int64(len(s.key))
			}
			if actual != e.bytes {
				t.Fatalf("round %d: an entry has %d bytes, believes %d", round, actual, e.bytes)
			}
			if width := e.mu.span.to - e.mu.span.from; width > 80 {
				t.Fatalf("round %d: %d windows are kept", round, width)
			} else if width > 60 {
				trimmed = true
			}
		}
		if sum != c.mu.bytes || sum > c.options.Bytes {
			t.Fatalf("round %d: %d bytes, believes %d", round, sum, c.mu.bytes)
		}
	}
	if !trimmed || counted(c.metrics.hits) < 25 {
		t.Fatalf("the test tests little: %g hits", counted(c.metrics.hits))
	}
}

// TestSeriesOfOnePart: series that are only in the front, only among what is kept, only
// behind it, and in two of these.
func TestSeriesOfOnePart(t *testing.T) {
	c, now := opened(Options{Bytes: 1 << 20})
	m := newChronicle()
	cached := c.Source(m)
	now.Store(hourMs)
	for i := range 8 {
		for part, timeMs := range []int64{40_000, hourMs / 2, hourMs + 3} {
			if i>>part&1 == 1 {
				if err := m.Put(scantest.Key("", "m", "n", fmt.Sprint(i)), series.Sample{TimeMs: timeMs, Value: float64(i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, parallel := range []int{0, 3} {
		for range 4 {
			r := minutes(30_000, hourMs+5)
			r.Parallel = parallel
			check(t, cached, m, r)
		}
	}
	if hits := counted(c.metrics.hits); hits != 6 {
		t.Fatalf("%g hits", hits)
	}
}

// TestMarksBelongToTheirWindows: marks and windows that were read for another end than the
// present one change nothing.
func TestMarksBelongToTheirWindows(t *testing.T) {
	e := &entry{grid: grid{0, 10}, asked: scan.AggregateCount}
	e.mu.span, e.mu.marks = span{0, 5}, []scan.Mark{{Index: 1}}
	newer := []scan.Mark{{Index: 2}}
	chunk := scan.Chunk{Times: []int64{40}, Count: []int64{1}}
	one := newColumn(e.asked, series.Ref{})
	one.appendChunk(e.grid, e.asked, &chunk, 0, 1)
	e.confirm(4, newer)
	if bytes := e.extend(span{4, 9}, newer, []map[string]*column{{"k": one}}); bytes != 0 || e.mu.marks[0].Index != 1 || e.mu.span.to != 5 || len(e.mu.series) != 0 {
		t.Fatalf("%+v", e)
	}
	e.confirm(5, newer)
	if e.mu.marks[0].Index != 2 {
		t.Fatal("marks of the present end were not taken")
	}
}
