package storage

import (
	"math"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// shardCuts are the cuts of all shards at one moment.
type shardCuts struct {
	wholeMs []int64 // of all series of the shard
	rules   []*ruleTable
}

func (e *Engine) shardCuts() shardCuts {
	c := shardCuts{wholeMs: make([]int64, len(e.shards)), rules: make([]*ruleTable, len(e.shards))}
	for i, s := range e.shards {
		c.wholeMs[i], c.rules[i] = s.cutMs.Load(), s.rules.Load()
	}
	return c
}

// lists returns what a manifest keeps of rules; nil: nothing.
func (c *shardCuts) lists() (lists [][]RuleCuts) {
	for shard, table := range c.rules {
		lists = withRuleCuts(lists, len(c.rules), uint16(shard), table.all())
	}
	return lists
}

// withRuleCuts returns a copy of a manifest's rule cuts with those of one shard changed.
func withRuleCuts(lists [][]RuleCuts, shards int, shard uint16, of []RuleCuts) [][]RuleCuts {
	if lists == nil && len(of) == 0 {
		return nil
	}
	next := make([][]RuleCuts, shards)
	copy(next, lists)
	next[shard] = of
	return next
}

// of returns the time before which the samples of a series are gone. A key that cannot be
// read hides nothing.
func (c *shardCuts) of(e *Engine, shard uint16, id uint32) int64 {
	if int(shard) >= len(c.wholeMs) {
		return NoCut
	}
	cut, table := c.wholeMs[shard], c.rules[shard]
	if table == nil {
		return cut
	}
	local, ok := e.index.Local(shard, series.ID(id))
	if !ok {
		return cut
	}
	var room [256]byte
	key, err := e.index.Key(local, room[:0])
	if err != nil {
		return cut
	}
	return max(cut, table.of(key))
}

// worked says which cuts of rules a segment was written with.
type worked struct {
	Rules  uint32 `json:"rules"`  // checksum of the rules
	Passed int    `json:"passed"` // so many of them had passed all of its samples
}

// ofRules returns how many cuts of rules have passed a segment in all of its shards that have
// a replica here. Not ok: there are none, or they do not agree yet.
func (c *shardCuts) ofRules(e *Engine, m *segment.Meta) (w worked, ok bool) {
	w.Passed = math.MaxInt
	for shard := int(m.ShardLow); shard <= int(m.ShardHigh) && shard < len(c.rules); shard++ {
		if !e.shards[shard].here() {
			continue
		}
		table := c.rules[shard]
		if table == nil || ok && table.sum() != w.Rules {
			return worked{}, false
		}
		w.Rules, w.Passed, ok = table.sum(), min(w.Passed, table.passed(m.MaxMs)), true
	}
	return w, ok
}

// work notes which cuts of rules new segments were written with, and forgets segments that
// are no more.
func (m *manifest) work(e *Engine, metas []segment.Meta, cuts *shardCuts) {
	next := map[string]worked{}
	for i := range m.Segments {
		if w, ok := m.Worked[m.Segments[i].Name]; ok {
			next[m.Segments[i].Name] = w
		}
	}
	for i := range metas {
		if w, ok := cuts.ofRules(e, &metas[i]); ok && w.Passed > 0 {
			next[metas[i].Name] = w
		}
	}
	m.Worked = next
}

// planRules returns the job that takes samples out of a segment which a cut of some rule has
// passed since it was written. The caller holds the maintenance lock.
func (e *Engine) planRules(limits *jobLimits) (segment.Job, bool) {
	cuts := e.shardCuts()
	for i := range e.manifest.Segments {
		m := &e.manifest.Segments[i]
		if m.Damaged || m.Level == math.MaxUint8 || !limits.allow(m) {
			continue
		}
		w, ok := cuts.ofRules(e, m)
		if before := e.manifest.Worked[m.Name]; ok && w.Passed > 0 && (before.Rules != w.Rules || before.Passed < w.Passed) {
			return rewriteJob(m, "retention rules"), true
		}
	}
	return segment.Job{}, false
}
