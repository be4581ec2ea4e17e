package metricsql

import (
	"errors"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/guard"
)

func testSteps() Steps { return Steps{FirstMs: 60_000, LastMs: 600_000, StepMs: 30_000} }

// TestCompile: what PromQL has stays, and placeholders stand for the rest.
func TestCompile(t *testing.T) {
	for text, want := range map[string]string{
		"a default 0":                             `{__metricsql__="0"}`,
		"rate(a) + rate(b[5m])":                   `{__metricsql__="0"} + rate({__name__="b"}[300000ms])`,
		"rate(a[2i]) + 1":                         `rate({__name__="a"}[60000ms]) + 1`,
		"a - (b - c) - d":                         `{__name__="a"} - ({__name__="b"} - {__name__="c"}) - {__name__="d"}`,
		"(a ^ b) ^ c ^ d":                         `({__name__="a"} ^ {__name__="b"}) ^ {__name__="c"} ^ {__name__="d"}`,
		"-a * 2":                                  `0 - {__name__="a"} * 2`,
		"a * -2":                                  `{__name__="a"} * (-2)`,
		"2 * (a + b) and c":                       `2 * ({__name__="a"} + {__name__="b"}) and {__name__="c"}`,
		"a / on (x) group_left (y) b":             `{__name__="a"} / on (x) group_left (y) {__name__="b"}`,
		`a{b=~"c|d", e!="f", g!~"h"} offset 1m`:   `{__name__="a",b=~"c|d",e!="f",g!~"h"} offset 60000ms`,
		"sum(a) by (x) > bool 1":                  `sum by (x) ({__name__="a"}) > bool 1`,
		"max_over_time(sum(a)[5m:1m])":            `max_over_time(sum ({__name__="a"})[300000ms:60000ms])`,
		"a @ end() offset 1m":                     `{__name__="a"} offset 60000ms @ end()`,
		`{"a.b", "c.d"="e"}`:                      `{__name__="a.b","c.d"="e"}`,
		"start() + end() + step()":                `60 + 600 + 30`,
		"median(a)":                               `quantile (0.5, {__name__="a"})`,
		"keep_last_value(rollup_rate(a)) + c":     `{__metricsql__="1"} + {__name__="c"}`,
		`label_replace(a, "x", "$1", "y", "(.)")`: `label_replace({__name__="a"}, "x", "$1", "y", "(.)")`,
		"histogram_quantile(0.9, sum(rate(x_bucket[5m])) by (le))": `histogram_quantile(0.9, sum by (le) (rate({__name__="x_bucket"}[300000ms])))`,
		"count_values('x', a)": `count_values ("x", {__name__="a"})`,
	} {
		m, err := Measure(text)
		if err != nil || m == nil {
			t.Error(text, err)
			continue
		}
		p, err := Compile(text, testSteps())
		if err != nil {
			t.Error(text, err)
			continue
		}
		if p.Text != want {
			t.Errorf("%s:\n got %s\nwant %s", text, p.Text, want)
		}
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(p.Text); err != nil {
			t.Errorf("%s: %s: %v", text, p.Text, err)
		}
	}
}

// TestUnsupported: what there is not is refused by name.
func TestUnsupported(t *testing.T) {
	for text, want := range map[string]string{
		"WITH (x = 1) x": "template with", "wIth(x = 1) x": "template with", "ru(a, b)": "template ru", "ttf (a)": "template ttf", `a{b="c"+"d"}`: "putting strings together",
		`a{b=~"(a{1000" + "}){1000}"}`: "putting strings together", `a{b="c" or d="e"}`: "or between the filters", `a\-b`: `\ in names`, "a{b=~`\\d`}": "backquotes",
		"sum(a) limit 3": "limit of an aggregation", "outliersk(1, a)": "outliersk", "zscore(a)": "zscore", "(a + b) offset 5m": "an offset", "rollup(sum(a))": "other than a selector",
		"rate(sum(a))": "other than a selector", "max_over_time((a default 0)[5m:1m])": "within a subquery", "a + b keep_metric_names": "keep_metric_names", "abs(a) keep_metric_names": "keep_metric_names",
		"histogram_over_time(a[5m])": "histogram_over_time", "label_map(a, 'b', 'c', 'd')": "label_map", "a @ (1 + b)": "@ with an expression", "a + on(x) group_left(*) b": "group_left (*)",
		"topk_max(a, b)": "topk_max", "range_quantile(a, b)": "range_quantile",
	} {
		_, err := Measure(text)
		if err == nil {
			_, err = Compile(text, testSteps())
		}
		var refused *UnsupportedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRefused: what is wrong is said.
func TestRefused(t *testing.T) {
	for _, text := range []string{
		"(", "rate()", "rollup(a, 'nosuch')", "rollup_candlestick(a, 'min')", "keep_last_value(a, b)", "label_set(a, 'b')", "label_set(a, b, c)", "label_set()", `a{__metricsql__="0"}`,
		`label_set(a, "__metricsql__", "0")`, "sum(a) by (__metricsql__)", "sum(a) by (*)", "rollup(a[-5m])", "rollup(a[0s])", "a[5000y] default 0", "nosuch(a)", "range_quantile(0.5)", "a default", "rate(a, 5)",
	} {
		_, err := Measure(text)
		if err == nil {
			_, err = Compile(text, testSteps())
		}
		if err == nil {
			t.Error(text)
		}
	}
}

// TestMeasure: what is too large is refused before it is parsed.
func TestMeasure(t *testing.T) {
	for name, text := range map[string]string{
		"depth": strings.Repeat("(", guard.DepthMax+1), "operators": "a" + strings.Repeat(" default a", guard.OperatorsMax+1), "signs": strings.Repeat("-", guard.OperatorsMax+1) + "a",
		"tokens": "union(" + strings.Repeat("a,", guard.TokensMax) + "a)", "text": strings.Repeat(" ", guard.TextBytesMax+1), "regexp": `a{b=~"` + strings.Repeat("(a{1000})", 200) + `"}`,
		"escaped regexp": `a{b=~'` + strings.Repeat(`(\x61{1000})`, 200) + `'}`, "negative regexp": "a{b!~ # no\n`" + strings.Repeat("(a{1000})", 200) + "`}",
	} {
		if _, err := Measure(text); !errors.Is(err, guard.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "#", "'", `"\`, "a{b='c#d'} # e", strings.Repeat("(", guard.DepthMax) + "a" + strings.Repeat(")", guard.DepthMax), "metric_with(a)", "with", "ru + ttf"} {
		if _, err := Measure(text); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// FuzzCompile: what Measure lets pass is parsed to a tree that is no larger than the limits say, and compiled or refused; and what it is
// compiled to passes the measure again.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"keep_last_value(rate(a{b=~'c|d'}[5i])) default -1", `rollup_rate(a[5m] offset 1h, "max") if (b, c)`, "topk_avg(3, sum(a) by (b)) # c", "a[1h:5m] @ start() ifnot 2 ^ 3 ^ 4",
		`label_set(alias(a, "b"), 'c', "d") keep_metric_names`, "sum(rate(x)) by (y) limit 5", "range_quantile(0.5, a{b!~`c`}) > bool 1e3", "10Ki + 5m + $__interval", "(a or b and c) unless on (d) e",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Measure(text); err != nil {
			return
		}
		tree, err := metricsql.Parse(text)
		if err != nil {
			return
		}
		nodes := 0
		metricsql.VisitAll(tree, func(e metricsql.Expr) {
			nodes++
			metric, ok := e.(*metricsql.MetricExpr)
			if !ok {
				return
			}
			for _, list := range metric.LabelFilterss {
				for _, filter := range list {
					if filter.IsRegexp && guard.Regexp(filter.Value) != nil {
						t.Fatalf("%q: %v", text, guard.Regexp(filter.Value))
					}
				}
			}
		})
		if most := 4 * (guard.TokensMax + guard.OperatorsMax); nodes > most {
			t.Fatalf("%q has %d parts", text, nodes)
		}
		if p, err := Compile(text, testSteps()); err == nil && p.Text == "" {
			t.Fatalf("%q is compiled to nothing", text)
		}
	})
}
