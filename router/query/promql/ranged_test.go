package promql

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// TestTakeOut: which calls are evaluated while series arrive. That their answers are the
// engine's is for package e2e/promdiff, and for TestTakenOutNotes.
func TestTakeOut(t *testing.T) {
	s := span{start: time.Unix(1000, 0), end: time.Unix(1130, 0), step: time.Minute}
	for _, c := range []struct {
		text  string
		taken int
	}{
		{"rate(up[5m])", 1}, {"sum(rate(up[5m])) / on() sum by (a) (avg_over_time(up{b=~\"c\"}[1h] offset 1m))", 2},
		{"label_replace(-(changes(up[1m])), \"a\", \"\", \"b\", \"\") > bool 1", 1}, {"timestamp(last_over_time({__name__=\"up\"}[1m]))", 1},
		{"up", 0}, {"rate(up[5m] @ 100)", 0}, {"rate(up[5m] @ end())", 0}, {"rate({__name__=~\"up|down\"}[5m])", 0}, {"rate({a=\"b\"}[5m])", 0},
		{"max_over_time(rate(up[1m])[5m:1m])", 0}, {"absent(rate(up[1m]))", 0}, {"absent_over_time(up[1m])", 0}, {"quantile_over_time(0.5, up[5m])", 0},
		{"sort(rate(up[5m]) or absent(up))", 0}, {"predict_linear(up[5m], 1)", 0},
	} {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(c.text)
		if err != nil {
			t.Fatal(c.text, err)
		}
		before := expr.String()
		changed, calls := takeOut(expr, s)
		if len(calls) != c.taken || (changed.String() == before) != (c.taken == 0) {
			t.Errorf("%s: %d taken out: %s", c.text, len(calls), changed)
		}
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr("rate(up[5m] offset 1m)")
	if err != nil {
		t.Fatal(err)
	}
	_, calls := takeOut(expr, s)
	if want := (grid{firstMs: 940_000, stepMs: 60_000, lastMs: 1060_000, widthMs: 300_000}); len(calls) != 1 || calls[0].grid != want {
		t.Errorf("%+v", calls[0].grid)
	}
}

// TestTakenOutNotes: notes have the places of the text that the client sent, also when
// something was taken out, and a text that stands for an expression is used once.
func TestTakenOutNotes(t *testing.T) {
	h := newHandler(labOptions(t))
	got := get(h, "query?query=sum(up)%20%2B%20sum(rate(up[4m]))")
	if !strings.Contains(got.body, `\"up\" (1:20)`) {
		t.Error(got.body)
	}
	h.prepared.list.Range(func(text, _ any) bool {
		t.Errorf("%q is left", text)
		return true
	})
	if got := get(h, "query?query=%001"); got.status != 400 {
		t.Error(got)
	}
	for _, target := range []string{"query?query=%7B" + rangedLabel + "=%22rate(up[4m])%22%7D", "query?query=rate(up[4m])%20%2B%20%7B" + rangedLabel + "=%22rate(up[4m])%22%7D"} {
		if got := get(h, target); got.status != 200 || !strings.Contains(got.body, `"result":[]`) {
			t.Error(target, got)
		}
	}
}

// TestSameLabels: keys of other dialects may differ by what is no label here, and then a
// function has the engine's error, whoever evaluates it.
func TestSameLabels(t *testing.T) {
	for _, other := range []string{"empty", "__name__", "__type__"} {
		o, m := labOptions(t), scantest.NewMemory()
		put(t, m, "", "m", []float64{1, 2, 3}, "a", "1")
		put(t, m, "", "m", []float64{4, 5, 6}, "a", "1", other, map[bool]string{false: "x"}[other == "empty"])
		o.Source = m
		h := newHandler(o)
		for _, text := range []string{"rate(m[5m])", "sum(rate(m[5m]))", "1 + increase(m[5m])"} {
			for _, statistics := range []string{"", "true"} { // of which the engine does all
				got := get(h, "query?query="+url.QueryEscape(text)+"&stats="+statistics)
				if got.status != 422 || !strings.Contains(got.body, errSameLabels.Error()) {
					t.Errorf("%s with %s, statistics %q: %d %s", text, other, statistics, got.status, got.body)
				}
			}
		}
		if got := get(h, "query?query=rate(m%7Ba!=%221%22%7D[5m])"); got.status != 200 {
			t.Error(got)
		}
	}
}
