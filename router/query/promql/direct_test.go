package promql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// randomSeries are some series of metric m of a database, with samples at random times up to 100 s.
// They are put elsewhere, too.
func randomSeries(t *rapid.T, database string, elsewhere func(series.Key, series.Sample)) *scantest.Memory {
	m := scantest.NewMemory()
	for i := range rapid.IntRange(0, 6).Draw(t, "series") {
		key := series.AppendKey(nil, []byte(database), []byte("m"), []series.Tag{
			{Name: []byte("g"), Value: fmt.Append(nil, i%2)}, {Name: []byte("n"), Value: fmt.Append(nil, i)},
		})
		times := rapid.SliceOfNDistinct(rapid.Int64Range(0, 100), 0, 40, rapid.ID[int64]).Draw(t, "times")
		for _, at := range times {
			v := rapid.SampledFrom([]float64{1, 2.5, -3, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), 1e308, -1e308, 1e-9, math.Float64frombits(value.StaleNaN)}).Draw(t, "value")
			sample := series.Sample{TimeMs: at * 1000, Value: v}
			if err := m.Put(key, sample); err != nil {
				t.Fatal(err)
			}
			elsewhere(key, sample)
		}
	}
	return m
}

// evaluated returns the result of an expression as text, and reports whether it was direct.
// Statistics are wanted of the engine only.
func evaluated(t interface{ Fatal(...any) }, h *handler, database, text, statistics string, lookback time.Duration, s span) (result string, direct bool) {
	r, direct := evaluate(t, h, database, text, statistics, lookback, s)
	return resultText(r), direct
}

func evaluate(t interface{ Fatal(...any) }, h *handler, database, text, statistics string, lookback time.Duration, s span) (result *promql.Result, direct bool) {
	expr, err := h.parser.ParseExpr(text)
	if err != nil {
		t.Fatal(text, err)
	}
	x := &exchange{ctx: context.Background(), reader: h.shell.Reader(scan.Consistency{}), database: database}
	q, err := h.newQuery(x, question{expr: expr, statistics: statistics, lookback: lookback, span: s})
	if err != nil {
		t.Fatal(text, err)
	}
	defer q.Close()
	_, direct = q.(*directQuery)
	r := *q.Exec(context.Background())
	switch v := r.Value.(type) { // the engine takes its own back
	case promql.Vector:
		r.Value = slices.Clone(v)
	case promql.Matrix:
		matrix := slices.Clone(v)
		for i := range matrix {
			matrix[i].Floats = slices.Clone(matrix[i].Floats)
		}
		r.Value = matrix
	}
	return &r, direct
}

func resultText(r *promql.Result) string {
	if r.Err != nil {
		return r.Err.Error()
	}
	if v, ok := r.Value.(promql.Vector); ok { // comes in no order
		slices.SortFunc(v, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
	}
	return fmt.Sprint(r.Value.Type(), r.Value.String(), r.Warnings)
}

// TestDirect: what is evaluated without the engine has the engine's result.
func TestDirect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomSeries(t, "", func(series.Key, series.Sample) {})
		checkDirect(t, m, m, "")
	})
}

// checkDirect asks for something of a source whose data are those of a memory.
func checkDirect(t *rapid.T, source scan.Source, memory *scantest.Memory, database string) {
	texts := []string{
		"m", "(m)", "((m offset 7s))", "m offset -3s", `{__name__=~"m|n"}`, "absent_metric",
		"sum(m)", "avg by (g) (m)", "min without (n) ((m offset 7s))", "max by (__name__, none) (m)", "count(m)", "max without (n) (rate(m[30s]))", "min(m) by (g)", `count by (g, __name__) ({__name__=~"m|n"})`,
		"group without (g) (increase(m[20s] offset 7s))", "max by (__name__, g) (last_over_time(m[9s]))", "count by (__name__) (deriv(m[40s]))", "group by (n, g) (m)",
		"(sum without (g) (rate(m[30s])))", "avg(avg_over_time(m[20s]))", "count by (g) (last_over_time(m[3s]))", "sum(absent_metric)",
		"avg_over_time(m[20s])", "(rate(m[30s] offset 5s))", "last_over_time(m[3s])", "deriv(m[40s])",
	}
	o := Options{Source: source, SamplesMax: rapid.SampledFrom([]int{20, 1000}).Draw(t, "samples max"), Parallel: 2}
	h := newHandler(o)
	o.Source = memory
	engine := newHandler(o)
	text := rapid.SampledFrom(texts).Draw(t, "text")
	lookback := time.Duration(rapid.IntRange(1, 30_000).Draw(t, "lookback")) * time.Millisecond
	start := time.UnixMilli(rapid.Int64Range(-10_000, 120_000).Draw(t, "start"))
	s := span{start: start, end: start}
	if rapid.Bool().Draw(t, "range") {
		s.step = time.Duration(rapid.IntRange(1, 50_000).Draw(t, "step")) * time.Millisecond
		s.end = start.Add(min(100*s.step, time.Duration(rapid.IntRange(0, 150_000).Draw(t, "length"))*time.Millisecond))
	}
	got, direct := evaluated(t, h, database, text, "", lookback, s)
	result, engines := evaluate(t, engine, database, text, "true", lookback, s)
	want := resultText(result)
	if strings.Contains(text, "sum(") || strings.Contains(text, "sum without") || strings.Contains(text, "avg(") || strings.Contains(text, "avg by") {
		want = exactText(t, engine, database, text, lookback, s, result)
	}
	if !direct || engines {
		t.Fatal(text, direct, engines)
	}
	if strings.Contains(want, "too many samples") { // of which the engine counts those of ranges, too
		return
	}
	if strings.HasPrefix(text, "min") || strings.HasPrefix(text, "max") { // the engine leaves the zero that comes first
		got, want = strings.ReplaceAll(got, "-0 @", "0 @"), strings.ReplaceAll(want, "-0 @", "0 @")
	}
	if got != want {
		t.Fatalf("%s over %+v, lookback %v:\n%s\nwant\n%s", text, s, lookback, got, want)
	}
}

// TestNotDirect: what only the engine understands.
func TestNotDirect(t *testing.T) {
	h := newHandler(labOptions(t))
	for _, text := range []string{"up @ 100", "up @ end()", "-up", "sum(-up)", "topk(1, up)", "quantile(0.5, up)", "stddev(up)", "sum(up) + 1", "1", "up[1m]", "rate(up[1m:10s])", "up + up", "abs(up)"} {
		if _, direct := evaluated(t, h, "", text, "", time.Minute, span{start: time.UnixMilli(labMs), end: time.UnixMilli(labMs)}); direct {
			t.Error(text)
		}
	}
}

// TestDirectSamplesMax: the bound on the samples of a result holds without the engine.
func TestDirectSamplesMax(t *testing.T) {
	o := labOptions(t)
	o.SamplesMax = 5
	h := newHandler(o)
	s := span{start: time.UnixMilli(labMs - 240_000), end: time.UnixMilli(labMs), step: time.Minute}
	for text, want := range map[string]string{`up{instance="a:9100"}`: "a:9100", "up": "too many samples", "count_over_time(up[2m])": "too many samples"} {
		if got, direct := evaluated(t, h, "", text, "", time.Minute, s); !direct || !strings.Contains(got, want) {
			t.Errorf("%s: %v %s", text, direct, got)
		}
	}
}
