package storage

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
)

func (s *shard) applyDeleteLocked(index uint64, body []byte) error {
	ids, fromMs, toMs, err := entry.ParseDeleteBody(body)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, s.forgotten.Has) // they have nothing
	if ids = s.trustedLocked(ids, "a delete"); len(ids) == 0 {
		return nil
	}
	s.deleteExemplarsLocked(index, ids, fromMs, toMs)
	for _, d := range s.wholeHoursLocked(ids, fromMs, toMs) {
		if err := s.deleteLocked(index, d); err != nil {
			return err
		}
	}
	if fromMs <= scan.TimeMsMin && toMs >= scan.TimeMsMax {
		s.emptyLocked(ids)
	}
	return nil
}

func (s *shard) deleteLocked(index uint64, d deletion) error {
	s.mu.watches.touch(d.fromMs)
	for _, id := range d.ids {
		if err := s.mu.set.SealSeries(id); err != nil {
			return stalled(err)
		}
		s.mu.set.ForgetLast(id) // it may be among the deleted
		s.markOutOfOrderLocked(id)
	}
	s.engine.files.AddTombstone(manifest.Tombstone{Shard: s.number, IDs: d.ids, FromMs: d.fromMs, ToMs: d.toMs, Entry: index}, s.engine.pages.End)
	return nil
}

// trustedLocked returns those of growing ids that are certain to be of the series that the log
// means: see Replay. What is deleted of others would be lost for good.
func (s *shard) trustedLocked(ids []uint32, what string) []uint32 {
	n, _ := slices.BinarySearch(ids, s.mu.doubtful)
	if n < len(ids) {
		s.engine.reportCorruption(fmt.Errorf("shard %d: %s passes over %d series: behind a gap in the log it is not known which they are",
			s.number, what, len(ids)-n))
	}
	return ids[:n]
}

// emptyLocked makes queries pass over series of which a delete has taken all samples. The next
// one marks them again, as their heads know nothing.
func (s *shard) emptyLocked(ids []uint32) {
	locals := make([]uint32, 0, len(ids))
	for _, id := range ids {
		if _, _, known := s.mu.set.Last(id); known {
			continue // a head that could not forget would not mark them
		}
		if local, ok := s.engine.index.Local(s.number, series.ID(id)); ok {
			locals = append(locals, local)
		}
	}
	s.engine.index.Empty(locals)
}
