package promql

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// worstExpressions are the shapes that cost the most for what the guard counts, each as large as
// it lets pass.
func worstExpressions() map[string]string {
	const operators, tokens = guard.OperatorsMax, guard.TokensMax - 64
	chain := func(link, last string, n int) string { return strings.Repeat(link, n) + last }
	deep := func(open, last, close string, n int) string {
		return strings.Repeat(open, n) + last + strings.Repeat(close, n)
	}
	return map[string]string{
		"terms":              chain("x + ", "x", operators),
		"powers":             chain("x ^ ", "x", operators),
		"texts":              chain(`"a" + `, `"a"`, operators), // an error of type at each level
		"signs":              chain("-", "x", operators),
		"numbers":            chain("1 + ", "1", operators),
		"comparisons":        chain("x == bool ", "x", operators),
		"unions":             chain("x or ", "x", operators),
		"matched unions":     chain("x * on(a,b,c) group_left(d) ", "x", tokens/16),
		"subqueries":         "x" + strings.Repeat("[1m:1m]", operators),
		"ranges":             chain("rate(x[1m]) + ", "x", operators/2),
		"arguments":          "vector(" + chain("1, ", "1", tokens/2-5) + ")",
		"functions":          deep("ln(", "x", ")", guard.DepthMax),
		"brackets":           deep("(", "x", ")", guard.DepthMax),
		"functions of terms": deep("ln(", chain("x + ", "x", operators), ")", guard.DepthMax),
		"terms in brackets":  deep("(x + ", chain("x + ", "x", operators-guard.DepthMax), ")", guard.DepthMax),
		"groups":             "sum by (" + chain("a,", "a", tokens/2-10) + ") (x)",
		"matchers":           "{" + chain(`a="b",`, `a="b"`, tokens/4-10) + "}",
		"repetitions":        `{a=~"` + strings.Repeat("(?:a{1000})", 24) + `"}`,
		"optional":           `{a=~"` + strings.Repeat("(?:a{0,1000})", 12) + `"}`,
		"loops":              `{a=~"` + strings.Repeat("(?:.*a)*", 4_990) + `"}`,
		"groups in loops":    `{a=~"` + strings.Repeat("(.*a)*", 200) + `"}`,
		"literals":           `{a=~"` + chain("abcdefgh|", "a", 8_300) + `"}`,
		"literals in loops":  `{a=~".*(` + chain("abcdefgh|", "a", 8_300) + `).*"}`,
		"prefixes":           `{a=~"` + prefixes(370) + `"}`,
		"classes":            `{a=~"` + strings.Repeat(`\\pL`, 100) + `"}`,
		"repeated classes":   `{a=~"(\\pL{290})"}`,
		"folded":             `{a=~"(?i)` + strings.Repeat(`[B-\\x{1e942}]`, 2) + `"}`,
		"folded words":       `{a=~"(?i)` + chain("abcdefgh|", "a", 8_300) + `"}`,
		"contains":           `{a=~"` + strings.Repeat(".*a", 8_300) + `"}`,
		"many":               "{" + chain(`a=~".*a.*b{9}",`, `a="b"`, tokens/8) + "}",
		"long text":          `{a="` + strings.Repeat("a", guard.TextBytesMax-100) + `"}`,
	}
}

func prefixes(n int) string {
	var all []string
	for i := 1; i < n; i++ {
		all = append(all, strings.Repeat("a", i))
	}
	return strings.Join(all, "|")
}

// TestWorstIsLetPass serves the worst shapes that are within the limits.
func TestWorstIsLetPass(t *testing.T) {
	t.Parallel()
	h := newHandler(labOptions(t))
	for name, text := range worstExpressions() {
		if _, err := measure(text); err != nil {
			t.Error(name, err)
		}
		for _, path := range []string{"parse_query", "format_query"} {
			if got := post(h, path, url.Values{"query": {text}}); got.status >= http.StatusInternalServerError {
				t.Error(name, path, got)
			}
		}
	}
}

// TestMeasureRefuses has the inputs that ended the process or held it for long.
func TestMeasureRefuses(t *testing.T) {
	t.Parallel()
	nested := func(open string, n int) string { return strings.Repeat(open, n) + "x" + strings.Repeat(")", n) }
	beyond := map[string]string{
		"400,000 ln(":        nested("ln(", 400_000),
		"300,000 abs(":       nested("abs(", 300_000),
		"100,000 brackets":   nested("(", 100_000),
		"2,000 brackets":     nested("(", 2_000),
		"a level more":       nested("(", guard.DepthMax+1),
		"an operator more":   strings.Repeat("x + ", guard.OperatorsMax+1) + "x",
		"a sign more":        strings.Repeat("-", guard.OperatorsMax+1) + "x",
		"a subquery more":    "x" + strings.Repeat("[1m:1m]", guard.OperatorsMax+1),
		"a matcher too many": "{" + strings.Repeat(`a!="b",`, guard.TokensMax/4) + "}",
		"a long text":        `{a="` + strings.Repeat("a", guard.TextBytesMax) + `"}`,
		"an expression":      `{a=~"` + strings.Repeat("(a{1000})", 30<<10/9) + `"}`,
		"ten expressions":    "{" + strings.Repeat(`a!~"(a{1000})(a{1000})(a{1000})",`, 10) + "}",
		"in other quotes":    "{a=~`" + strings.Repeat("(a{1000})", 20) + "`} or {a=~'" + strings.Repeat("(a{1000})", 20) + "'}",
		"behind a comment":   "# )))\n" + nested("(", guard.DepthMax+1),
		"behind a text":      "label_replace(x, \")))\", " + nested("(", guard.DepthMax),
		"behind an escape":   `{a=~"` + strings.Repeat(`\x28a{1000})`, 30) + `"}`,
	}
	h := newHandler(labOptions(t))
	for name, text := range beyond {
		for _, path := range []string{"parse_query", "format_query", "query", "query_range?start=0&end=1&step=1", "query_exemplars"} {
			if got := post(h, path, url.Values{"query": {text}}); got.status != http.StatusBadRequest || !strings.Contains(got.body, guard.ErrTooLarge.Error()+":") {
				t.Error(name, path, got.status, got.body)
			}
		}
		for _, path := range []string{"series", "labels"} {
			if got := post(h, path, url.Values{"match[]": {"x", text}}); got.status != http.StatusBadRequest || !strings.Contains(got.body, guard.ErrTooLarge.Error()+":") {
				t.Error(name, path, got.status, got.body)
			}
		}
	}
	// All selectors of a request count together.
	if got := post(h, "series", url.Values{"match[]": slices.Repeat([]string{`{a=~"(a{1000})(a{1000})"}`}, 20)}); got.status != http.StatusBadRequest {
		t.Error(got)
	}
	if got := get(h, "label/x/values?match[]="+url.QueryEscape(nested("(", 200))); got.status != http.StatusBadRequest || !strings.Contains(got.body, guard.ErrTooLarge.Error()) {
		t.Error(got)
	}
}

// TestAnExactFit is at each limit, not beyond.
func TestAnExactFit(t *testing.T) {
	t.Parallel()
	h := newHandler(labOptions(t))
	for _, text := range []string{
		strings.Repeat("(", guard.DepthMax) + "1" + strings.Repeat(")", guard.DepthMax),
		strings.Repeat("1 + ", guard.OperatorsMax) + "1",
		`{a="b",__name__=~"` + strings.Repeat("a", guard.RegexpSizeMax-3) + `"}`,
		`{a="` + strings.Repeat("a", guard.TextBytesMax-len(`{a=""}`)-1) + `"}`,
	} {
		if got := post(h, "query", url.Values{"query": {text}}); got.status != http.StatusOK {
			t.Error(text[:20], got.status, got.body[:min(len(got.body), 300)])
		}
	}
}

// TestNoTextReachesAnother: what one query has prepared for the engine is found by no text that a
// client sends.
func TestNoTextReachesAnother(t *testing.T) {
	t.Parallel()
	h := newHandler(labOptions(t))
	secret, err := h.parser.ParseExpr("secret")
	if err != nil {
		t.Fatal(err)
	}
	text := h.prepared.put(secret)
	for _, prefix := range []string{"", "\x00", "\x00 ", " "} {
		for _, path := range []string{"parse_query", "format_query", "query", "query_range?start=0&end=1&step=1", "query_exemplars"} {
			if got := post(h, path, url.Values{"query": {prefix + text}}); strings.Contains(got.body, "secret") {
				t.Errorf("%s %q: %s", path, prefix+text, got.body)
			}
		}
		if got := post(h, "series", url.Values{"match[]": {prefix + text}}); strings.Contains(got.body, "secret") {
			t.Error(got)
		}
	}
	if expr, err := h.prepared.ParseExpr(text); err != nil || expr != secret {
		t.Error("the engine does not find it", expr, err)
	}
	if _, err := h.prepared.ParseExpr("secret"); !errors.Is(err, errNotPrepared) {
		t.Error("the engine parses texts", err)
	}
}

// TestParsingTakesAPlace: whoever parses or formats only waits for admission like a query, no
// longer than timeout says, and needs the right to read.
func TestParsingTakesAPlace(t *testing.T) {
	t.Parallel()
	o := labOptions(t)
	o.Admission = admission.New(admission.Options{RunningAllMax: 1, WaitingMax: 1})
	h := newHandler(o)
	_, entry, err := o.Admission.Begin(t.Context(), admission.Query{Dialect: "promql"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"parse_query", "format_query", "query_exemplars", "query"} {
		if got := get(h, path+"?query=up&timeout=10ms"); got.status != http.StatusServiceUnavailable {
			t.Error(path, got)
		}
	}
	entry.End(nil)
	for _, path := range []string{"parse_query", "format_query", "query_exemplars", "query"} {
		if got := get(h, path+"?query=up&timeout=1m"); got.status != http.StatusOK {
			t.Error(path, got)
		}
	}
}

// FuzzMeasure: what is let pass has a tree that is as small as the limits say, so that the limits
// hold whatever the lexer and the parser make of a text.
func FuzzMeasure(f *testing.F) {
	for _, text := range []string{`sum by (a) (rate(x{b=~"c.*"}[5m] offset 1m)) / -y ^ 2`, `x[5m:1m] @ start()`, "# a\n{'a'!~`b`}", `"\x41"`, "x{", "((("} {
		f.Add(text)
	}
	p := parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true})
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := measure(text); err != nil {
			return
		}
		expr, err := p.ParseExpr(text)
		if err != nil {
			return
		}
		var walk func(node parser.Node, depth int)
		walk = func(node parser.Node, depth int) {
			if depth > guard.DepthMax+guard.OperatorsMax {
				t.Fatalf("%q is nested deeper than its brackets and operators", text)
			}
			if selector, ok := node.(*parser.VectorSelector); ok {
				for _, matcher := range selector.LabelMatchers {
					if matcher.Type == labels.MatchRegexp || matcher.Type == labels.MatchNotRegexp {
						if err := guard.Regexp(matcher.Value); err != nil {
							t.Fatalf("%q: %v", text, err)
						}
					}
				}
			}
			for child := range parser.ChildrenIter(node) {
				walk(child, depth+1)
			}
		}
		walk(expr, 0)
		if _, err := formatted(t.Context(), expr); err != nil && !strings.Contains(err.Error(), "would be longer") {
			t.Fatal(err)
		}
	})
}

// BenchmarkWorst shows what the worst texts cost that are let pass.
func BenchmarkWorst(b *testing.B) {
	h := newHandler(labOptions(b))
	for name, text := range worstExpressions() {
		for _, path := range []string{"parse_query", "format_query", "query"} {
			b.Run(strings.ReplaceAll(name, " ", "-")+"/"+path, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if got := post(h, path, url.Values{"query": {text}}); strings.Contains(got.body, guard.ErrTooLarge.Error()+":") {
						b.Fatal(got.body)
					}
				}
			})
		}
	}
}
