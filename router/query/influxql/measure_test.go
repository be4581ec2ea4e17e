package influxql

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/guard"
)

// TestMeasure has a text on each side of each limit.
func TestMeasure(t *testing.T) {
	t.Parallel()
	nested := func(n int) string {
		return "SELECT " + strings.Repeat("(", n) + "x" + strings.Repeat(")", n) + " FROM m"
	}
	subqueries := func(n int) string {
		return strings.Repeat("SELECT x FROM (", n) + "SELECT x FROM m" + strings.Repeat(")", n)
	}
	chain := func(n int) string { return "SELECT " + strings.Repeat("x + ", n) + "x FROM m" }
	where := func(condition string) string { return "SELECT x FROM m WHERE " + condition }
	parts := strings.Repeat("(a{1000})", 10)
	for name, text := range map[string]string{
		"brackets": nested(guard.DepthMax), "subqueries": subqueries(guard.DepthMax), "chain": chain(guard.OperatorsMax),
		"list":     where("host =~ /^(" + strings.TrimSuffix(strings.Repeat("server-with-a-long-name-0001|", 2000), "|") + ")$/"),
		"division": where("x / 2 > 1 / (y / 3)"), "comments": where("/* a /' */ x > 1 -- ((('"), "parts": where("a =~ /" + parts + "/ OR b !~ /" + parts + "/"),
	} {
		if err := measure(text, nil); err != nil {
			t.Error(name, err)
		}
		if _, err := ql.ParseQuery(text); err != nil {
			t.Error(name, err)
		}
	}
	beyond := nested(guard.DepthMax + 1)[len("SELECT "):]
	for name, text := range map[string]string{
		"brackets": nested(guard.DepthMax + 1), "100,000 brackets": nested(100_000), "subqueries": subqueries(guard.DepthMax + 1),
		"chain": chain(guard.OperatorsMax + 1), "signs": "SELECT " + strings.Repeat("- ", guard.OperatorsMax+1) + "x FROM m",
		"unions":                   where(strings.Repeat("a = 'b' OR ", guard.OperatorsMax) + "a = 'b'"),
		"text":                     where("x = '" + strings.Repeat("a", guard.TextBytesMax) + "'"),
		"repetitions":              where("a =~ /" + strings.Repeat("(a{1000})", 30) + "/"),
		"parts":                    where("a =~ /" + parts + "/ OR b !~ /" + parts + "/ AND c=~/" + parts + "/"),
		"source":                   "SELECT x FROM /" + strings.Repeat(parts, 3) + "/",
		"source of a policy":       "SELECT x FROM db.rp./" + strings.Repeat(parts, 3) + "/",
		"fields":                   "SELECT a, /" + strings.Repeat(parts, 3) + "/ FROM m",
		"argument":                 "SELECT mean(/" + strings.Repeat(parts, 3) + "/) FROM m",
		"dimension":                "SELECT x FROM m GROUP BY a, /" + strings.Repeat(parts, 3) + "/",
		"key":                      "SHOW TAG VALUES WITH KEY =~ /" + strings.Repeat(parts, 3) + "/",
		"behind a text":            "SELECT ')))', " + beyond,
		"behind an expression":     "SELECT /)))'/, " + beyond,
		"behind a division":        "SELECT x / y, 'a/', " + beyond,
		"behind a cast":            "SELECT x::field /'/', " + beyond,
		"behind a comment":         "SELECT x, -- )))'\n" + beyond,
		"behind a return":          "SELECT x, -- )))'\r" + beyond,
		"behind a longer comment":  where("/*/'*/ " + beyond),
		"behind an escaped slash":  where(`a =~ /\\/'/ AND ` + beyond),
		"behind an escaped quote":  where(`a = '\'(' AND ` + beyond),
		"behind a joined name":     `SELECT select"/" /'/', ` + beyond,
		"behind the wildcard":      "SELECT * /'/', " + beyond,
		"behind another statement": "SHOW DATABASES; " + nested(guard.DepthMax+1),
	} {
		if err := measure(text, nil); !errors.Is(err, guard.ErrTooLarge) {
			t.Error(name, err)
		}
	}
	if err := measure("SHOW DATABASES --\x00 x", nil); !errors.Is(err, errNoText) {
		t.Error(err)
	}
}

// TestMeasureOfParameters counts an expression wherever it is used.
func TestMeasureOfParameters(t *testing.T) {
	t.Parallel()
	h := newHandler(Options{})
	params := fmt.Sprintf(`{"a":{"regex":%q},"b b":{"regex":%q}}`, strings.Repeat("(a{1000})", 10), strings.Repeat("(a{1000})", 10))
	for text, fits := range map[string]bool{
		"SELECT x FROM m WHERE a =~ $a OR b !~ $a": true, `SELECT x FROM m WHERE a =~ $"b b" OR b !~ $a`: true,
		"SELECT x FROM m WHERE a =~ $a OR b !~ $a OR c =~ $a": false, `SELECT x FROM m WHERE a =~ $"b b" OR b !~ $a OR c =~ $"b b"`: false,
	} {
		if _, err := h.parse(t.Context(), text, params); (err == nil) != fits {
			t.Error(text, err)
		}
	}
	if _, err := h.parse(t.Context(), "SELECT x FROM m", strings.Repeat("[", 1_000_000)); err == nil {
		t.Error("parameters without end")
	}
}

func TestTooLargeIsAnswered(t *testing.T) {
	t.Parallel()
	h := newTwoHosts(t, func(*Options) {})
	text := "SELECT x FROM m WHERE a =~ /" + strings.Repeat("(a{1000})", 30<<10/10) + "/"
	w := httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/query", strings.NewReader(url.Values{"q": {text}}.Encode())))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), guard.ErrTooLarge.Error()+":") {
		t.Error(w.Code, w.Body)
	}
}

// FuzzMeasure: the tree of what is let pass is no deeper, and its expressions are no larger, than
// the limits say, so that nothing can be hidden from the measure that the parser finds.
func FuzzMeasure(f *testing.F) {
	for _, text := range []string{
		"SELECT mean(x) / 2 FROM a./b'/ WHERE c =~ /d\\/e/ AND time > now() - 1h30m GROUP BY /f/, time(1m) fill(0)",
		`SELECT x::field / "y" FROM (SELECT * FROM "a"."b".c) -- '`, "SHOW TAG VALUES WITH KEY IN (a, 'b') WHERE x = $p /* ' */", "SELECT -(-x), 1and FROM m",
		"SELECT a//b/,'/' FROM c",
	} {
		f.Add(text)
	}
	bound := map[string]any{"p": map[string]any{"regex": "a.*"}}
	f.Fuzz(func(t *testing.T, text string) {
		if measure(text, bound) != nil {
			return
		}
		p := ql.NewParser(strings.NewReader(text))
		p.SetParams(bound)
		q, err := p.ParseQuery()
		if err != nil {
			return
		}
		tokens := &counting{}
		ql.Walk(tokens, q)
		s := &measuring{text: strings.ReplaceAll(text, "\r", "\n"), bound: bound, meter: &guard.Meter{}, operand: true}
		seen := 0
		for s.at < len(s.text) {
			before := s.at
			if err := s.next(); err != nil || s.at <= before {
				t.Fatal(err)
			}
			seen++
		}
		// Each bracket and operator that the parser found has been seen.
		if tokens.n > seen {
			t.Fatalf("%q: %d brackets and operators, of %d tokens", text, tokens.n, seen)
		}
	})
}

// counting counts the nodes that each need a token of their own.
type counting struct{ n int }

// Visit implements ql.Visitor.
func (c *counting) Visit(n ql.Node) ql.Visitor {
	switch n.(type) {
	case *ql.ParenExpr, *ql.BinaryExpr, *ql.SubQuery, *ql.RegexLiteral:
		c.n++
	}
	return c
}
