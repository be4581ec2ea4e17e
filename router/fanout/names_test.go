package fanout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMergeNames compares with a sort.
func TestMergeNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) []string {
			list := rapid.SliceOfN(rapid.StringMatching("[a-c]{0,2}"), 0, 8).Draw(t, what)
			slices.Sort(list)
			return list
		}
		a, b := draw("a"), draw("b")
		want := slices.Concat(a, b)
		slices.Sort(want)
		if got := mergeNames(a, b); !slices.Equal(got, slices.Compact(want)) {
			t.Fatalf("%q and %q: %q", a, b, got)
		}
	})
}
