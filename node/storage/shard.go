package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/exemplar"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

const (
	noDoubt = math.MaxUint32
)

// ErrStalled reports that an entry is in the log but cannot be applied yet, because
// the disk does not take what applying it writes. The engine keeps such entries
// in order; Resume applies them when the disk takes writes again.
var ErrStalled = errors.New("storage has stalled")

// shard is the state of one shard: hot pages and the place in its log.
type shard struct {
	number uint16
	engine *Engine
	cutMs  atomic.Int64                    // samples before it are gone
	rules  atomic.Pointer[retention.Table] // cuts of some series; nil: none
	thin   atomic.Pointer[thinCuts]        // cuts before which hours are thinned
	// By these cuts files may be thinned: see PrepareThin.
	thinned atomic.Pointer[retention.Table]
	absent  atomic.Bool // it was dropped, and nothing has been applied since

	forgotten *index.Forgotten // ids that are forgotten

	resuming sync.Mutex // held by who resumes, as mu is not held all the time then

	mu struct {
		sync.Mutex
		set        *page.Set
		outOfOrder outOfOrder
		applied    uint64 // index of the last entry
		backlog    []backlogEntry
		stall      error // why the backlog's first entry could not be applied
		reader     series.BatchReader
		slots      []slot
		points     points
		ledger     dedup.Ledger
		exemplars  exemplar.Ring

		// Of the present replica: see manifest.LowWater.
		number      uint64
		logPosition uint64

		watches watches
		// Repairs since the start have replaced samples from here to there: what the heads
		// know of newest samples in it may be of what was replaced.
		repaired segment.TimeRange

		// Of the entry of samples that is being applied: what there is in hours that it has, see hours.go.
		hours knownHours

		doubtful uint32 // ids from here on are not what the log says: see DoubtIDs
	}
}

// slot is a definition of the batch that is being applied.
type slot struct {
	key series.Key // nil once id or err is known
	id  uint32
	err error // why it cannot be a series
}

type backlogEntry struct {
	epoch uint16
	entry entry.Entry
}

func newShard(engine *Engine, number uint16, applied uint64, cutMs int64, rules *retention.Table, batches dedup.Table) *shard {
	s := &shard{number: number, engine: engine}
	s.cutMs.Store(cutMs)
	s.rules.Store(rules)
	s.mu.applied, s.mu.doubtful = applied, noDoubt
	s.mu.watches.leastMs = math.MaxInt64
	s.mu.repaired = segment.TimeRange{FromMs: math.MaxInt64, ToMs: math.MinInt64}
	s.mu.ledger = dedup.NewLedger(batches, applied)
	s.mu.set = page.NewSet(page.Options{
		Sealer: s, Arena: &engine.arena, OnDay: func(id uint32, timeMs int64) { engine.index.MarkActiveWithin(number, series.ID(id), timeMs, timeMs) },
	})
	return s
}

// Seal implements page.Sealer: the page goes to the page log.
func (s *shard) Seal(id, previous uint32, payload []byte, late bool) (uint32, error) {
	ref, err := s.engine.appendPage(s.number, id, pagelog.Ref(previous), payload)
	if err == nil && late {
		s.markOutOfOrderLocked(id)
	}
	return uint32(ref), err
}

// markOutOfOrderLocked notes that a series' pages are not in order of time.
func (s *shard) markOutOfOrderLocked(id uint32) {
	generation, _ := s.engine.pages.End()
	s.mu.outOfOrder.mark(id, generation)
}

// apply applies an entry or puts it behind those that stall.
func (s *shard) apply(epoch uint16, e *entry.Entry) error {
	s.engine.relieve()
	s.engine.makeRoom()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.backlog) == 0 { // and stays so: nobody else adds to it
		same, err := s.lookUpHoursLocked(e)
		for !same {
			same, err = s.lookUpHoursLocked(e)
		}
		if err == nil {
			err = s.applyLocked(epoch, e)
		}
		if !errors.Is(err, ErrStalled) {
			return err
		}
		s.mu.stall = err
	}
	kept := *e
	kept.Body = append([]byte(nil), e.Body...)
	s.mu.backlog = append(s.mu.backlog, backlogEntry{epoch, kept})
	return s.stalledLocked()
}

func (s *shard) stalledLocked() error { return fmt.Errorf("shard %d: %w", s.number, s.mu.stall) }

// resume applies the entries that have stalled.
func (s *shard) resume() error {
	s.resuming.Lock()
	defer s.resuming.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.backlog) > 0 {
		b := s.mu.backlog[0]
		same, err := s.lookUpHoursLocked(&b.entry)
		if !same {
			continue // what stalled was of the replica before
		}
		if err == nil {
			err = s.applyLocked(b.epoch, &b.entry)
		}
		if errors.Is(err, ErrStalled) {
			s.mu.stall = err
			return s.stalledLocked()
		}
		if err != nil && !entry.OnlyIs(err, series.ErrEra) {
			s.engine.log.Error("a part of a log entry cannot be applied and is passed over", "error", err)
		}
		s.mu.backlog[0] = backlogEntry{}
		s.mu.backlog = s.mu.backlog[1:]
	}
	s.mu.backlog, s.mu.stall = nil, nil
	return nil
}

// applyLocked applies an entry. Anything but ErrStalled concerns what the entry
// says and would be the same on every replica: it is counted and skipped.
func (s *shard) applyLocked(epoch uint16, e *entry.Entry) error {
	if e.Index == 1 && (s.forgotten.Some() || s.engine.index.Gaps(s.number)) {
		// What replicas before have forgotten is to be given again. At a start, what this one is going to forget is not
		// among it yet; and what a gap of the log has forgotten stays so.
		if err := s.engine.index.BeginAgain(s.number); err != nil {
			return stalled(err)
		}
	}
	var err error
	switch e.Kind {
	case entry.Samples:
		err = s.applySamplesLocked(epoch, e)
	case entry.Delete:
		err = s.applyDeleteLocked(e.Index, e.Body)
	case entry.NamedDelete:
		err = s.applyNamedDeleteLocked(epoch, e)
	case entry.Retention:
		err = s.applyRetentionLocked(e)
	case entry.RuleCuts:
		err = s.applyRuleCutsLocked(e)
	case entry.ThinCuts:
		err = s.applyThinCutsLocked(e)
	case entry.Forget:
		err = s.applyForgetLocked(e)
	case entry.Exemplars:
		err = s.applyExemplarsLocked(e)
	case entry.Empty, entry.Configuration:
	default:
		err = fmt.Errorf("%w: kind %d", entry.ErrInvalid, e.Kind)
	}
	if errors.Is(err, ErrStalled) {
		s.mu.ledger.Restart()
		return err
	}
	s.mu.ledger.Finish()
	if s.absent.Load() {
		s.absent.Store(false)
	}
	if err != nil {
		s.engine.stats.entriesInvalid.Add(1)
		err = fmt.Errorf("shard %d, entry %d: %w", s.number, e.Index, err)
	}
	s.mu.applied = e.Index
	if s.forgotten.Awaited(e.Index) {
		s.engine.index.EndAwaited(s.number, e.Index)
	}
	s.mu.watches.finish(e.Index)
	return err
}

// applySamplesLocked applies the batches of an entry. Each stands for itself: what
// is wrong with one does not touch the others, which other writers may have sent.
func (s *shard) applySamplesLocked(epoch uint16, e *entry.Entry) error {
	p := &s.mu.points
	p.begin(epoch, min(s.engine.index.ShardSeries(s.number), s.mu.doubtful), s.cutMs.Load(), s.thin.Load().mostMs)
	var refused *entry.BatchError
	batches := entry.ReadBatches(e.Body)
	for number := 0; batches.Next(); number++ {
		var err error
		if batches.ID.Session == 0 {
			err = s.applyBatchLocked(batches.Batch)
		} else {
			err = s.applyOnceLocked(epoch, e.Index, &batches)
		}
		if errors.Is(err, ErrStalled) {
			return err
		}
		if err != nil {
			refused = refused.With(number, err)
		}
	}
	if err := batches.Err(); err != nil {
		return errors.Join(err, s.appendLocked())
	}
	err := s.appendLocked()
	if err == nil && refused != nil {
		return refused
	}
	return err
}

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

// readDefinitionsLocked begins to read a batch.
func (s *shard) readDefinitionsLocked(batch []byte) {
	r := &s.mu.reader
	r.Reset(batch)
	s.mu.slots = s.mu.slots[:0]
	for {
		key, ok := r.NextDefinition()
		if !ok {
			return
		}
		s.mu.slots = append(s.mu.slots, slot{key: key})
	}
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

func stalled(err error) error { return fmt.Errorf("%w: %w", ErrStalled, err) }

// slotLocked returns the id of a definition of the batch that is being applied. A
// series is made when its first sample comes.
func (s *shard) slotLocked(n uint32, timeMs int64) (uint32, error) {
	if n >= uint32(len(s.mu.slots)) {
		return 0, fmt.Errorf("%w: a point names definition %d of %d", series.ErrBatch, n, len(s.mu.slots))
	}
	slot := &s.mu.slots[n]
	if slot.key != nil && slot.err == nil {
		id, err := s.engine.defineSeries(s.number, slot.key, timeMs)
		if errors.Is(err, ErrStalled) {
			return 0, err
		}
		slot.id, slot.key, slot.err = uint32(id), nil, err
	}
	return slot.id, slot.err
}

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

func (s *shard) applyRetentionLocked(e *entry.Entry) error {
	cutMs, err := entry.ParseRetentionBody(e.Body)
	if err != nil {
		return err
	}
	if cutMs > s.cutMs.Load() {
		s.mu.watches.touch(retention.NoCut)
		s.cutMs.Store(cutMs)
	}
	s.cutExemplarsLocked(e.Index, func(series.Key) int64 { return cutMs })
	return nil
}
