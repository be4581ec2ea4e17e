package index

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
)

// TestShapes: what is found of expressions that people write.
func TestShapes(t *testing.T) {
	for text, want := range map[string]regexpShape{
		`h_[0-9]*77`:      {prefix: "h_", suffix: "77"},
		`.*web.*prod.*-1`: {suffix: "-1", inside: "prod"},
		`^web.+$`:         {prefix: "web", rest: restSome},
		`web.*`:           {prefix: "web", rest: restAny},
		`(?i)web.*x`:      {},
		`.*(a|b)`:         {},
		`.*foo$`:          {suffix: "foo"},
		`a\bc`:            {prefix: "a", suffix: "c"},
		`x*?é`:            {suffix: "é"},
		"a.*\ufffd":       {prefix: "a"},
	} {
		if got := shapeOf(text); got.literals != nil || got.prefix != want.prefix || got.suffix != want.suffix || got.inside != want.inside || got.rest != want.rest {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string][]string{`^a(b|c)$`: {"ab", "ac"}, `^$`: {""}, `abc`: {"abc"}} {
		if got := shapeOf(text); !slices.Equal(got.literals, want) {
			t.Errorf("%s: %q, want %q", text, got.literals, want)
		}
	}
}

// TestRegexpsAgreeWithTheLibrary: whatever is known of an expression's shape, it holds
// for the values that Go's regexp matches as a whole.
func TestRegexpsAgreeWithTheLibrary(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"a", "b", "ab", ".*", ".+", "[ab]", "[0-9]*", "(a|b)", "(ab|)", "a?", "^", "$", `\b`, "(?i:a)", "(?i)", "é", `\n`, "(a.*b)", "x{2}", "\ufffd", `\A`, `\z`, "(?m:$)", "(?s:.)",
	})
	value := rapid.StringOfN(rapid.SampledFrom([]rune("abAB0é\nx\ufffd")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(t, "expression"), "")
		want, err := regexp.Compile(`\A(?:` + text + `)\z`)
		if err != nil {
			t.Skip("not an expression")
		}
		m, err := compileMatcher(&scan.Matcher{Name: "n", Kind: scan.MatchRegexp, Values: []string{text}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 8 {
			v := value.Draw(t, "value")
			if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
				v += "\xff"
			}
			if m.holds([]byte(v)) != want.MatchString(v) {
				t.Fatalf("%q holds for %q: %v", text, v, !want.MatchString(v))
			}
		}
	})
}

// TestMergeRuns compares with a sort.
func TestMergeRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		var starts []int
		for range rapid.IntRange(0, 9).Draw(t, "runs") {
			run := rapid.SliceOfNDistinct(rapid.SampledFrom(strings.Split("a b c d e f g h aa ab", " ")), 1, 6, rapid.ID[string]).Draw(t, "run")
			slices.Sort(run)
			starts = append(starts, len(list))
			list = append(list, run...)
		}
		want := slices.Clone(list)
		slices.Sort(want)
		if got := mergeRuns(list, starts); !slices.Equal(got, slices.Compact(want)) {
			t.Fatalf("%q", got)
		}
	})
}
