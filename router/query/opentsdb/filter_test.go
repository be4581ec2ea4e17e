package opentsdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// testFilter is one filter as a test asks for it.
type testFilter struct {
	Type    string `json:"type"`
	Tagk    string `json:"tagk"`
	Filter  string `json:"filter"`
	GroupBy bool   `json:"groupBy"`
}

// accepts returns what OpenTSDB's documentation of filters does.
func (f *testFilter) accepts(tags map[string]string) bool {
	value, has := tags[f.Tagk]
	if f.Type == "not_key" {
		return !has
	}
	if !has {
		return false
	}
	kind, not := strings.CutPrefix(f.Type, "not_")
	text := f.Filter
	if kind[0] == 'i' {
		kind, text, value = kind[1:], strings.ToLower(text), strings.ToLower(value)
	}
	switch kind {
	case "literal_or":
		return slices.Contains(strings.Split(text, "|"), value) != not
	case "wildcard":
		return matchesPattern(text, value)
	}
	return regexp.MustCompile(text).MatchString(value)
}

// matchesPattern tries every length for every *.
func matchesPattern(pattern, value string) bool {
	if pattern == "" {
		return value == ""
	}
	if pattern[0] != '*' {
		return value != "" && pattern[0] == value[0] && matchesPattern(pattern[1:], value[1:])
	}
	for i := range len(value) + 1 {
		if matchesPattern(pattern[1:], value[i:]) {
			return true
		}
	}
	return false
}

func drawFilter(t *rapid.T) testFilter {
	f := testFilter{Tagk: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tag"), GroupBy: rapid.Bool().Draw(t, "group")}
	word := rapid.StringMatching(`[abAB.]{1,3}`)
	f.Type = rapid.SampledFrom([]string{"literal_or", "iliteral_or", "not_literal_or", "not_iliteral_or", "wildcard", "iwildcard", "regexp", "not_key"}).Draw(t, "type")
	switch f.Type {
	case "not_key":
	case "wildcard", "iwildcard":
		f.Filter = rapid.StringMatching(`[abAB.]{0,2}\*[abAB.]{0,2}\*?[abAB.]?`).Draw(t, "pattern")
	case "regexp":
		f.Filter = rapid.SampledFrom([]string{
			"a", "^a", "a$", "^a$", "^a|b$", "a|b", "(^a)|b", "^(a|b)$", "(?i)^A", "(?i:a)b", "a.b", `a\.`, `\Aa`, `b\z`, "[ab]{2,}", "^", "$", "(a|b)+$", "a*", "^a*$",
		}).Draw(t, "expression")
	default:
		f.Filter = strings.Join(rapid.SliceOfN(word, 1, 3).Draw(t, "words"), "|")
	}
	return f
}

// short returns the filter in the form of the parameter m.
func (f *testFilter) short() string { return f.Tagk + "=" + f.Type + "(" + f.Filter + ")" }

// TestFiltersAgainstOracle compares which series an answer is made of, in which
// groups, with filters that are tried on each series in turn.
func TestFiltersAgainstOracle(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		s := newServer(outer)
		all := drawTagged(t, s)
		var filters []testFilter
		for range rapid.IntRange(0, 2).Draw(t, "filters") {
			filters = append(filters, drawFilter(t))
		}
		explicit := rapid.Bool().Draw(t, "explicit")
		want := groupsOf(all, filters, explicit)

		body, err := json.Marshal(map[string]any{"start": 1, "end": 9, "queries": []any{
			map[string]any{"aggregator": "count", "metric": "m", "filters": filters, "explicitTags": explicit},
		}})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := s.do("POST", "/api/query", string(body))
		compareGroups(t, status, answer, want)
		grouping, other := []string{}, []string{}
		for _, f := range filters {
			if f.GroupBy {
				grouping = append(grouping, f.short())
			} else {
				other = append(other, f.short())
			}
		}
		m := "count:m{" + strings.Join(grouping, ",") + "}{" + strings.Join(other, ",") + "}"
		if explicit {
			m = strings.Replace(m, ":", ":explicit_tags:", 1)
		}
		if strings.Count(m, "(") == strings.Count(m, ")") {
			status, answer = s.do("GET", "/api/query?start=1&end=9&m="+m, "")
			compareGroups(t, status, answer, want)
		}
	})
}

func drawTagged(t *rapid.T, s *server) []map[string]string {
	seen := map[string]bool{}
	var all []map[string]string
	for range rapid.IntRange(1, 8).Draw(t, "series") {
		tags := map[string]string{}
		var pairs []string
		for _, name := range []string{"x", "y", "z"} {
			if rapid.Bool().Draw(t, "has "+name) {
				tags[name] = rapid.StringMatching(`[abAB.]{1,3}`).Draw(t, name)
				pairs = append(pairs, name, tags[name])
			}
		}
		if key := scantest.Key("", "m", pairs...); !seen[string(key)] {
			seen[string(key)] = true
			s.put(key, 5, 1)
			all = append(all, tags)
		}
	}
	return all
}

// groupsOf returns, by their common and their aggregated tags, the sizes of groups.
func groupsOf(all []map[string]string, filters []testFilter, explicit bool) map[string]int {
	groups := map[string][]map[string]string{}
	for _, tags := range all {
		accepted, name := true, ""
		for _, f := range filters {
			accepted = accepted && f.accepts(tags)
		}
		for name := range tags {
			accepted = accepted && (!explicit || len(filters) == 0 || slices.ContainsFunc(filters, func(f testFilter) bool { return f.Tagk == name }))
		}
		for _, tag := range []string{"x", "y"} {
			if slices.ContainsFunc(filters, func(f testFilter) bool { return f.GroupBy && f.Tagk == tag }) {
				name += tags[tag] + "/"
			}
		}
		if accepted {
			groups[name] = append(groups[name], tags)
		}
	}
	sizes := map[string]int{}
	for _, members := range groups {
		values := map[string]map[string]bool{}
		for _, tags := range members {
			for name, value := range tags {
				if values[name] == nil {
					values[name] = map[string]bool{}
				}
				values[name][value] = true
			}
		}
		common, aggregated := map[string]string{}, []string{}
		for name, some := range values {
			if len(some) > 1 {
				aggregated = append(aggregated, name)
				continue
			}
			for value := range some {
				common[name] = value
			}
		}
		slices.Sort(aggregated)
		sizes[fmt.Sprint(common, aggregated)] += len(members)
	}
	return sizes
}

func compareGroups(t *rapid.T, status int, answer string, want map[string]int) {
	var results []struct {
		Tags          map[string]string
		AggregateTags []string
		DPS           map[string]int
	}
	if status == 400 && len(want) == 0 && strings.Contains(answer, "No such name for 'tag") {
		return // none of the series has a tag, or a value
	}
	if err := json.Unmarshal([]byte(answer), &results); err != nil || status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	got := map[string]int{}
	for _, r := range results {
		got[fmt.Sprint(r.Tags, r.AggregateTags)] += r.DPS["5"]
	}
	if !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
