package storage

import (
	"fmt"

	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// ruleTables returns the tables of all shards, some of them nil.
func (e *Engine) ruleTables() []*retention.Table {
	tables := make([]*retention.Table, len(e.shards))
	for i, s := range e.shards {
		tables[i] = s.rules.Load()
	}
	return tables
}

// ShardRuleCuts returns the lists of cuts that a shard has, whose rules differ. The last one
// holds now. They must not be changed.
func (e *Engine) ShardRuleCuts(shard uint16) []retention.Cuts {
	return e.shards[shard].rules.Load().Lists()
}

func (s *shard) applyRuleCutsLocked(e *entry.Entry) error {
	c, err := retention.Decode(e.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", entry.ErrInvalid, err)
	}
	table, err := s.rules.Load().With(c, s.cutMs.Load(), s.engine.ruleTables())
	if err != nil {
		return fmt.Errorf("%w: %w", entry.ErrInvalid, err)
	}
	s.mu.watches.touch(retention.NoCut)
	s.rules.Store(table)
	return s.cutExemplarsByRulesLocked(e.Index, c)
}

// cutExemplarsByRulesLocked removes the exemplars that are before the cuts of an entry.
func (s *shard) cutExemplarsByRulesLocked(index uint64, cuts retention.Cuts) error {
	if s.mu.exemplars.Len() == 0 {
		return nil
	}
	table, err := retention.NewTable([]retention.Cuts{cuts}, s.engine.ruleTables())
	if err != nil {
		return fmt.Errorf("%w: %w", entry.ErrInvalid, err)
	}
	s.cutExemplarsLocked(index, table.Of)
	return nil
}

// CutOf returns the time before which the samples of a series are gone.
func (s *shard) CutOf(id uint32) (int64, error) {
	cut, err := s.rules.Load().CutOf(s.engine.index, s.number, id)
	return max(s.cutMs.Load(), cut), err
}

func (e *Engine) shardCuts() retention.Snapshot {
	c := retention.Snapshot{WholeMs: make([]int64, len(e.shards)), Rules: make([]*retention.Table, len(e.shards))}
	for i, s := range e.shards {
		c.WholeMs[i], c.Rules[i] = s.cutMs.Load(), s.rules.Load()
	}
	return c
}
