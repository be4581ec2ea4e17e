package load

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
)

// TestTextsOf: a pattern that is resolved into texts matches just these.
func TestTextsOf(t *testing.T) {
	for pattern, want := range map[string]string{
		"^a$": "a", "^(a|b)$": "a b", "^(?:a|b|)$": " a b", "^(web-[0-2]|db)$": "db web-0 web-1 web-2", "^(a|b)(c|d)$": "ac ad bc bd", `^a\.b$`: "a.b", "^$": "",
	} {
		got, ok := TextsOf(pattern)
		if !ok || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", pattern, got, ok)
		}
		for _, text := range got {
			if !regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%s does not match %q", pattern, text)
			}
		}
	}
	for _, pattern := range []string{"a", "^a", "a$", "^a*$", "^(?i)a$", "^.$", "^[^a]$", "^(a|b", `^a\b$`, "^a$|^b$", "(?m)^a$", "^[a-z]{4}$"} {
		if texts, ok := TextsOf(pattern); ok {
			t.Errorf("%s: %d texts", pattern, len(texts))
		}
	}
}

// FuzzTextsOf: what is resolved is what regexp matches.
func FuzzTextsOf(f *testing.F) {
	for _, seed := range []string{"^(a|b)$", "^a[bc]d$", "^(?:x|)y$", "^$", `^\Qa.b\E$`} {
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 100 {
			return
		}
		re, err := regexp.Compile(pattern)
		texts, ok := TextsOf(pattern)
		if err != nil || !ok || strings.ContainsRune(text, '\uFFFD') {
			return
		}
		if re.MatchString(text) != slices.Contains(texts, text) && strings.ToValidUTF8(text, "") == text {
			t.Fatalf("%q and %q: %q", pattern, text, texts)
		}
		for _, text := range texts[:min(len(texts), 100)] {
			if !re.MatchString(text) {
				t.Fatalf("%q does not match %q", pattern, text)
			}
		}
	})
}

// TestSplitCondition: what the index can decide becomes matchers.
func TestSplitCondition(t *testing.T) {
	m := &Measurement{Fields: []string{"f"}, Tags: []string{"dc", "host"}}
	for text, want := range map[string]struct {
		matchers, rest string
		fields         []string
	}{
		"host = 'a' AND (dc != 'x' AND f > 2)":            {"host 0 a;dc 1 x;", "f > 2", []string{"f"}},
		"host = 'a' OR host = 'b' OR host = 'c'":          {"host 2 a,b,c;", "", nil},
		"host = 'a' OR dc = 'b'":                          {"", "host = 'a' OR dc = 'b'", nil},
		"'a' = host":                                      {"host 0 a;", "", nil},
		"host =~ /^(a|b)$/ AND dc !~ /^x$/":               {"host 2 a,b;dc 3 x;", "", nil},
		"host =~ /a/":                                     {`host 6 (?s:.*)(?:a)(?s:.*);`, "", nil},
		"(f = 1 OR f = 2) AND host = 'a' AND f + 1 < f*2": {"host 0 a;", "f = 1 OR f = 2 AND f + 1 < f * 2", []string{"f"}},
		"host < 'a'":                                      {"", "host < 'a'", nil},
		"f = 'a'":                                         {"", "f = 'a'", []string{"f"}},
	} {
		expr, err := ql.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		c := SplitCondition(expr, m)
		var matchers strings.Builder
		for _, x := range c.Matchers {
			matchers.WriteString(x.Name + " " + string(rune('0'+int(x.Kind))) + " " + strings.Join(x.Values, ",") + ";")
		}
		rest := ""
		if c.Rest != nil {
			rest = c.Rest.String()
		}
		if matchers.String() != want.matchers || rest != want.rest || !slices.Equal(c.Fields, want.fields) {
			t.Errorf("%s: %s rest %s fields %q", text, matchers.String(), rest, c.Fields)
		}
	}
	if got := fieldMatcher("_field", []string{"value", "f"}); got.Kind != scan.MatchIn || strings.Join(got.Values, ",") != ",f,value" {
		t.Errorf("%+v", got)
	}
}
