package promql

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/guard"
)

func replaced(inner, replacement, expression string) string {
	return `label_replace(` + inner + `, "a", "` + replacement + `", "a", "` + expression + `")`
}

// TestMeasureRefusesLabels has what made gigabytes of a few kilobytes: expressions that the
// engine compiles, and labels that grow with each call.
func TestMeasureRefusesLabels(t *testing.T) {
	t.Parallel()
	nest := func(n int, around func(string) string) string {
		text := replaced("vector(1)", strings.Repeat("x", 100), "")
		for range n {
			text = around(text)
		}
		return text
	}
	h := newHandler(labOptions(t))
	for name, text := range map[string]string{
		"an expression":        replaced("up", "$1", strings.Repeat("(?:a{1000})?", 100)),
		"in brackets":          `label_replace(up, "a", "$1", "b", (("` + strings.Repeat("(?:a{1000})?", 100) + `")))`,
		"many expressions":     strings.Repeat(replaced("up", "$1", "(?:a{400})?")+" or ", 40) + "up",
		"a label that doubles": nest(40, func(s string) string { return replaced(s, "$1$1", "(.*)") }),
		"by other names":       nest(40, func(s string) string { return replaced(s, "$1${x}", "(?P<x>.*)") }),
		"by the whole":         nest(40, func(s string) string { return replaced(s, "$0$1", "(.*)") }),
		"by inner groups":      nest(40, func(s string) string { return replaced(s, "$1$2", "((.*))") }),
		"behind a sign":        nest(40, func(s string) string { return replaced(s, "$1…$1", "(.*)") }),
		"at once":              replaced(replaced("vector(1)", strings.Repeat("x", 10_000), ""), strings.Repeat("$1", 10_000), "(.*)"),
		"joined":               nest(40, func(s string) string { return `label_join(` + s + `, "a", "", "a", "a")` }),
	} {
		for _, path := range []string{"query", "query_range?start=0&end=1&step=1"} {
			if got := post(h, path, url.Values{"query": {text}}); got.status != http.StatusBadRequest || !strings.Contains(got.body, guard.ErrTooLarge.Error()+":") {
				t.Error(name, path, got.status, got.body[:min(len(got.body), 300)])
			}
		}
	}
	for name, text := range map[string]string{
		"thirty calls":    nest(30, func(s string) string { return replaced(s, "$1-$2", "(.*?)[-:](.*)") }),
		"a list of names": replaced("up", "$1", strings.Repeat("host-0123456789|", 300)+"(x)"),
		"joins":           nest(2, func(s string) string { return `label_join(` + s + `, "a", "/", "a", "b", "c", "d", "e")` }),
		"an invalid one":  replaced("up", "$1", "("),
	} {
		if got := post(h, "query", url.Values{"query": {text}}); strings.Contains(got.body, guard.ErrTooLarge.Error()) {
			t.Error(name, got.status, got.body)
		}
	}
}
