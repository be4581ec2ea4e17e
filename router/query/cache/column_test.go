package cache

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// window is one window, as the oracle keeps it.
type window struct {
	number, count int64
	values        [5]float64
}

// TestColumn builds a column from chunks and other columns, and takes parts of it; the
// oracle is a list of windows.
func TestColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked := scan.Aggregate(rapid.IntRange(1, 63).Draw(t, "aggregates"))
		g := gridOf(&scan.Windows{OriginMs: rapid.Int64Range(-1000, 1000).Draw(t, "origin"), WidthMs: rapid.Int64Range(1, 700).Draw(t, "width")})
		c, all := newColumn(asked, series.Ref{Shard: 1, ID: 2}), []window(nil)
		next := rapid.Int64Range(-100, 100).Draw(t, "first")
		for range rapid.IntRange(1, 6).Draw(t, "chunks") {
			var chunk scan.Chunk
			columns, n := floatsOf(asked, &chunk)
			for range rapid.IntRange(0, 8).Draw(t, "windows") {
				next += rapid.Int64Range(1, 2).Draw(t, "gap")
				w := window{number: next}
				chunk.Times = append(chunk.Times, g.startMs(next))
				if asked&scan.AggregateCount != 0 {
					w.count = rapid.Int64Range(1, 3).Draw(t, "count")
					chunk.Count = append(chunk.Count, w.count)
				}
				for k := range n {
					w.values[k] = rapid.Float64().Draw(t, "value")
					*columns[k] = append(*columns[k], w.values[k])
				}
				all = append(all, w)
			}
			if rapid.Bool().Draw(t, "by a column") {
				other := newColumn(asked, c.ref)
				other.appendChunk(g, asked, &chunk, 0, len(chunk.Times))
				c.appendColumn(other, asked&scan.AggregateCount != 0)
			} else {
				c.appendChunk(g, asked, &chunk, 0, len(chunk.Times))
			}
		}
		within := span{rapid.Int64Range(-105, 210).Draw(t, "from"), 0}
		within.to = within.from + rapid.Int64Range(0, 200).Draw(t, "length")
		wanted := slices.DeleteFunc(slices.Clone(all), func(w window) bool { return w.number < within.from || w.number >= within.to })
		equalWindows(t, g, asked, c, within, wanted)
		part := c.part(within)
		if part.windows != len(wanted) {
			t.Fatalf("a part of %d windows, want %d", part.windows, len(wanted))
		}
		equalWindows(t, g, asked, part, span{-1 << 40, 1 << 40}, wanted)
		// What is appended to a part does not reach what it shares memory with.
		part.appendColumn(newerOf(g, asked, max(next, within.to)+1), asked&scan.AggregateCount != 0)
		equalWindows(t, g, asked, c, span{-1 << 40, 1 << 40}, all)
		if len(wanted) > 0 {
			equalWindows(t, g, asked, part, span{-1 << 40, wanted[len(wanted)-1].number + 1}, wanted)
		}
	})
}

// newerOf returns a column of one window.
func newerOf(g grid, asked scan.Aggregate, number int64) *column {
	chunk := scan.Chunk{Times: []int64{g.startMs(number)}, Count: []int64{9}}
	columns, n := floatsOf(asked, &chunk)
	for k := range n {
		*columns[k] = []float64{-77}
	}
	c := newColumn(asked, series.Ref{})
	c.appendChunk(g, asked, &chunk, 0, 1)
	return c
}

func equalWindows(t *rapid.T, g grid, asked scan.Aggregate, c *column, within span, want []window) {
	t.Helper()
	i, j := c.position(within.from), c.position(within.to)
	if j-i != len(want) {
		t.Fatalf("windows %d to %d, want %d", i, j, len(want))
	}
	if i == j {
		return
	}
	chunk := scan.Chunk{Times: []int64{1, 2, 3}, Sum: []float64{4}, Count: []int64{5}}
	c.fill(g, asked, i, j, &chunk)
	columns, n := floatsOf(asked, &chunk)
	for at, w := range want {
		if chunk.Times[at] != g.startMs(w.number) || g.at(chunk.Times[at]) != w.number || asked&scan.AggregateCount != 0 && chunk.Count[at] != w.count {
			t.Fatalf("window %d: %+v, want %+v", at, chunk, w)
		}
		for k := range n {
			if math.Float64bits((*columns[k])[at]) != math.Float64bits(w.values[k]) {
				t.Fatalf("window %d: %+v, want %+v", at, chunk, w)
			}
		}
	}
	if len(chunk.Times) != len(want) {
		t.Fatalf("%d windows, want %d", len(chunk.Times), len(want))
	}
}

// TestGrid compares numbers of windows with windows.
func TestGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.Int64Range(1, widthMsMax).Draw(t, "width")
		g := gridOf(&scan.Windows{OriginMs: rapid.Int64().Draw(t, "origin"), WidthMs: width})
		bound := rapid.OneOf(rapid.Int64Range(-3*width, 3*width), rapid.Int64Range(scan.TimeMsMin, scan.TimeMsMax), rapid.SampledFrom([]int64{scan.TimeMsMin, scan.TimeMsMax}))
		at := bound.Draw(t, "time")
		n := g.at(at)
		if start := g.startMs(n); start > at || at-start >= width {
			t.Fatalf("window %d begins at %d, not around %d", n, start, at)
		}
		fromMs, toMs, closedMs := bound.Draw(t, "from"), bound.Draw(t, "to"), bound.Draw(t, "closed")
		s := g.whole(fromMs, toMs, closedMs)
		inside := func(n int64) bool {
			start, end := g.startMs(n), g.startMs(n+1)
			return start >= fromMs && end-1 <= toMs && end <= closedMs
		}
		if s.empty() {
			return
		}
		if !inside(s.from) || !inside(s.to-1) || inside(s.from-1) || inside(s.to) {
			t.Fatalf("%+v of %d to %d, closed at %d", s, fromMs, toMs, closedMs)
		}
		if end := g.before(at); g.startMs(end) > at {
			t.Fatalf("window %d does not change at %d", end, at)
		}
	})
}

// TestKeys: the same questions have the same keys, others have others.
func TestKeys(t *testing.T) {
	base := func() *scan.Request {
		return &scan.Request{
			Selector: scan.Selector{Database: "d", Metric: "m", Matchers: []scan.Matcher{
				{Name: "a", Kind: scan.MatchIn, Values: []string{"x", "y"}}, {Name: "b", Values: []string{"z"}},
			}},
			Windows: &scan.Windows{WidthMs: 10, Aggregates: scan.AggregateSum},
		}
	}
	key := func(change func(*scan.Request)) string {
		r := base()
		change(r)
		return keyOf(r, gridOf(r.Windows))
	}
	same := key(func(*scan.Request) {})
	for name, change := range map[string]func(*scan.Request){
		"order of matchers": func(r *scan.Request) { slices.Reverse(r.Matchers) },
		"order of values":   func(r *scan.Request) { r.Matchers[0].Values = []string{"y", "x", "y"} },
		"whole windows":     func(r *scan.Request) { r.Windows.OriginMs = -50 },
		"range and limits":  func(r *scan.Request) { r.FromMs, r.ToMs, r.Limits.SeriesMax, r.Parallel = 1, 2, 3, 4 },
	} {
		if key(change) != same {
			t.Errorf("%s: another key", name)
		}
	}
	seen := map[string]string{same: "none"}
	for name, change := range map[string]func(*scan.Request){
		"database":   func(r *scan.Request) { r.Database = "" },
		"border":     func(r *scan.Request) { r.Database, r.Metric = "dm", "" },
		"any":        func(r *scan.Request) { r.MetricAny = true },
		"exact":      func(r *scan.Request) { r.Exact = true },
		"no shards":  func(r *scan.Request) { r.Shards = []uint16{} },
		"shards":     func(r *scan.Request) { r.Shards = []uint16{1} },
		"width":      func(r *scan.Request) { r.Windows.WidthMs = 20 },
		"origin":     func(r *scan.Request) { r.Windows.OriginMs = 1 },
		"aggregates": func(r *scan.Request) { r.Windows.Aggregates = scan.AggregateMax },
		"kind":       func(r *scan.Request) { r.Matchers[0].Kind = scan.MatchNotIn },
		"name":       func(r *scan.Request) { r.Matchers[1].Name = "c" },
		"value":      func(r *scan.Request) { r.Matchers[1].Values = []string{"w"} },
		"fewer":      func(r *scan.Request) { r.Matchers = r.Matchers[:1] },
		"joined":     func(r *scan.Request) { r.Matchers[0].Values = []string{"xy"} },
	} {
		k := key(change)
		if other, twice := seen[k]; twice {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
}

// TestPartsHoldWhatTheyCount: a small part does not keep the memory of the whole column,
// wherever it lies; one that is nearly all of it is no copy.
func TestPartsHoldWhatTheyCount(t *testing.T) {
	asked, g := scan.AggregateSum, grid{0, 10}
	var chunk scan.Chunk
	for i := range int64(1000) {
		chunk.Times, chunk.Sum = append(chunk.Times, g.startMs(i)), append(chunk.Sum, float64(i))
	}
	c := newColumn(asked, series.Ref{})
	c.appendChunk(g, asked, &chunk, 0, len(chunk.Times))
	for _, one := range []struct {
		within span
		shared bool
	}{{span{0, 10}, false}, {span{0, 500}, false}, {span{400, 410}, false}, {span{0, 990}, true}, {span{10, 1000}, false}} {
		part := c.part(one.within)
		if shared := &part.values[0] == &c.values[one.within.from]; shared != one.shared {
			t.Errorf("%+v: shared is %v", one.within, shared)
		}
	}
}
