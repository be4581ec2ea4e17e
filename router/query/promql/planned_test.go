package promql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// unplanned returns what the engine makes of all samples that its hints ask for: nothing is taken out of the
// expression, and nothing thinned.
func unplanned(t interface{ Fatal(...any) }, h *handler, text string, lookback time.Duration, s span) string {
	expr, err := h.parser.ParseExpr(text)
	if err != nil {
		t.Fatal(text, err)
	}
	source := &queryable{source: h.shell.Reader(scan.Consistency{}).Source, plan: plan{order: orderFixed}}
	prepared, opts := h.prepared.put(expr), promql.NewPrometheusQueryOpts(false, lookback)
	var q promql.Query
	if s.step == 0 {
		q, err = h.engine.NewInstantQuery(context.Background(), source, opts, prepared, s.start)
	} else {
		q, err = h.engine.NewRangeQuery(context.Background(), source, opts, prepared, s.start, s.end, s.step)
	}
	if err != nil {
		t.Fatal(text, err)
	}
	defer q.Close()
	r := q.Exec(context.Background())
	if r.Err != nil {
		return r.Err.Error()
	}
	if v, ok := r.Value.(promql.Vector); ok { // comes in no order
		slices.SortFunc(v, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
	}
	return fmt.Sprint(r.Value.Type(), r.Value.String(), r.Warnings)
}

// someExpression draws an expression over metric m, of so many levels at most.
func someExpression(t *rapid.T, levels int) string {
	moved := rapid.SampledFrom([]string{"", "", " offset 7s", " offset -9s", " @ 50", " @ start()", " @ end() offset 3s", " @ 60 offset -5s"}).Draw(t, "moved")
	inner := func() string { return someExpression(t, levels-1) }
	kind := rapid.IntRange(0, 8).Draw(t, "kind")
	if levels == 0 {
		kind %= 2
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"m", `m{g="0"}`, `{__name__=~"m|n"}`}).Draw(t, "selector") + moved
	case 1:
		names := []string{"rate", "delta", "changes", "sum_over_time", "last_over_time", "absent_over_time", "stddev_over_time"}
		return fmt.Sprintf("%s(m[%dms]%s)", rapid.SampledFrom(names).Draw(t, "function"), rapid.IntRange(1, 60_000).Draw(t, "width"), moved)
	case 2:
		return fmt.Sprintf("%s (%s)", rapid.SampledFrom([]string{"count", "min by (g)", "sum by (g)", "max without (n)", "group by (__name__)"}).Draw(t, "aggregation"), inner())
	case 3, 4:
		return fmt.Sprintf("%s(%s)", rapid.SampledFrom([]string{"timestamp", "absent", "-", "abs"}).Draw(t, "call"), inner())
	case 5, 6:
		return fmt.Sprintf("(%s) %s (%s)", inner(), rapid.SampledFrom([]string{"+ on (g, n)", "or", "unless"}).Draw(t, "operator"), inner())
	case 7:
		return fmt.Sprintf("last_over_time((%s)[20s:7s]%s)", inner(), moved)
	}
	return "(" + inner() + ")"
}

// TestPlanned: what is read, and where it is evaluated, changes no answer.
func TestPlanned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomSeries(t, "", func(series.Key, series.Sample) {})
		h := newHandler(Options{Source: m, SamplesMax: 100_000, Parallel: 2})
		text := someExpression(t, 2)
		lookback := time.Duration(rapid.IntRange(1, 30_000).Draw(t, "lookback")) * time.Millisecond
		start := time.UnixMilli(rapid.Int64Range(-10_000, 120_000).Draw(t, "start"))
		s := span{start: start, end: start}
		if rapid.Bool().Draw(t, "range") {
			s.step = time.Duration(rapid.IntRange(1, 50_000).Draw(t, "step")) * time.Millisecond
			s.end = start.Add(min(100*s.step, time.Duration(rapid.IntRange(0, 150_000).Draw(t, "length"))*time.Millisecond))
		}
		got, _ := evaluated(t, h, "", text, "", lookback, s)
		want := unplanned(t, h, text, lookback, s)
		same := func(text string) string { // of zeros the engine leaves the first, and it names two of several duplicates
			text, _, _ = strings.Cut(text, "duplicate series")
			return strings.ReplaceAll(text, "-0 @", "0 @")
		}
		if same(got) != same(want) {
			t.Fatalf("%s over %+v, lookback %v:\n%s\nwant\n%s", text, s, lookback, got, want)
		}
	})
}

// TestTimestampWithoutOffset: with @, timestamp looks at the time without the offset, at samples that were
// read with it.
func TestTimestampWithoutOffset(t *testing.T) {
	m := scantest.NewMemory()
	for _, at := range []int64{44_000, 61_000} {
		if err := m.Put(scantest.Key("", "m"), series.Sample{TimeMs: at, Value: 1}); err != nil {
			t.Fatal(err)
		}
	}
	h := newHandler(Options{Source: m, SamplesMax: 1000})
	at := span{start: time.UnixMilli(0), end: time.UnixMilli(0)}
	const text = "timestamp(m @ 60 offset -5s)"
	got, _ := evaluated(t, h, "", text, "", 21_001*time.Millisecond, at)
	if want := unplanned(t, h, text, 21_001*time.Millisecond, at); got != want || !strings.Contains(got, "44 @") {
		t.Errorf("%s, the engine: %s", got, want)
	}
}
