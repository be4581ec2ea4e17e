package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// TestKeyMatcher compares with the slow source of tests.
func TestKeyMatcher(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	word := func(words ...string) string { return words[random.IntN(len(words))] }
	kinds := []scan.MatchKind{scan.MatchEqual, scan.MatchNotEqual, scan.MatchIn, scan.MatchNotIn, scan.MatchEqualFold, scan.MatchNotEqualFold,
		scan.MatchRegexp, scan.MatchNotRegexp, scan.MatchPresent, scan.MatchAbsent}
	picked := 0
	for range 3000 {
		var tags []series.Tag
		for _, name := range []string{"a", "b"} {
			if random.IntN(2) == 0 {
				tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(word("x", "X", "y"))})
			}
		}
		key := series.AppendKey(nil, []byte(word("", "db")), []byte(word("m", "n")), tags)
		selector := &scan.Selector{Database: word("", "db"), Metric: word("m", "n"), MetricAny: random.IntN(2) == 0, Exact: random.IntN(3) == 0}
		for range random.IntN(3) {
			selector.Matchers = append(selector.Matchers, scan.Matcher{
				Name: word("a", "b"), Kind: kinds[random.IntN(len(kinds))], Values: []string{word("x", "", "y", "X", "x|y", ".*")},
			})
		}
		oracle := scantest.NewMemory()
		if err := oracle.Put(key, series.Sample{TimeMs: 1, Value: 1}); err != nil {
			t.Fatal(err)
		}
		want, err := oracle.Series(t.Context(), selector, 0, func(series.Key) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewKeyMatcher(selector)
		if err != nil {
			t.Fatal(err)
		}
		picked += int(want)
		if got := m.Matches(key); got != (want == 1) {
			t.Fatalf("%+v picks %s: %v, want %d", selector, fmt.Sprint(key), got, want)
		}
	}
	if picked < 100 {
		t.Fatalf("only %d keys were picked", picked)
	}
	if _, err := NewKeyMatcher(&scan.Selector{Matchers: []scan.Matcher{{Name: "a", Kind: scan.MatchRegexp, Values: []string{"("}}}}); err == nil {
		t.Error("a regular expression with an open parenthesis is taken")
	}
}
