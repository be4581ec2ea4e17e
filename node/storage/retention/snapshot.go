package retention

import (
	"math"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Snapshot are the cuts of all shards at one moment.
type Snapshot struct {
	WholeMs []int64  // by shard: of all of its series
	Rules   []*Table // by shard
}

// Lists returns what a manifest keeps of rules; nil: nothing.
func (c *Snapshot) Lists() (lists [][]Cuts) {
	for shard, table := range c.Rules {
		lists = WithCuts(lists, len(c.Rules), uint16(shard), table.Lists())
	}
	return lists
}

// WithCuts returns a copy of a manifest's rule cuts with those of one shard changed.
func WithCuts(lists [][]Cuts, shards int, shard uint16, of []Cuts) [][]Cuts {
	if lists == nil && len(of) == 0 {
		return nil
	}
	next := make([][]Cuts, shards)
	copy(next, lists)
	next[shard] = of
	return next
}

// Of returns the time before which the samples of a series are gone. A key that cannot be
// read hides nothing.
func (c *Snapshot) Of(keys Keys, shard uint16, id uint32) int64 {
	if int(shard) >= len(c.WholeMs) {
		return NoCut
	}
	cut, err := c.Rules[shard].CutOf(keys, shard, id)
	if err != nil {
		cut = NoCut
	}
	return max(c.WholeMs[shard], cut)
}

// Merged describes which cuts of rules a segment was written with.
type Merged struct {
	Rules  uint32 `json:"rules"`  // checksum of the rules
	Passed int    `json:"passed"` // so many of them had passed all of its samples
}

// MergedInto returns how many cuts of rules have passed a segment in all of its shards that have
// a replica here. Not ok: there are none, or they do not agree yet.
func (c *Snapshot) MergedInto(m *segment.Meta, here func(shard uint16) bool) (w Merged, ok bool) {
	w.Passed = math.MaxInt
	for shard := int(m.ShardLow); shard <= int(m.ShardHigh) && shard < len(c.Rules); shard++ {
		if !here(uint16(shard)) {
			continue
		}
		table := c.Rules[shard]
		if table == nil || ok && table.sum() != w.Rules {
			return Merged{}, false
		}
		w.Rules, w.Passed, ok = table.sum(), min(w.Passed, table.passed(m.MaxMs)), true
	}
	return w, ok
}
