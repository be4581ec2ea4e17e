package commit

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// LogIndex describes where in the node's log the entries of groups with several members are.
// It implements replica.Log. The entries of a single-voter group are nobody else's concern
// and are not indexed.
type LogIndex struct {
	log    Records
	shards []shardIndex
}

// shardIndex are the positions of consecutive entries.
type shardIndex struct {
	first     uint64 // index of the first position
	positions []wal.Position
}

func newLogIndex(log Records, shards int) *LogIndex {
	return &LogIndex{log: log, shards: make([]shardIndex, shards)}
}

// add notes the entries of a round that was written from start on.
func (x *LogIndex) add(r *Round, start wal.Position) {
	for i := range r.replica.Appends {
		a := &r.replica.Appends[i]
		if a.Commit == a.Index {
			x.shards[a.Shard] = shardIndex{}
			continue
		}
		x.shards[a.Shard].add(a.Index, start+wal.Position(r.records[i]))
	}
}

// add notes one entry, which replaces those from its index on.
func (s *shardIndex) add(index uint64, position wal.Position) {
	if len(s.positions) == 0 || index < s.first || index > s.first+uint64(len(s.positions)) {
		s.first, s.positions = index, append(s.positions[:0], position)
		return
	}
	s.positions = append(s.positions[:index-s.first], position)
}

// trim forgets the entries up to index.
func (s *shardIndex) trim(index uint64) {
	if index < s.first || len(s.positions) == 0 {
		return
	}
	n := min(index+1-s.first, uint64(len(s.positions)))
	s.first += n
	s.positions = append(s.positions[:0], s.positions[n:]...)
}

// from returns the position of the first entry after index, if there is one.
func (s *shardIndex) from(index uint64) (wal.Position, bool) {
	at := uint64(0)
	if index+1 > s.first {
		at = index + 1 - s.first
	}
	if at >= uint64(len(s.positions)) {
		return 0, false
	}
	return s.positions[at], true
}

// unindexed returns the last entry before those that are indexed.
func (s *shardIndex) unindexed() uint64 {
	if len(s.positions) == 0 {
		return math.MaxUint64
	}
	return s.first - 1
}

// term returns the term of an entry that is indexed; 0: it cannot be told.
func (x *LogIndex) term(shard uint16, index uint64) uint64 {
	entries, err := x.Entries(shard, index, index+1, 0)
	if err != nil || len(entries) == 0 {
		return 0
	}
	return entries[0].Term
}

// Entries implements replica.Log.
func (x *LogIndex) Entries(shard uint16, lo, hi uint64, bytesMax int) ([]replica.Entry, error) {
	s := &x.shards[shard]
	if lo < s.first || hi > s.first+uint64(len(s.positions)) || lo >= hi {
		return nil, fmt.Errorf("%w: shard %d, entries %d to %d", replica.ErrTruncated, shard, lo, hi)
	}
	var entries []replica.Entry
	for index := lo; index < hi; index++ {
		record, err := x.log.Record(s.positions[index-s.first], nil)
		if err != nil {
			return nil, err
		}
		e, err := entry.Parse(record)
		if err != nil {
			return nil, err
		}
		if e.Shard != shard || e.Index != index {
			return nil, fmt.Errorf("%w: the log has entry %d of shard %d where entry %d of shard %d was", entry.ErrInvalid,
				e.Index, e.Shard, index, shard)
		}
		if bytesMax -= len(e.Body); bytesMax < 0 && len(entries) > 0 {
			break
		}
		entries = append(entries, replica.Entry{Kind: uint8(e.Kind), Term: e.Term, Index: e.Index, Body: e.Body})
	}
	return entries, nil
}
