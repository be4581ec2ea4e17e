package retention

import (
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// Matchers remember a bounded number of metrics.
func TestRuleMatchersAreBounded(t *testing.T) {
	table, err := NewTable([]Cuts{{Rules: []Cut{{Database: "^d$", Metric: "1$", CutMs: 7}}, OtherMs: 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range knownMax + 100 {
		key := series.AppendKey(nil, []byte("d"), []byte{byte(i), byte(i >> 8), byte(i >> 16), '1'}, nil)
		if got := table.Of(key); got != 7 || len(table.matchers[0].known) > knownMax {
			t.Fatal(got, len(table.matchers[0].known))
		}
	}
	if got := table.Of(series.AppendKey(nil, nil, []byte("1"), nil)); got != 3 {
		t.Fatal(got)
	}
}

// Rules that go to and fro, or that are replayed over a later manifest, do not make a table
// longer, and hide what all of their entries together do.
func TestRuleTableHasEachListOnce(t *testing.T) {
	of := func(metric string, cutMs, otherMs int64) Cuts {
		return Cuts{Rules: []Cut{{Database: "^default$", Metric: metric, CutMs: cutMs}}, OtherMs: otherMs}
	}
	var table *Table
	for _, c := range []Cuts{of("^a$", 50, NoCut), of("^b$", 70, 5), of("^a$", 40, 7), of("^b$", 60, NoCut)} {
		next, err := table.With(c, NoCut, nil)
		if err != nil {
			t.Fatal(err)
		}
		table = next
	}
	if want := []Cuts{of("^a$", 50, 7), of("^b$", 70, 5)}; !reflect.DeepEqual(table.lists, want) {
		t.Fatalf("%+v", table.lists)
	}
	for metric, want := range map[string]int64{"a": 50, "b": 70, "c": 7} {
		if got := table.Of(series.AppendKey(nil, nil, []byte(metric), nil)); got != want {
			t.Errorf("%s: %d, want %d", metric, got, want)
		}
	}
	// Another shard, and a later cut, need no further compilation.
	other, err := (*Table)(nil).With(of("^b$", 90, 9), NoCut, []*Table{nil, table})
	if err != nil || other.matchers[0] != table.matchers[1] {
		t.Errorf("compiled once more: %v", err)
	}
}

// A table hides what all of its entries together do, whichever lists it forgets.
func TestRuleTableHidesWhatItsEntriesDo(t *testing.T) {
	metrics := []string{"^a.$", "^.b$", "^(?s:ab)$", "^(?s:bb)$", "^b.$", ".*", "^c"}
	forgotten, kept := 0, 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 59))
		var table *Table
		naive := map[string]int64{}
		var entry Cuts
		shardCut := int64(0)
		for range 2 + rng.IntN(4) {
			// Rules come, go and change their places; cuts move.
			entry.Rules = slices.Clone(entry.Rules)
			if n := len(entry.Rules); n > 0 && rng.IntN(3) == 0 {
				entry.Rules = slices.Delete(entry.Rules, n-1, n)
			}
			for range rng.IntN(3) {
				entry.Rules = slices.Insert(entry.Rules, rng.IntN(len(entry.Rules)+1),
					Cut{Database: ".*", Metric: metrics[rng.IntN(len(metrics))], CutMs: rng.Int64N(8)})
			}
			entry.OtherMs = rng.Int64N(8)
			shardCut = max(shardCut, rng.Int64N(3))
			next, err := table.With(entry, shardCut, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(next.lists) <= len(table.Lists()) {
				forgotten++
			} else {
				kept++
			}
			table = next
			for _, metric := range []string{"aa", "ab", "bb", "ba", "cb", "ca", "dd"} {
				cut := entry.OtherMs
				for _, r := range entry.Rules {
					if regexp.MustCompile(r.Metric).MatchString(metric) {
						cut = r.CutMs
						break
					}
				}
				naive[metric] = max(naive[metric], cut, shardCut)
				if got := max(table.Of(series.AppendKey(nil, nil, []byte(metric), nil)), shardCut); got != naive[metric] {
					t.Fatalf("seed %d: %s is cut at %d, want %d: %+v", seed, metric, got, naive[metric], table.lists)
				}
			}
		}
	}
	if forgotten < 100 || kept < 100 {
		t.Errorf("%d lists were forgotten, %d kept", forgotten, kept)
	}
}

func TestNameOf(t *testing.T) {
	for _, name := range []string{"", "a", "a.b", "a*b", `a\b`, "é", "^(?s:a)$", "a|b"} {
		if got, ok := nameOf("^(?s:" + regexp.QuoteMeta(name) + ")$"); !ok || got != name {
			t.Errorf("%q: %q, %v", name, got, ok)
		}
	}
	for _, expression := range []string{"a", "^a$", "^(?s:a)", "^(?s:a.)$", "^(?s:a|b)$", `^(?s:\d)$`, `^(?s:\)$`, `^(?s:a\)$`, `^(?s:(?i)a)$`} {
		if got, ok := nameOf(expression); ok {
			t.Errorf("%q matches more than %q", expression, got)
		}
	}
}

func FuzzRuleCutsBody(f *testing.F) {
	f.Add(Encode(&Cuts{OtherMs: NoCut}))
	f.Add(Encode(&Cuts{Rules: []Cut{{"^a$", ".*", 5}, {"", "(", math.MaxInt64}}, OtherMs: -1}))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := Decode(body)
		if err != nil {
			return
		}
		again, err := Decode(Encode(&c))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v, then %+v, %v", c, again, err)
		}
		table, err := (*Table)(nil).With(c, NoCut, nil)
		if err != nil {
			return
		}
		_ = table.Of(series.AppendKey(nil, []byte("a"), []byte("b"), nil))
	})
}
