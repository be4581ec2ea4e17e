package storage

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// scarcity notices when memory does not hold the files that scans read. Only then
// scans ask for what they will read: it costs system calls for each series.
type scarcity struct {
	faults atomic.Int64 // of the process when a scan last looked
	scans  atomic.Int64 // that are still to ask
}

// scarceScans is how many scans ask after one has met a block that was not in
// memory: what was asked for in time makes no faults.
const scarceScans = 64

// next says whether the next scan should ask. faults is how often the process has
// waited for the disk since its start because of a mapped file.
func (s *scarcity) next(faults int64) bool {
	if s.faults.Swap(faults) != faults {
		s.scans.Store(scarceScans)
		return true
	}
	return s.scans.Load() > 0 && s.scans.Add(-1) >= 0
}

// memoryIsScarce says whether a scan should ask for what it reads. Under invariants
// all do, as it must not change an answer.
func (e *Engine) memoryIsScarce() bool { return invariants || e.scarcity.next(vfs.MajorFaults()) }

// prefetch asks for what reading the series touches in segments: first what the index
// has of all of them, then their blocks, so that the disk reads many at once.
func (r *seriesReader) prefetch(refs []series.Ref, fromMs, toMs int64) {
	for _, ref := range refs {
		for _, reader := range r.version.segments {
			if r.mayHave(reader.Meta(), ref, fromMs, toMs) {
				reader.PrefetchIndex(ref.Shard, uint32(ref.ID), fromMs)
			}
		}
	}
	for _, ref := range refs {
		for i, reader := range r.version.segments {
			if !r.mayHave(reader.Meta(), ref, fromMs, toMs) {
				continue
			}
			if c := &r.cursors[i]; reader.Find(c, ref.Shard, uint32(ref.ID), fromMs, toMs) == nil {
				c.Prefetch()
			}
		}
	}
}

// mayHave says whether a segment can have visible samples of a series within a range.
func (r *seriesReader) mayHave(m *segment.Meta, ref series.Ref, fromMs, toMs int64) bool {
	return m.MaxMs >= fromMs && m.MinMs <= toMs && ref.Shard >= m.ShardLow && ref.Shard <= m.ShardHigh &&
		!r.version.floors[ref.Shard].hidesSegment(m.SequenceHigh)
}
