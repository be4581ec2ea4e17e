package tenancy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

const day = 24 * time.Hour

const example = `
defaults:
  series-max: 100000
  query: {running-max: 8}
databases:
  default: {retention: 90d}
  metrics:
    retention: 2y
    series-max: 2000000
    samples-per-second-max: 500000
    query: {samples-max: 100000000, memory: 1GiB, running-max: 0}
  audit: {retention: 0, series-max: 0}
retention-rules:
  - {metric: "debug.*", retention: 1d}
  - {database: "met*", metric: "/(cpu|mem)[.].+/", retention: 30d}
  - {database: audit, retention: 0}
`

func parse(t *testing.T, text string) *Rules {
	t.Helper()
	r, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules(t *testing.T) {
	r := parse(t, example)
	for _, c := range []struct {
		database, metric string
		want             time.Duration
	}{
		{"", "cpu.load", 90 * day}, {"", "debug.x", day}, {"metrics", "debug.x", day}, {"metrics", "cpu.load", 30 * day},
		{"metrics", "cpu.", 730 * day}, {"metrics", "xcpu.load", 730 * day}, {"audit", "login", Unlimited}, {"other", "cpu.load", 0},
		{"default", "cpu.load", 0}, // inside, no database is called so
	} {
		if got := r.RetentionOf(c.database, c.metric); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.database, c.metric, got, c.want)
		}
	}
	if got, want := r.LimitsOf("metrics"), (Limits{SeriesMax: 2e6, SamplesPerSecondMax: 500_000, Query: QueryLimits{
		SamplesMax: 1e8, MemoryBytes: 1 << 30, RunningMax: Unlimited}}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := r.LimitsOf("other"), (Limits{SeriesMax: 100_000, Query: QueryLimits{RunningMax: 8}}); got != want {
		t.Errorf("%+v", got)
	}
	if got := r.LimitsOf("audit").SeriesMax; got != Unlimited {
		t.Errorf("%d", got)
	}
	if got := strings.Join(r.Databases(), ","); got != ",audit,metrics" {
		t.Errorf("%q", got)
	}
	if !r.SaysRetention() || !r.HasMetricRules("metrics") || !r.HasMetricRules("other") {
		t.Error("the rules have retentions by metric")
	}
}

// Nothing is said by no rules.
func TestNoRules(t *testing.T) {
	for _, r := range []*Rules{nil, {}, parse(t, ""), parse(t, "# nothing\n"), parse(t, "---\n")} {
		if r.RetentionOf("a", "b") != 0 || r.LimitsOf("a") != (Limits{}) || len(r.Databases()) != 0 || r.SaysRetention() || r.HasMetricRules("a") {
			t.Errorf("%+v", r)
		}
	}
}

// manyDatabases are n databases with a retention each.
func manyDatabases(n int, name string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%d: {retention: 1d}", name, i)
	}
	return strings.Join(list, ", ")
}

// What is wrong is told with its line and what to do, all at once.
func TestParseErrors(t *testing.T) {
	for text, wants := range map[string][]string{
		"databases:\n  a: {retentoin: 1d}": {"rules.yaml:2: databases.a.retentoin: there is no such key here", "retention, samples-per-second-max, series-max"},
		"databases:\n  a: {retention: 5m}": {"rules.yaml:2: databases.a.retention: 5m0s is too short: write 0, for ever, or at least 1h"},
		"databases:\n  a/b: {}":            {"rules.yaml:2: databases.a/b:", "which names cannot have"},
		"databases:\n  \"*\": {}":          {"which names cannot have"},
		"databases:\n  \"\": {}":           {"the default database is called default"},
		"databases:\n  a: {series-max: -1}\n  b: {query: {memory: lots}}": {
			`rules.yaml:2: databases.a.series-max: "-1": expected a whole number`, `rules.yaml:3: databases.b.query.memory: "lots": expected a size such as`},
		"databases: {a: {}, a: {}}":                                                     {"rules.yaml:1: databases.a: is set in line 1 already"},
		"retention-rules:\n  - {metric: /(/, retention: 1d}":                            {"rules.yaml:2: retention-rules[0].metric:", "missing closing )"},
		"retention-rules:\n  - {metric: /x, retention: 1d}":                             {"an expression ends with a slash, too"},
		"retention-rules:\n  - {metric: x}":                                             {"rules.yaml:2: retention-rules[0]: has no retention: add a line `retention: 30d`"},
		"retention-rules: {metric: x}":                                                  {"rules.yaml:1: retention-rules: expected a list"},
		"retention-rules: [{metric: '', retention: 1d}]":                                {`"*" matches everything`},
		"databases: [a]":                                                                {"rules.yaml:1: databases: expected lines of the form"},
		"a: &x {}\ndatabases: {a: *x}":                                                  {"expected lines of the form", "there is no such key here"},
		"databases:\n  a: {series-max}":                                                 {"has no value"},
		"---\n---\n":                                                                    {"expected one document"},
		"databases: {":                                                                  {"rules.yaml:"},
		"databases: {a: {<<: {series-max: 1}}}":                                         {"expected a single name before the colon"},
		"databases: {? [a, b] : {}}":                                                    {"expected a single name before the colon"},
		"databases: {a: {retention: 1d}, b: {series-max: [1]}}":                         {"databases.b.series-max: expected a single value"},
		"retention-rules: [{metric: '/a)|(?:b/', retention: 1d}]":                       {"unexpected )"},
		"retention-rules: [{metric: '/(aaaaaaaaaa){900}/', retention: 1d}]":             {"at most 4096 are taken"},
		"retention-rules: [{metric: '/(a{1000}){1000}/', retention: 1d}]":               {"repeat"},
		"databases: {" + manyDatabases(1001, "d") + "}":                                 {"rules.yaml: retention is said 1001 times"},
		"databases: {" + manyDatabases(900, strings.Repeat("d", 100)) + "}":             {"bytes, at most 65536 are taken"},
		"retention-rules: [{metric: " + strings.Repeat("m", 1025) + ", retention: 1d}]": {"it has 1025 bytes, at most 1024 are taken"},
	} {
		_, err := Parse("rules.yaml", []byte(text))
		if !errors.Is(err, rulefile.ErrFile) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v\nwant %s", text, err, want)
			}
		}
	}
}

func TestReadmeExamples(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("no examples")
	}
	for _, b := range blocks {
		r := parse(t, string(b[1]))
		if !r.SaysRetention() {
			t.Errorf("it says nothing:\n%s", b[1])
		}
	}
	r := parse(t, string(blocks[0][1]))
	// What the text says of the example.
	if r.RetentionOf("metrics", "cpu.load") != 365*day || r.RetentionOf("metrics", "debug.gc") != 7*day || r.RetentionOf("billing", "debug.gc") != Unlimited ||
		r.RetentionOf("", "cpu.load") != 30*day || r.LimitsOf("metrics").SamplesPerSecondMax != 500_000 || r.LimitsOf("new").SeriesMax != 100_000 ||
		r.LimitsOf("billing").SeriesMax != Unlimited {
		t.Error("the rules of the example are not those that its text tells of")
	}
}

// The list of retention rules, of which the first that matches holds, says what RetentionOf
// says.
func TestRetentionRules(t *testing.T) {
	rules, err := Parse("rules.yaml", []byte(`
defaults: {retention: 90d}
databases:
  default: {retention: 30d}
  short: {retention: 2h}
  unsaid: {series-max: 5}
retention-rules:
  - {database: "s*", metric: cpu.*, retention: 1d}
  - {metric: "/(mem|disk)\\..*/", retention: 0}
  - {database: default, metric: "?", retention: 3h}
`))
	if err != nil {
		t.Fatal(err)
	}
	list := rules.RetentionRules()
	for _, database := range []string{"", "short", "s", "unsaid", "other"} {
		for _, metric := range []string{"", "c", "cpu.user", "cpu", "mem.free", "disk.", "é", "xmem.free"} {
			want, got := rules.RetentionOf(database, metric), time.Duration(0)
			for _, rule := range list {
				if regexp.MustCompile(rule.Database).MatchString(display(database)) && regexp.MustCompile(rule.Metric).MatchString(metric) {
					got = rule.Retention
					break
				}
			}
			if got != want || want == 0 {
				t.Errorf("%q %q: %v, want %v", database, metric, got, want)
			}
		}
	}
	if (*Rules)(nil).RetentionRules() != nil {
		t.Error("no rules say something")
	}
}

// A file is followed; a bad text changes nothing.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "databases.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("databases: {a: {series-max: 1}}")
	f, err := OpenFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	write("databases: {a: {series-maximum: 2}}")
	if _, err := f.Check(); !errors.Is(err, rulefile.ErrFile) || f.Current().LimitsOf("a").SeriesMax != 1 {
		t.Errorf("%v, %v", err, f.Current())
	}
	write("databases: {a: {series-max: 3}}")
	if changed, err := f.Check(); err != nil || !changed || f.Current().LimitsOf("a").SeriesMax != 3 {
		t.Errorf("%v, %v", err, f.Current())
	}
}

func globMatches(t interface{ Fatal(...any) }, glob, name string) bool {
	if glob == "" {
		return name == ""
	}
	p, err := parsePattern(glob)
	if err != nil {
		t.Fatal(err)
	}
	return p.matches(name)
}

// slowGlob is the definition of a glob.
func slowGlob(glob, name string) bool {
	switch {
	case glob == "":
		return name == ""
	case glob[0] == '*':
		return slowGlob(glob[1:], name) || name != "" && slowGlob(glob, name[1:])
	case name == "":
		return false
	}
	return (glob[0] == '?' || glob[0] == name[0]) && slowGlob(glob[1:], name[1:])
}

func TestGlob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[ab*?]{0,8}`).Draw(t, "glob")
		name := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "name")
		if got, want := globMatches(t, glob, name), slowGlob(glob, name); got != want {
			t.Fatalf("%q %q: %v", glob, name, got)
		}
	})
}

// A glob that would take a naive matcher for ever takes no time.
func TestGlobOfManyStars(t *testing.T) {
	if globMatches(t, strings.Repeat("*a", 400)+"b", strings.Repeat("a", 4000)) {
		t.Error("it matches")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("databases: {a: {retention: 1d}}\nretention-rules: [{metric: /x/, retention: 2h}]"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Add([]byte("defaults: {raw: 1d}\ndatabases: {a: {raw: 30d, retention: 2y}}\nretention-rules: [{metric: x, raw: 0, retention: 2y}]"))
	f.Add([]byte("databases: {a: {raw: 1h}, b: {raw: 3d, retention: 3d}, c: {raw: 1d, retention: 9d}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse("f", text)
		if (err == nil) == (r == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if err != nil && !errors.Is(err, rulefile.ErrFile) {
			t.Fatal(err)
		}
		raw := r.RawRules()
		if len(raw) > retentionRulesMax || (len(raw) > 0) != r.SaysRaw() {
			t.Fatalf("%d rules", len(raw))
		}
		for _, rule := range raw {
			if rule.Retention != Unlimited && rule.Retention < RawMin {
				t.Fatalf("%v", rule.Retention)
			}
		}
		for _, database := range append(r.Databases(), "other") {
			if d := r.RetentionOf(database, "cpu"); d != 0 && d != Unlimited && d < RetentionMin {
				t.Fatalf("%v", d)
			}
			if l := r.LimitsOf(database); l.SeriesMax < Unlimited || l.Query.MemoryBytes < Unlimited || l.Query.RunningMax < Unlimited {
				t.Fatalf("%+v", l)
			}
		}
	})
}

func BenchmarkRetentionOf(b *testing.B) {
	r, err := Parse("f", []byte(example))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r.RetentionOf("metrics", "disk.free")
	}
}
