package storage

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/page"
)

// applyBatchLocked applies a batch. It is refused as a whole, and nothing of it is done, with series.ErrEra when it
// names a series by an id that is forgotten.
func (s *shard) applyBatchLocked(batch []byte) error {
	r, p := &s.mu.reader, &s.mu.points
	if err := s.refuseForgottenLocked(batch); err != nil {
		return err
	}
	s.readDefinitionsLocked(batch)
	if series.HoursOf(batch) {
		return s.applyHoursLocked()
	}
	var refusal error
	for r.NextPoint() {
		id := r.Ref
		// Below a cut, or beyond all times that are kept: see points.begin.
		if uint64(r.TimeMs-p.fromMs) > p.spanMs && s.leftOutLocked(id, r.TimeMs) {
			continue
		}
		if id >= uint32(series.SlotBase) {
			var err error
			id, err = s.slotLocked(id-uint32(series.SlotBase), r.TimeMs)
			if errors.Is(err, ErrStalled) {
				return err
			}
			if err != nil {
				s.engine.stats.samplesSkipped.Add(1)
				refusal = err
				continue
			}
		} else if id >= p.known {
			s.engine.stats.samplesSkipped.Add(1)
			continue
		}
		p.ids[p.count], p.times[p.count], p.mantissas[p.count], p.scales[p.count] = id, r.TimeMs, unmarked(r), r.Scale
		p.count++
		if p.count == len(p.ids) {
			if err := s.appendLocked(); err != nil {
				return err
			}
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	return refusal
}

// points are the next samples of an entry. They are gathered so that the memory
// of their series can be fetched for all of them at once.
type points struct {
	epoch  uint16
	known  uint32 // ids below it have a series
	cutMs  int64  // the first time that is kept
	fromMs int64  // the first time that all series keep,
	spanMs uint64 // and how much further the last one is

	count     int
	ids       [page.WarmMax]uint32
	times     [page.WarmMax]int64
	mantissas [page.WarmMax]int64
	scales    [page.WarmMax]uint8
}

// begin starts an entry. Samples before cutMs are beyond retention; those outside
// of scan.TimeMsMin to scan.TimeMsMax could not be asked for, and have no partition. Before thinMs some series take none.
func (p *points) begin(epoch uint16, known uint32, cutMs, thinMs int64) {
	p.epoch, p.known, p.count = epoch, known, 0
	p.cutMs = min(max(cutMs, scan.TimeMsMin), scan.TimeMsMax)
	p.fromMs = min(max(p.cutMs, thinMs), scan.TimeMsMax)
	p.spanMs = uint64(scan.TimeMsMax - p.fromMs)
}

// leftOutLocked reports whether a sample of the batch that is being applied is not taken, and counts it then.
func (s *shard) leftOutLocked(id uint32, timeMs int64) bool {
	if timeMs < s.mu.points.cutMs || timeMs > scan.TimeMsMax {
		s.engine.stats.samplesSkipped.Add(1)
		return true
	}
	if !s.tooLateLocked(id, timeMs) {
		return false
	}
	s.engine.stats.samplesTooLate.Add(1)
	return true
}

// appendLocked appends the gathered points to the hot pages.
func (s *shard) appendLocked() error {
	p, set := &s.mu.points, s.mu.set
	set.Warm(p.ids[:p.count])
	s.mu.watches.touchAll(p.times[:p.count])
	var err error
	for i := 0; i < p.count && err == nil; i++ {
		err = set.Append(p.ids[i], p.times[i], p.mantissas[i], p.scales[i], p.epoch)
	}
	if err != nil {
		return stalled(err)
	}
	s.engine.stats.samples.Add(int64(p.count))
	p.count = 0
	return nil
}
