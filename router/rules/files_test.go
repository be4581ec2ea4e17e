package rules

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/loopback"
	"github.com/tickmesh/tickmesh/api/rulefile"
)

func discarded() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestPatterns(t *testing.T) {
	for text, want := range map[string]Pattern{
		"r.yaml": {"", "r.yaml"}, "rules/*.yaml": {"", "rules/*.yaml"}, "home=r.yaml": {"home", "r.yaml"}, "default=r.yaml": {"", "r.yaml"}, "home=a=b.yaml": {"home", "a=b.yaml"},
	} {
		if got, err := ParsePattern(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "home=", "=r.yaml", "[", "home=[a", strings.Repeat("x", 10_000) + "=r.yaml"} {
		if got, err := ParsePattern(text); err == nil {
			t.Errorf("%q is taken: %+v", text, got)
		}
	}
	for _, list := range [][]string{{"a"}, {"=b"}, {"a=b", "a=c"}, {"__name__=x"}, {"a=\xff"}} {
		if got, err := ParseLabels(list); err == nil {
			t.Errorf("%q are taken: %v", list, got)
		}
	}
	if got, err := ParseLabels([]string{"b=1=2", "a="}); got.String() != `{a="", b="1=2"}` || err != nil {
		t.Error(got, err)
	}
	for _, text := range []string{"", "am:9093", "ftp://am", "http://", "http://am?x=1", "http://am#x", "http://am\x7f", "http://u:p@am", "http://token@192.0.2.1:9093/x"} {
		if got, err := ParseURL(text); err == nil {
			t.Errorf("%q is taken: %v", text, got)
		}
	}
	for _, text := range []string{"http://am:9093", "https://u:p@am", "http://u:p@127.0.0.1:9093/am", "http://u:p@localhost", "http://u:p@[::1]:9093"} {
		if _, err := ParseURL(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Each problem of a file is told with its place.
func TestProblems(t *testing.T) {
	group := func(text string) string { return "groups:\n- name: g\n  rules:\n  - " + text }
	many := strings.Builder{}
	many.WriteString("groups:\n")
	for i := range GroupsMax + 1 {
		fmt.Fprintf(&many, "- {name: g%d, rules: [{record: r, expr: \"1\"}]}\n", i)
	}
	for text, want := range map[string]string{
		"groups: [":                                 "rules.yaml:1: ",
		"- a":                                       "rules.yaml:",
		"groups:\n- name: g\n  strange: 1\n":        "rules.yaml:",
		"groups:\n- name: g\n  interval: x\n":       "rules.yaml:",
		"groups:\n- name: g\n- name: g\n":           `rules.yaml:3: group "g" is there twice`,
		"groups:\n- rules: []\n":                    "rules.yaml:2: a group has no name",
		"groups:\n- {name: g, interval: 10ms}\n":    `rules.yaml:2: group "g": interval 10ms is shorter than 1s`,
		"groups: []\n---\ngroups: []\n":             "rules.yaml:2: expected one document, and a second begins",
		group("{record: r, expr: \"sum(\"}"):        `rules.yaml:4:23: group "g", rule 1, "r": could not parse expression: 1:5: parse error: unclosed left parenthesis`,
		group("{record: r}"):                        `rules.yaml:4: group "g", rule 1, "r": field 'expr' must be set in rule`,
		group("{expr: \"1\"}"):                      `rules.yaml:4: group "g", rule 1, "": one of 'record' or 'alert' must be set`,
		group("{record: r, alert: a, expr: \"1\"}"): "rules.yaml:4:14: 4:24: ",
		group("{alert: a, expr: \"1\", annotations: {x: \"{{ $nothing }}\"}}"): `rules.yaml:4: group "g", rule 1, "a": annotation "x"`,
		group("{record: r, expr: \"1\", labels: {__name__: x}}"):               "invalid label name: __name__",
		many.String():                            "1001 groups and 1001 rules, of 1000 and 10000",
		strings.Repeat("#", rulefile.BytesMax+1): "rules.yaml is longer than",
	} {
		_, err := New(Options{Patterns: []Pattern{{"", rulesFile(t, text)}}})
		if !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
	dir := t.TempDir()
	if _, err := New(Options{Patterns: []Pattern{{"", filepath.Join(dir, "none.yaml")}}}); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file that is not there:", err)
	}
	if _, err := New(Options{Patterns: []Pattern{{"", dir}}}); !errors.Is(err, ErrFiles) {
		t.Error("a folder:", err)
	}
	if _, err := New(Options{Patterns: []Pattern{{"", filepath.Join(dir, "*.yaml")}}}); err != nil {
		t.Error("a pattern without files:", err)
	}
	for i := range FilesMax + 1 {
		writeRules(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), "")
	}
	if _, err := New(Options{Patterns: []Pattern{{"", filepath.Join(dir, "*.yaml")}}}); !errors.Is(err, ErrFiles) {
		t.Error("too many files:", err)
	}
	for i := range BytesMax/rulefile.BytesMax + 1 {
		writeRules(t, filepath.Join(dir, fmt.Sprintf("%d.rules", i)), strings.Repeat("#", rulefile.BytesMax))
	}
	if _, err := New(Options{Patterns: []Pattern{{"", filepath.Join(dir, "*.rules")}}}); !errors.Is(err, ErrFiles) {
		t.Error("too long files:", err)
	}
}

// Of the samples of one series and time the first is kept, and none before the newest, as in Prometheus; what does not
// fit into memory is not checked.
// TestLanguage: what Prometheus has behind feature flags is taken by Options.Parser alone.
func TestLanguage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(file, []byte("groups:\n- name: g\n  rules:\n  - {record: few, expr: 'limitk(1, up)'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Patterns: []Pattern{{"", file}}}
	if _, err := New(o); !errors.Is(err, ErrFiles) {
		t.Error(err)
	}
	o.Parser.EnableExperimentalFunctions = true
	if _, err := New(o); err != nil {
		t.Error(err)
	}
}

func TestRecent(t *testing.T) {
	r := recent{max: 100}
	series := func(i int) labels.Labels { return labels.FromStrings("n", fmt.Sprint(i)) }
	for _, c := range []struct {
		timeMs int64
		v      float64
		want   error
	}{{10, 1, nil}, {10, 1, nil}, {10, 2, storage.ErrDuplicateSampleForTimestamp}, {9, 1, storage.ErrOutOfOrderSample}, {11, 2, nil}} {
		if err := r.see(series(0), c.timeMs, c.v); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for i := range r.max + 10 {
		if err := r.see(series(i), 20, 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.mu.newest); n != r.max {
		t.Errorf("%d series are remembered", n)
	}
	if err := r.see(series(-1), 20+recentKeptMs+1, 1); err != nil || len(r.mu.newest) != 1 {
		t.Errorf("an hour later: %v, %d series", err, len(r.mu.newest))
	}
}

// Who is full looks for room once in a while, not with each sample.
func TestRecentSweepsSeldom(t *testing.T) {
	r := recent{max: 2}
	const full = 10 * recentKeptMs
	for i, c := range []struct {
		timeMs int64
		want   int // series that are remembered afterwards
	}{
		{full, 1}, {full, 2},
		{full + recentKeptMs, 2},                     // looks for room in vain
		{full + recentKeptMs + 1, 2},                 // there is some, but it is not looked for
		{full + recentKeptMs - 1, 2},                 // of a group that is a little behind
		{full + recentKeptMs + recentSweepMs, 1},     // it is
		{full + recentKeptMs + recentSweepMs + 1, 2}, // and taken
	} {
		if err := r.see(labels.FromStrings("n", fmt.Sprint(i)), c.timeMs, 1); err != nil || len(r.mu.newest) != c.want {
			t.Errorf("%d: %v, %d series", i, err, len(r.mu.newest))
		}
	}
}

// A file of rules is taken or refused with its name; nothing makes the parser fail.
func FuzzParseFile(f *testing.F) {
	for _, text := range []string{"", comparedRules, "groups: [", "groups:\n- name: g\n  rules:\n  - {record: a, expr: \"sum(\"}\n", "a: &x [1]\nb: [*x, *x]", "groups: []\n---\ngroups: []\n"} {
		f.Add([]byte(strings.ReplaceAll(text, "\t", "  ")))
	}
	p := parser.NewParser(parser.Options{})
	f.Fuzz(func(t *testing.T, text []byte) {
		groups, errs := parseFile("rules.yaml", text, p, discarded())
		if len(errs) == 0 && groups == nil {
			t.Fatal("neither rules nor errors")
		}
		for _, err := range errs {
			if !strings.HasPrefix(err.Error(), "rules.yaml") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err.Error())
			}
		}
	})
}

// FuzzFlags: what is taken of the flags is what it says, and passwords cross no network as they are.
func FuzzFlags(f *testing.F) {
	for _, text := range []string{"home=rules/*.yaml", "a=b", "[", "http://u:p@[::1]:9093/am", "https://am", "http://LOCALHOST%00", "=", "a=\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePattern(text); err == nil && (p.Path == "" || !strings.HasSuffix(text, p.Path)) {
			t.Fatalf("%q: %+v", text, p)
		}
		if l, err := ParseLabels([]string{text}); err == nil && l.Len() != 1 {
			t.Fatalf("%q: %v", text, l)
		}
		u, err := ParseURL(text)
		if err != nil {
			return
		}
		if again, err := url.Parse(u.String()); err != nil || again.Host != u.Host || u.User != nil && u.Scheme == "http" && !loopback.IsHost(again.Hostname()) {
			t.Fatalf("%q: %v, %v", text, again, err)
		}
	})
}
