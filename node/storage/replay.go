package storage

import (
	"fmt"

	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// Replay applies an entry of the log at a start. A shard's entries
// follow one another without a gap: where one is missing, because its record was
// damaged, the ids that it may have given to series are not known. Later entries
// that name series by ids from there on would be taken for the wrong ones, so such
// samples are skipped and counted until TrustIDs, and deletes pass over such series.
//
// Position is where the entry stands in the log. Entries of a replica of the shard
// that was dropped or replaced since are passed over, and so are those that the
// checkpoint knows: their samples are in pages, their batch ids in its table.
// Errors: as Apply.
func (e *Engine) Replay(position uint64, one *entry.Entry) error {
	if int(one.Shard) < len(e.shards) && !e.shards[one.Shard].follow(position, one.Index) {
		return nil
	}
	return e.Apply(0, one)
}

// follow looks for a gap before the entry with an index, and reports whether the
// entry is to be applied.
func (s *shard) follow(position, index uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if position < s.mu.logPosition || index <= s.mu.applied {
		return false
	}
	if len(s.mu.backlog) > 0 || index == s.mu.applied+1 {
		return true
	}
	known := s.engine.index.ShardSeries(s.number)
	s.mu.doubtful = min(s.mu.doubtful, known)
	s.engine.reportCorruption(fmt.Errorf("shard %d: the log lacks entries %d to %d: samples of series from %d on may be lost",
		s.number, s.mu.applied+1, index-1, known))
	s.forgetBehindGapLocked(index - 1)
	return true
}

// forgetBehindGapLocked forgets what entries up to one have forgotten that the log lacks, as far as the table on disk knows: it has
// the next ids of these keys, which later entries name.
func (s *shard) forgetBehindGapLocked(last uint64) {
	ids := s.engine.index.ForgottenBetween(s.number, s.mu.applied+1, last)
	if len(ids) == 0 {
		return
	}
	if err := s.engine.index.Forget(s.number, ids, last); err != nil {
		s.engine.reportCorruption(err)
	}
	for _, id := range ids {
		s.mu.set.Retire(id)
	}
}

// DoubtsIDs reports whether the replay has met a gap. The log must then not be
// replayed again: a checkpoint of all that was read comes before TrustIDs.
func (e *Engine) DoubtsIDs() bool {
	doubts := false
	for _, s := range e.shards {
		s.mu.Lock()
		doubts = doubts || s.mu.doubtful != noDoubt
		s.mu.Unlock()
	}
	return doubts
}

// TrustIDs ends the replay: from now on ids are those of this table.
func (e *Engine) TrustIDs() {
	for _, s := range e.shards {
		s.mu.Lock()
		s.mu.doubtful = noDoubt
		s.mu.Unlock()
	}
}
