package tenancy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

// What is wrong with a raw is told with its place and what to do.
func TestParseRawErrors(t *testing.T) {
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "d%d: {raw: 30d}, ", i)
	}
	for text, want := range map[string]string{
		"databases:\n  a: {raw: 23h}":                               "rules.yaml:2: databases.a.raw: 23h0m0s is too short: write 0, for ever, or at least 1d",
		"databases:\n  a: {raw: lots}":                              "rules.yaml:2: databases.a.raw:",
		"databases:\n  a: {raw: 30d, retention: 30d}":               "rules.yaml:2: databases.a: raw is not shorter than retention, so it means nothing: leave it out",
		"databases:\n  a: {retention: 30d, raw: 1y}":                "rules.yaml:2: databases.a: raw is not shorter than retention",
		"databases:\n  a: {raw: 1d, retention: 9d}":                 "rules.yaml:2: databases.a: raw needs a retention of at least 10d",
		"defaults:\n  raw: 1h":                                      "rules.yaml:2: defaults.raw: 1h0m0s is too short",
		"retention-rules:\n  - {metric: x, raw: 2d, retention: 1d}": "rules.yaml:2: retention-rules[0]: raw is not shorter than retention",
		"retention-rules:\n  - {metric: x, raw: 2d, retention: 5d}": "rules.yaml:2: retention-rules[0]: raw needs a retention of at least 10d",
		"retention-rules:\n  - {metric: x, raw: 2d}":                "rules.yaml:2: retention-rules[0]: has no retention",
		"databases: {" + many.String() + "}":                        "rules.yaml: raw is said 1001 times",
	} {
		_, err := Parse("rules.yaml", []byte(text))
		if !errors.Is(err, rulefile.ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// The list of how long all samples are kept goes by metrics, then databases, then all others; what says nothing of it keeps all.
func TestRawRules(t *testing.T) {
	for _, r := range []*Rules{nil, {}, parse(t, example)} {
		if r.SaysRaw() || r.RawRules() != nil {
			t.Errorf("%+v", r)
		}
	}
	r := parse(t, `
defaults: {raw: 90d}
databases:
  default: {raw: 30d, retention: 2y}
  all: {raw: 0}
  short: {retention: 2d}
retention-rules:
  - {metric: "cpu.*", raw: 7d, retention: 0}
  - {database: default, metric: "mem.*", retention: 1y}
`)
	var got strings.Builder
	for _, rule := range r.RawRules() {
		fmt.Fprintln(&got, rule.Database, rule.Metric, rule.Retention)
	}
	if len(r.RawRules()) != 5 {
		t.Errorf("%s", got.String())
	}
	for _, c := range []struct {
		database, metric string
		want             time.Duration
	}{
		{"default", "cpu.user", 7 * day}, {"all", "cpu.user", 7 * day}, {"default", "mem.free", Unlimited}, {"default", "disk", 30 * day},
		{"all", "mem.free", Unlimited}, {"short", "disk", 90 * day}, {"other", "disk", 90 * day},
	} {
		for _, rule := range r.RawRules() {
			if regexp.MustCompile(rule.Database).MatchString(c.database) && regexp.MustCompile(rule.Metric).MatchString(c.metric) {
				if rule.Retention != c.want {
					t.Errorf("%s %s: %v, want %v", c.database, c.metric, rule.Retention, c.want)
				}
				now := time.Date(2026, 11, 27, 13, 14, 15, 16, time.UTC)
				from, all := r.RawFrom(canonical(c.database), c.metric, now)
				wanted := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC).Add(-c.want)
				if all != (c.want == Unlimited) || !all && !from.Equal(wanted) {
					t.Errorf("%s %s: all samples from %v on (%v), want %v", c.database, c.metric, from, all, wanted)
				}
				break
			}
		}
	}
}
