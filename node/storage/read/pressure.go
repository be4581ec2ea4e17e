package read

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// pressure notices when memory does not hold the files that scans read. Only then
// scans ask for what they will read: it costs system calls for each series.
type pressure struct {
	faults atomic.Int64 // of the process when a scan last looked
	scans  atomic.Int64 // that are still to ask
}

// prefetchScans is how many scans ask after one has met a block that was not in
// memory: what was asked for in time makes no faults.
const prefetchScans = 64

// next reports whether the next scan should ask. faults is how often the process has
// waited for the disk since its start because of a mapped file.
func (s *pressure) next(faults int64) bool {
	if s.faults.Swap(faults) != faults {
		s.scans.Store(prefetchScans)
		return true
	}
	return s.scans.Load() > 0 && s.scans.Add(-1) >= 0
}

// underPressure reports whether a scan should ask for what it reads.
func (s *Source) underPressure() bool { return s.o.Prefetch || s.memory.next(vfs.MajorFaults()) }

// prefetch asks for what reading the series touches in segments: first what the index
// has of all of them, then their blocks, so that the disk reads many at once. Of a segment
// with the rollups that are wanted it asks for these instead: most of its blocks are not
// read, and those that are after all are read as if nothing had been asked for.
func (r *Reader) prefetch(refs []series.Ref, fromMs, toMs int64, plan *rollupPlan) {
	for _, ref := range refs {
		for _, i := range r.candidates(ref.Shard, fromMs, toMs) {
			reader := r.Version.Segments[i]
			reader.PrefetchIndex(ref.Shard, uint32(ref.ID), fromMs)
			if plan.servedBy(reader.Meta()) {
				plan.prefetch(reader, ref, fromMs)
			}
		}
	}
	for _, ref := range refs {
		for _, i := range r.candidates(ref.Shard, fromMs, toMs) {
			reader := r.Version.Segments[i]
			if plan.servedBy(reader.Meta()) {
				continue
			}
			if c := r.cursor(i); reader.Find(c, ref.Shard, uint32(ref.ID), fromMs, toMs) == nil {
				c.Prefetch()
			}
		}
	}
}
