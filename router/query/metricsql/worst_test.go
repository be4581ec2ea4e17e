package metricsql

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/guard"
)

// worstTexts are the largest texts of their shapes that are let pass.
func worstTexts() map[string]string {
	const depth, operators, tokens = guard.DepthMax, guard.OperatorsMax, guard.TokensMax
	return map[string]string{
		"sums": "x" + strings.Repeat(" + x", operators), "powers": "x" + strings.Repeat(" ^ x", operators), "defaults": "x" + strings.Repeat(" default x", operators), "signs": strings.Repeat("-", operators) + "x",
		"rising": "x" + strings.Repeat(" default x or x and x == x + x * x ^ x", operators/8), "falling": "x" + strings.Repeat(" ^ x * x + x == x and x or x default x", operators/8),
		"calls": strings.Repeat("keep_last_value(", depth) + "x" + strings.Repeat(")", depth), "parentheses": strings.Repeat("(", depth) + "x" + strings.Repeat(")", depth),
		"arguments": "union(" + strings.Repeat("x,", tokens/2-10) + "x)", "filters": "x{" + strings.Repeat(`a="b",`, tokens/5) + "}", "constants": "1" + strings.Repeat(" + 1", operators),
		"offsets": "union(x" + strings.Repeat(" offset 1s, x", operators) + ")", "labels": "sum(x) by (" + strings.Repeat("a,", tokens/2-10) + "a)",
	}
}

func TestWorstTexts(t *testing.T) {
	for name, text := range worstTexts() {
		if _, err := Measure(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Compile(text, testSteps()); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// BenchmarkWorst shows what the worst texts cost that are let pass.
func BenchmarkWorst(b *testing.B) {
	for name, text := range worstTexts() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Measure(text); err != nil {
					b.Fatal(err)
				}
				if _, err := Compile(text, testSteps()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
