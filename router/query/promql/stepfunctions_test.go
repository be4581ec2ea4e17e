package promql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/steps"
)

// someValue is a number of any kind: of a counter, decimal, enormous, tiny, infinite, none.
func someValue() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-3, 1000), func(n int) float64 { return float64(n) }),
		rapid.Map(rapid.IntRange(-3, 1000), func(n int) float64 { return float64(n) / 10 }),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1e308, -1e308, math.MaxFloat64, -math.MaxFloat64, 5e-324, 1e16, -1e16, 1}),
		rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(value.StaleNaN)}),
		rapid.Float64(),
	)
}

// someValues are a window's: mostly of one kind, as functions leave their common ways when
// there is one infinite number among them.
func someValues(atLeast, atMost int) *rapid.Generator[[]float64] {
	return rapid.OneOf(
		rapid.SliceOfN(someValue(), atLeast, atMost),
		rapid.SliceOfN(rapid.Map(rapid.IntRange(-20, 1000), func(n int) float64 { return float64(n) / 10 }), atLeast, atMost),
		rapid.SliceOfN(rapid.Float64Range(-1e300, 1e300), atLeast, atMost),
		rapid.SliceOfN(rapid.SampledFrom([]float64{1e308, -1e308, 1.7e308, 3}), atLeast, atMost),
	)
}

// sameBits: NaN is NaN, of whatever payload.
func sameBits(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// engineWindow is what the engine's function gives for a window.
func engineWindow(c *rangedCall, times []int64, values []float64, stepMs int64) (float64, bool) {
	var points []promql.FPoint
	for i, t := range times {
		points = append(points, promql.FPoint{T: t, F: values[i]})
	}
	helper := promql.EvalNodeHelper{Ts: stepMs}
	out, _ := promql.FunctionCalls[c.call.Func.Name](nil, promql.Matrix{{Floats: points}}, c.call.Args, &helper)
	if len(out) == 0 {
		return 0, false
	}
	return out[0].F, true
}

func callOf(t interface{ Fatal(...any) }, text string, s span) *rangedCall {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatal(text, err)
	}
	_, calls := takeOut(expr, s)
	if len(calls) != 1 {
		t.Fatal(text, "is not taken out")
	}
	return calls[0]
}

// TestWindowFunctions: the functions over columns, which nodes run as well, give the bits of the
// engine's, over numbers of any kind.
func TestWindowFunctions(t *testing.T) {
	for name := range rangedFunctions {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				const endMs, widthMs = 1_000_000, 300_000
				c := callOf(t, name+"(m[5m] offset 1m)", span{start: time.UnixMilli(endMs + 60_000), end: time.UnixMilli(endMs + 60_000)})
				values := slices.DeleteFunc(someValues(1, 40).Draw(t, "values"), value.IsStaleNaN)
				if len(values) == 0 {
					return
				}
				times := make([]int64, len(values))
				room := int64(widthMs / len(values))
				for i := range times { // as large as they come near the edges of the window
					times[i] = endMs - widthMs + 1 + int64(i)*room + rapid.Int64Range(0, room-1).Draw(t, "time")
				}
				request, ok := c.grid.request(c.function)
				if !ok {
					t.Fatal("no steps")
				}
				got, gotOK := steps.Value(request, times, values, endMs)
				want, wantOK := engineWindow(c, times, values, endMs+60_000)
				if gotOK != wantOK || gotOK && !sameBits(got, want) {
					t.Fatalf("%s of %v at %v: %v %v, the engine has %v %v", name, values, times, got, gotOK, want, wantOK)
				}
			})
		})
	}
}

// TestEvaluator: an evaluator gives, at each step, what the engine's function gives for the
// samples of the step's range, whatever the pieces are that they come in.
func TestEvaluator(t *testing.T) {
	names := []string{"avg_over_time", "rate", "deriv", "count_over_time", "last_over_time"}
	rapid.Check(t, func(t *rapid.T) {
		start := time.UnixMilli(rapid.Int64Range(-50, 50).Draw(t, "first"))
		step := time.Duration(rapid.IntRange(1, 40).Draw(t, "step")) * time.Millisecond
		end := start.Add(step * time.Duration(rapid.IntRange(0, 20).Draw(t, "steps")))
		text := fmt.Sprintf("%s(m[%dms])", rapid.SampledFrom(names).Draw(t, "function"), rapid.IntRange(1, 60).Draw(t, "width"))
		c := callOf(t, text, span{start: start, end: end, step: step})
		request, ok := c.grid.request(c.function)
		if !ok {
			t.Fatal("no steps")
		}
		e := steps.NewEvaluator(context.Background(), request)
		for range 3 { // it is used for one series after the other
			checkEvaluator(t, c, e)
			e.Begin()
		}
	})
}

func checkEvaluator(t *rapid.T, c *rangedCall, e *steps.Evaluator) {
	dense := rapid.SliceOfNDistinct(rapid.Int64Range(-100, 300), 0, 200, rapid.ID[int64])
	sparse := rapid.SliceOfNDistinct(rapid.Int64Range(-100, 1000), 0, 10, rapid.ID[int64])
	times := rapid.OneOf(dense, sparse).Draw(t, "times")
	slices.Sort(times)
	values := rapid.SliceOfN(someValue(), len(times), len(times)).Draw(t, "values")
	for from := 0; from < len(times); {
		to := from + rapid.IntRange(1, len(times)-from).Draw(t, "piece")
		if err := e.Add(times[from:to], values[from:to]); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	gotTimes, gotValues, err := e.End()
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]float64{}
	for i, at := range gotTimes {
		if i > 0 && at <= gotTimes[i-1] {
			t.Fatalf("%v: steps out of order", gotTimes)
		}
		got[at] = gotValues[i]
	}
	given := false
	for at := c.grid.firstMs; at <= c.grid.lastMs; at += c.grid.stepMs {
		var seenTimes []int64
		var seenValues []float64
		for i, ms := range times {
			if ms > at-c.grid.widthMs && ms <= at && !value.IsStaleNaN(values[i]) {
				seenTimes, seenValues = append(seenTimes, ms), append(seenValues, values[i])
			}
		}
		want, wanted := 0.0, false
		if len(seenTimes) > 0 {
			want, wanted = engineWindow(c, seenTimes, seenValues, at)
		}
		value, ok := got[at]
		switch {
		case wanted && !(ok && sameBits(value, want)):
			t.Fatalf("at %d: %v %v, want %v of %v at %v", at, value, ok, want, seenValues, seenTimes)
		case !wanted && ok != given || !wanted && ok && !steps.IsStale(value):
			t.Fatalf("at %d: %v %v, want none; the step before has one: %v", at, value, ok, given)
		}
		given = wanted
	}
}
