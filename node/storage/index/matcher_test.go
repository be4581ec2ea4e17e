package index

import (
	"bytes"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
)

// TestAppendFolded: two values fold to the same if and only if they are equal
// without their case.
func TestAppendFolded(t *testing.T) {
	check := func(t rapid.TB, a, b []byte) {
		t.Helper()
		same := bytes.Equal(appendFolded(nil, a), appendFolded(nil, b))
		if want := bytes.EqualFold(a, b); same != want {
			t.Fatalf("%q and %q: %v, want %v", a, b, same, want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= utf8.RuneSelf && unicode.SimpleFold(r) == r {
			continue // stands for itself alone
		}
		a := []byte(string(r))
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			check(t, a, []byte(string(other)))
		}
		check(t, a, []byte(string(r+1)))
		check(t, a, []byte(string(r^0x20)))
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "A", "k", "K", "\u212a", "s", "\u017f", "ß", "ẞ", "\xff", "\xfe", "\ufffd", "İ", "i", "ı", "Σ", "σ", "ς", "0", "\xe2\x84"})
		draw := func(name string) (b []byte) {
			for _, p := range rapid.SliceOfN(part, 0, 3).Draw(t, name) {
				b = append(b, p...)
			}
			return b
		}
		check(t, draw("a"), draw("b"))
	})
}

// A quotation that is not ended is legal, and takes all that follows.
func TestRegexpQuotedToItsEnd(t *testing.T) {
	for text, cases := range map[string]map[string]bool{
		`\Qa.b)`:      {"a.b)": true, "axb)": false, "a.b": false},
		`x+\Q(`:       {"xx(": true, "(": false},
		`x|\Qy\`:      {"x": true, `y\`: true, "y": false},
		`[0-9]+\Q.*\`: {`12.*\`: true, `12`: false},
	} {
		m, err := compileMatcher(&scan.Matcher{Name: "a", Kind: scan.MatchRegexp, Values: []string{text}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for value, want := range cases {
			if m.holds([]byte(value)) != want {
				t.Errorf("%s holds for %s: %v", text, value, !want)
			}
		}
	}
}
