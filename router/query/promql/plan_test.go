package promql

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
)

// seen returns, by its definition, which samples the times of a grid can see.
func seen(g grid, times []int64) []int64 {
	kept := map[int64]bool{}
	for at := g.firstMs; at <= g.lastMs; at += g.stepMs {
		last := int64(-1)
		for i, t := range times {
			if t > at-g.widthMs && t <= at {
				if last = int64(i); !g.lastOnly {
					kept[t] = true
				}
			}
		}
		if g.lastOnly && last >= 0 {
			kept[times[last]] = true
		}
	}
	var list []int64
	for _, t := range times {
		if kept[t] {
			list = append(list, t)
		}
	}
	return list
}

// TestThin: a grid keeps all that can be seen, and nothing else of whole ranges. With
// lastOnly, each step sees the same newest sample as before.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grid{
			firstMs: rapid.Int64Range(-50, 50).Draw(t, "first"), stepMs: rapid.Int64Range(1, 20).Draw(t, "step"),
			widthMs: rapid.Int64Range(1, 40).Draw(t, "width"), lastOnly: rapid.Bool().Draw(t, "last only"),
		}
		g.lastMs = g.firstMs + rapid.Int64Range(0, 80).Draw(t, "length")
		times := rapid.SliceOfNDistinct(rapid.Int64Range(-100, 200), 0, 60, rapid.ID[int64]).Draw(t, "times")
		slices.Sort(times)
		values := make([]float64, len(times))
		for i := range values {
			values[i] = float64(times[i]) * 10
		}
		var gotTimes []int64
		var gotValues []float64
		var next int64
		request, ok := g.request(scan.StepNewest)
		if !ok {
			t.Fatalf("%+v has no steps", g)
		}
		newest := steps.NewEvaluator(context.Background(), request)
		for from := 0; from < len(times); {
			to := from + rapid.IntRange(1, len(times)-from).Draw(t, "stretch")
			if g.lastOnly {
				err := newest.Add(times[from:to], values[from:to])
				if gotTimes, gotValues, _ = newest.End(); err != nil {
					t.Fatal(err)
				}
			} else {
				gotTimes, gotValues = g.thin(gotTimes, gotValues, &next, times[from:to], values[from:to])
			}
			from = to
		}
		if want := seen(g, times); !slices.Equal(gotTimes, want) {
			t.Fatalf("%+v of %v:\n got %v\nwant %v", g, times, gotTimes, want)
		}
		for i, at := range gotTimes {
			if gotValues[i] != float64(at)*10 {
				t.Fatalf("the value at %d is %v", at, gotValues[i])
			}
		}
	})
}

// TestPlan: which expressions let the grid be known, and which need an order.
func TestPlan(t *testing.T) {
	p := parser.NewParser(parser.Options{EnableExperimentalFunctions: true, EnableExtendedRangeSelectors: true})
	for _, c := range []struct {
		text  string
		known bool
		order order
	}{
		{"up", true, orderNone}, {"rate(up[5m] offset 1m)", true, orderNone}, {"up @ 100", true, orderNone},
		{"sum(up)", true, orderFixed}, {"sort(up)", true, orderFixed}, {"up + on(a) group_left topk(1, up)", true, orderFixed},
		{"rate(up[5m:1m])", false, orderNone}, {"info(up)", false, orderNone}, {"rate(up[5m] smoothed)", false, orderNone}, {"up anchored", false, orderNone},
		{"timestamp((up @ 100 offset 5s))", false, orderNone}, {"timestamp(up @ end())", false, orderNone}, {"timestamp(up offset 5s)", true, orderNone},
	} {
		expr, err := p.ParseExpr(c.text)
		if c.text == "up anchored" && err != nil {
			continue // the parser may refuse it
		}
		if err != nil {
			t.Fatal(c.text, err)
		}
		if got := planOf(expr, time.Minute); got.gridKnown != c.known || got.order != c.order || got.lookbackMs != 60_000 {
			t.Errorf("%s: %+v", c.text, got)
		}
	}
	g, ok := plan{lookbackMs: 300_000, gridKnown: true}.grid(&storage.SelectHints{Start: 1000_001, End: 1900_000, Step: 60_000})
	if g, ok := (plan{lookbackMs: 300_000, gridKnown: true}).grid(&storage.SelectHints{Start: 1000_001, End: 1310_000, Step: 60_000}); !ok || g.lastMs != 1300_000 || !g.single() {
		t.Errorf("the last step is %+v", g)
	}
	if want := (grid{firstMs: 1300_000, lastMs: 1900_000, stepMs: 60_000, widthMs: 300_000, lastOnly: true}); !ok || g != want || g.single() {
		t.Errorf("%+v", g)
	}
}

// TestIterator: Seek and Next are what a walk from the first sample on gives.
func TestIterator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfNDistinct(rapid.Int64Range(0, 100), 0, 30, rapid.ID[int64]).Draw(t, "times")
		slices.Sort(times)
		c := &column{times: times, values: make([]float64, len(times))}
		it := c.Iterator(nil)
		at := -1
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			var got chunkenc.ValueType
			if rapid.Bool().Draw(t, "seek") {
				to := rapid.Int64Range(-5, 105).Draw(t, "to")
				got = it.Seek(to)
				for at = max(at, 0); at < len(times) && times[at] < to; {
					at++
				}
			} else {
				got = it.Next()
				at = min(at+1, len(times))
			}
			if at >= len(times) {
				if got != chunkenc.ValNone || it.Next() != chunkenc.ValNone {
					t.Fatalf("%v at its end: %v", times, got)
				}
				return
			}
			if ms, _ := it.At(); got != chunkenc.ValFloat || ms != times[at] || it.AtT() != ms || it.Err() != nil {
				t.Fatalf("%v: at %d, want %d", times, ms, times[at])
			}
		}
		if c.Iterator(it) != it {
			t.Fatal("an iterator is not used again")
		}
	})
}
