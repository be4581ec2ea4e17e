package storage

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// segmentSamples counts what is in segments, hidden or not.
func (n *labNode) segmentSamples() (samples int64) {
	for i := range n.e.files.Present().Segments {
		samples += n.e.files.Present().Segments[i].Samples
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
	cut := func(rules []retention.Cut, slow slowRules) {
		for shard := range labShards {
			cuts := retention.Cuts{Rules: rules, OtherMs: retention.NoCut}
			logs[shard].add(entry.RuleCuts, retention.Encode(&cuts), func(m *slowShard) { m.rules = append(m.rules, slow) })
			n.apply(shard, math.MaxInt)
		}
		n.check("cut, before compaction")
		n.compactAll()
		n.check("cut, after compaction")
	}
	late := logs[0].nowMs + 365*24*3600_000 // everything is older
	cut([]retention.Cut{{Database: "^default$", Metric: "^m$", CutMs: late}}, slowRules{first: "m", second: "none", cutsMs: [3]int64{late, retention.NoCut, retention.NoCut}})
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
		if !table.SharesMatchers(n.e.ruleTables()[0]) {
			t.Errorf("shard %d has compiled the same rules once more", shard)
		}
	}
	n.compactAll()
	if again := n.e.Stats().Compactions; again > compactions {
		t.Fatalf("%d compactions for nothing", again-compactions)
	}
	// The rule is gone, and what it has hidden does not come back.
	cut(nil, slowRules{first: "none", second: "none", cutsMs: [3]int64{retention.NoCut, retention.NoCut, retention.NoCut}})
	if lists := n.e.ShardRuleCuts(0); len(lists) != 2 {
		t.Errorf("%d lists are known", len(lists))
	}
	// A cut of all that is later than every rule makes earlier rules superfluous.
	for shard := range labShards {
		logs[shard].add(entry.Retention, entry.RetentionBody(late), func(m *slowShard) { m.cutMs = late })
		cuts := retention.Cuts{OtherMs: late + 1}
		logs[shard].add(entry.RuleCuts, retention.Encode(&cuts), func(m *slowShard) {
			m.rules = append(m.rules, slowRules{first: "none", second: "none", cutsMs: [3]int64{retention.NoCut, retention.NoCut, late + 1}})
		})
		n.apply(shard, math.MaxInt)
	}
	if lists := n.e.ShardRuleCuts(0); len(lists) != 1 || lists[0].OtherMs != late+1 {
		t.Errorf("known is %+v", lists)
	}
	n.check("all is cut")
	n.end()
}
