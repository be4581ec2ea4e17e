package promql

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// TestFormatted compares with Prometheus' own formatter, over expressions that are made at random
// from all kinds of nodes, short and long.
func TestFormatted(t *testing.T) {
	t.Parallel()
	p := parser.NewParser(parser.Options{})
	compare := func(text string) {
		t.Helper()
		expr, err := p.ParseExpr(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := formatted(t.Context(), expr)
		if want := expr.Pretty(0); err != nil || got != want {
			t.Fatalf("%s:\n%s\nwant\n%s\n%v", text, got, want, err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		compare(randomVector(r, 1+r.IntN(7)))
	}
	for _, n := range []int{95, 96, 97, 98, 99, 100, 101} { // around the length of a line
		name := strings.Repeat("x", n)
		for _, text := range []string{name, "-" + name, "(" + name + ")", "sum(" + name + ")", name + "[5m:1m]", "-" + name + "^2", "abs(" + name + "[5m:])"} {
			if strings.HasSuffix(text, "[5m:])") {
				text = "max_over_time" + strings.TrimPrefix(text, "abs")
			}
			compare(text)
		}
	}
}

func randomVector(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{"up", `up{job="a",instance=~"b|c"}`, strings.Repeat("long_", 1+r.IntN(20)) + "name", "x offset 5m", "x @ start()"}[r.IntN(5)]
	}
	inner := func() string { return randomVector(r, depth-1-r.IntN(min(depth, 2))) }
	switch r.IntN(10) {
	case 0:
		return "sum by (job, instance) (" + inner() + ")"
	case 1:
		return "topk without (a) (" + strconv.Itoa(r.IntN(9)) + ", " + inner() + ")"
	case 2:
		return "(" + inner() + ")"
	case 3:
		return "-(" + inner() + ")"
	case 4:
		return "-" + inner()
	case 5:
		return "(" + inner() + ") * on (job) group_left (x) (" + inner() + ")"
	case 6:
		return inner() + " > bool " + strconv.Itoa(r.IntN(9))
	case 7:
		return "rate((" + inner() + ")[5m:1m] offset 1m)"
	case 8:
		return `label_replace(` + inner() + `, "a", "$1", "b", "(.*)")`
	}
	return "clamp(" + inner() + ", 1, -2)"
}

func TestFormattedHasABound(t *testing.T) {
	t.Parallel()
	// 4,000 terms, each indented by two more than the next, would be 32 MB.
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(strings.Repeat("x + ", 4000) + "x")
	if err != nil {
		t.Fatal(err)
	}
	var api *apiError
	if text, err := formatted(t.Context(), expr); !errors.As(err, &api) || api.status != 400 || len(text) > formattedBytesMax {
		t.Fatal(len(text), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := formatted(ctx, expr); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
