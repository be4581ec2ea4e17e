package storage

import (
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// segmentSamples counts what is in segments, hidden or not.
func (n *labNode) segmentSamples() (samples int64) {
	n.e.maintenance.Lock()
	defer n.e.maintenance.Unlock()
	for i := range n.e.manifest.Segments {
		samples += n.e.manifest.Segments[i].Samples
	}
	return samples
}

// TestRuleCutsGiveSpaceBack: what a rule hides leaves segments that are wholly before its
// cut, once, and what it does not hide stays.
func TestRuleCutsGiveSpaceBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 14))
	logs := newLabLogs()
	n := newLabNode(t, logs)
	for shard := range labShards {
		n.hosts[shard] = true
		for range 20 {
			logs[shard].write(rng)
		}
		n.apply(shard, math.MaxInt)
	}
	n.seal()
	n.compactAll()
	before := n.segmentSamples()
	cut := func(rules []RuleCut, slow slowRules) {
		for shard := range labShards {
			entry := RuleCuts{Rules: rules, OtherMs: NoCut}
			logs[shard].add(EntryRuleCuts, RuleCutsBody(&entry), func(m *slowShard) { m.rules = append(m.rules, slow) })
			n.apply(shard, math.MaxInt)
		}
		n.check("cut, before compaction")
		n.compactAll()
		n.check("cut, after compaction")
	}
	late := logs[0].nowMs + 365*24*3600_000 // everything is older
	cut([]RuleCut{{Database: "^default$", Metric: "^m$", CutMs: late}}, slowRules{first: "m", second: "none", cutsMs: [3]int64{late, NoCut, NoCut}})
	left := int64(0)
	for shard := range labShards {
		for _, samples := range logs[shard].head.contents() {
			left += int64(len(samples))
		}
	}
	if got := n.segmentSamples(); got != left || got >= before || got == 0 {
		t.Fatalf("%d samples are on disk, %d are there, %d were", got, left, before)
	}
	compactions := n.e.Stats().Compactions
	n.compactAll()
	n.crash(rng)
	n.check("after a crash")
	for shard, table := range n.e.ruleTables() {
		if table.matchers[0] != n.e.ruleTables()[0].matchers[0] {
			t.Errorf("shard %d has compiled the same rules once more", shard)
		}
	}
	n.compactAll()
	if again := n.e.Stats().Compactions; again > compactions {
		t.Fatalf("%d compactions for nothing", again-compactions)
	}
	// The rule is gone, and what it has hidden does not come back.
	cut(nil, slowRules{first: "none", second: "none", cutsMs: [3]int64{NoCut, NoCut, NoCut}})
	if lists := n.e.ShardRuleCuts(0); len(lists) != 2 {
		t.Errorf("%d lists are known", len(lists))
	}
	// A cut of all that is later than every rule makes earlier rules superfluous.
	for shard := range labShards {
		logs[shard].add(EntryRetention, RetentionBody(late), func(m *slowShard) { m.cutMs = late })
		entry := RuleCuts{OtherMs: late + 1}
		logs[shard].add(EntryRuleCuts, RuleCutsBody(&entry), func(m *slowShard) {
			m.rules = append(m.rules, slowRules{first: "none", second: "none", cutsMs: [3]int64{NoCut, NoCut, late + 1}})
		})
		n.apply(shard, math.MaxInt)
	}
	if lists := n.e.ShardRuleCuts(0); len(lists) != 1 || lists[0].OtherMs != late+1 {
		t.Errorf("known is %+v", lists)
	}
	n.check("all is cut")
	n.end()
}

// Matchers remember a bounded number of metrics.
func TestRuleMatchersAreBounded(t *testing.T) {
	table, err := newRuleTable([]RuleCuts{{Rules: []RuleCut{{Database: "^d$", Metric: "1$", CutMs: 7}}, OtherMs: 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ruleKnownMax + 100 {
		key := series.AppendKey(nil, []byte("d"), []byte{byte(i), byte(i >> 8), byte(i >> 16), '1'}, nil)
		if got := table.of(key); got != 7 || len(table.matchers[0].known) > ruleKnownMax {
			t.Fatal(got, len(table.matchers[0].known))
		}
	}
	if got := table.of(series.AppendKey(nil, nil, []byte("1"), nil)); got != 3 {
		t.Fatal(got)
	}
}

// Rules that go to and fro, or that are replayed over a later manifest, do not make a table
// longer, and hide what all of their entries together do.
func TestRuleTableHasEachListOnce(t *testing.T) {
	of := func(metric string, cutMs, otherMs int64) RuleCuts {
		return RuleCuts{Rules: []RuleCut{{Database: "^default$", Metric: metric, CutMs: cutMs}}, OtherMs: otherMs}
	}
	var table *ruleTable
	for _, c := range []RuleCuts{of("^a$", 50, NoCut), of("^b$", 70, 5), of("^a$", 40, 7), of("^b$", 60, NoCut)} {
		next, err := table.with(c, NoCut, nil)
		if err != nil {
			t.Fatal(err)
		}
		table = next
	}
	if want := []RuleCuts{of("^a$", 50, 7), of("^b$", 70, 5)}; !reflect.DeepEqual(table.lists, want) {
		t.Fatalf("%+v", table.lists)
	}
	for metric, want := range map[string]int64{"a": 50, "b": 70, "c": 7} {
		if got := table.of(series.AppendKey(nil, nil, []byte(metric), nil)); got != want {
			t.Errorf("%s: %d, want %d", metric, got, want)
		}
	}
	// Another shard, and a later cut, need no further compilation.
	other, err := (*ruleTable)(nil).with(of("^b$", 90, 9), NoCut, []*ruleTable{nil, table})
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
		var table *ruleTable
		naive := map[string]int64{}
		var entry RuleCuts
		shardCut := int64(0)
		for range 2 + rng.IntN(4) {
			// Rules come, go and change their places; cuts move.
			entry.Rules = slices.Clone(entry.Rules)
			if n := len(entry.Rules); n > 0 && rng.IntN(3) == 0 {
				entry.Rules = slices.Delete(entry.Rules, n-1, n)
			}
			for range rng.IntN(3) {
				entry.Rules = slices.Insert(entry.Rules, rng.IntN(len(entry.Rules)+1),
					RuleCut{Database: ".*", Metric: metrics[rng.IntN(len(metrics))], CutMs: rng.Int64N(8)})
			}
			entry.OtherMs = rng.Int64N(8)
			shardCut = max(shardCut, rng.Int64N(3))
			next, err := table.with(entry, shardCut, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(next.lists) <= len(table.all()) {
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
				if got := max(table.of(series.AppendKey(nil, nil, []byte(metric), nil)), shardCut); got != naive[metric] {
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
	f.Add(RuleCutsBody(&RuleCuts{OtherMs: NoCut}))
	f.Add(RuleCutsBody(&RuleCuts{Rules: []RuleCut{{"^a$", ".*", 5}, {"", "(", math.MaxInt64}}, OtherMs: -1}))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parseRuleCutsBody(body)
		if err != nil {
			return
		}
		again, err := parseRuleCutsBody(RuleCutsBody(&c))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v, then %+v, %v", c, again, err)
		}
		table, err := (*ruleTable)(nil).with(c, NoCut, nil)
		if err != nil {
			return
		}
		_ = table.of(series.AppendKey(nil, []byte("a"), []byte("b"), nil))
	})
}
