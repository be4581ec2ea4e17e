package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

const (
	shardsMax = 1 << 12
	noCut     = math.MinInt64
)

// ErrStalled says that an entry is in the log but cannot be applied yet, because
// the disk does not take what applying it writes. The engine keeps such entries
// in order; Resume applies them when the disk takes writes again.
var ErrStalled = errors.New("storage has stalled")

// shard is the state of one shard: hot pages and the place in its log.
type shard struct {
	number uint16
	engine *Engine
	cutMs  atomic.Int64 // samples before it are gone

	mu struct {
		sync.Mutex
		set      *page.Set
		disorder disorder
		applied  uint64 // index of the last entry
		backlog  []backlogEntry
		reader   series.BatchReader
		slots    []slot
		points   points
	}
}

// slot is a definition of the batch that is being applied.
type slot struct {
	key series.Key // nil once the id is known
	id  uint32
}

type backlogEntry struct {
	epoch uint16
	entry Entry
}

func newShard(engine *Engine, number uint16, applied uint64, cutMs int64) *shard {
	s := &shard{number: number, engine: engine}
	s.cutMs.Store(cutMs)
	s.mu.applied = applied
	s.mu.set = page.NewSet(page.Options{Sealer: s, Arena: &engine.arena})
	return s
}

// Seal implements page.Sealer: the page goes to the page log.
func (s *shard) Seal(id, previous uint32, payload []byte, late bool) (uint32, error) {
	ref, err := s.engine.appendPage(s.number, id, pagelog.Ref(previous), payload)
	if err == nil && late {
		s.markDisorderLocked(id)
	}
	return uint32(ref), err
}

// markDisorderLocked notes that a series' pages are not in order of time.
func (s *shard) markDisorderLocked(id uint32) {
	generation, _ := s.engine.pages.End()
	s.mu.disorder.mark(id, generation)
}

// apply applies an entry or puts it behind those that stall.
func (s *shard) apply(epoch uint16, e *Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.backlog) == 0 {
		err := s.applyLocked(epoch, e)
		if !errors.Is(err, ErrStalled) {
			return err
		}
	}
	kept := *e
	kept.Body = append([]byte(nil), e.Body...)
	s.mu.backlog = append(s.mu.backlog, backlogEntry{epoch, kept})
	return fmt.Errorf("shard %d: %w", s.number, ErrStalled)
}

// resume applies the entries that have stalled.
func (s *shard) resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.backlog) > 0 {
		b := &s.mu.backlog[0]
		if err := s.applyLocked(b.epoch, &b.entry); errors.Is(err, ErrStalled) {
			return fmt.Errorf("shard %d: %w", s.number, err)
		}
		s.mu.backlog = s.mu.backlog[1:]
	}
	s.mu.backlog = nil
	return nil
}

// applyLocked applies an entry. Anything but ErrStalled concerns what the entry
// says and would be the same on every replica: it is counted and skipped.
func (s *shard) applyLocked(epoch uint16, e *Entry) error {
	var err error
	switch e.Kind {
	case EntrySamples:
		err = s.applySamplesLocked(epoch, e.Body)
	case EntryDelete:
		err = s.applyDeleteLocked(e.Body)
	case EntryRetention:
		err = s.applyRetentionLocked(e.Body)
	default:
		err = fmt.Errorf("%w: kind %d", ErrEntry, e.Kind)
	}
	if errors.Is(err, ErrStalled) {
		return err
	}
	if err != nil {
		s.engine.stats.entriesInvalid.Add(1)
		err = fmt.Errorf("shard %d, entry %d: %w", s.number, e.Index, err)
	}
	s.mu.applied = e.Index
	return err
}

func (s *shard) applySamplesLocked(epoch uint16, body []byte) error {
	p := &s.mu.points
	p.epoch, p.known, p.cutMs, p.count = epoch, s.engine.index.ShardSeries(s.number), s.cutMs.Load(), 0
	for len(body) > 0 {
		batch, rest, err := NextBatch(body)
		if err == nil {
			err = s.applyBatchLocked(batch)
		}
		if err != nil {
			return errors.Join(err, s.appendLocked())
		}
		body = rest
	}
	return s.appendLocked()
}

func (s *shard) applyBatchLocked(batch []byte) error {
	r, p := &s.mu.reader, &s.mu.points
	r.Reset(batch)
	s.mu.slots = s.mu.slots[:0]
	for {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		s.mu.slots = append(s.mu.slots, slot{key: key})
	}
	for r.NextPoint() {
		id := r.Ref
		if id >= uint32(series.SlotBase) {
			var err error
			if id, err = s.slotLocked(id-uint32(series.SlotBase), r.TimeMs); err != nil {
				return err
			}
			p.known = max(p.known, id+1)
		}
		if id >= p.known || r.TimeMs < p.cutMs {
			s.engine.stats.samplesSkipped.Add(1)
			continue
		}
		p.ids[p.count], p.times[p.count], p.mantissas[p.count], p.scales[p.count] = id, r.TimeMs, r.Mantissa, r.Scale
		p.count++
		if p.count == len(p.ids) {
			if err := s.appendLocked(); err != nil {
				return err
			}
		}
	}
	return r.Err()
}

// points are the next samples of an entry. They are gathered so that the memory
// of their series can be fetched for all of them at once.
type points struct {
	epoch uint16
	known uint32 // ids below it have a series
	cutMs int64  // older samples are beyond retention

	count     int
	ids       [page.WarmMax]uint32
	times     [page.WarmMax]int64
	mantissas [page.WarmMax]int64
	scales    [page.WarmMax]uint8
}

// appendLocked gives the gathered points to the hot pages.
func (s *shard) appendLocked() error {
	p, set := &s.mu.points, s.mu.set
	set.Warm(p.ids[:p.count])
	for i := range p.count {
		if err := set.Append(p.ids[i], p.times[i], p.mantissas[i], p.scales[i], p.epoch); err != nil {
			return stalled(err)
		}
	}
	s.engine.stats.samples.Add(int64(p.count))
	p.count = 0
	return nil
}

func stalled(err error) error { return fmt.Errorf("%w: %w", ErrStalled, err) }

// slotLocked gives the id of a definition of the batch that is being applied. A
// series is made when its first sample comes.
func (s *shard) slotLocked(n uint32, timeMs int64) (uint32, error) {
	if n >= uint32(len(s.mu.slots)) {
		return 0, fmt.Errorf("%w: a point names definition %d of %d", series.ErrBatch, n, len(s.mu.slots))
	}
	slot := &s.mu.slots[n]
	if slot.key != nil {
		id, err := s.engine.defineSeries(s.number, slot.key, timeMs)
		if err != nil {
			return 0, err
		}
		slot.id, slot.key = uint32(id), nil
	}
	return slot.id, nil
}

func (s *shard) applyDeleteLocked(body []byte) error {
	ids, fromMs, toMs, err := parseDeleteBody(body)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.mu.set.SealSeries(id); err != nil {
			return stalled(err)
		}
		s.mu.set.ForgetLast(id) // it may be among the deleted
		s.markDisorderLocked(id)
	}
	s.engine.addTombstone(Tombstone{Shard: s.number, IDs: ids, FromMs: fromMs, ToMs: toMs})
	return nil
}

func (s *shard) applyRetentionLocked(body []byte) error {
	cutMs, err := parseRetentionBody(body)
	if err != nil {
		return err
	}
	if cutMs > s.cutMs.Load() {
		s.cutMs.Store(cutMs)
	}
	return nil
}

func (s *shard) markHotLocked(fromID, toID uint32) {
	for id := fromID; id < toID; id++ {
		timeMs, _, ok := s.mu.set.Last(id)
		if !ok {
			continue
		}
		if local, ok := s.engine.index.Local(s.number, series.ID(id)); ok {
			s.engine.index.MarkActive(index.MonthOf(timeMs), local)
		}
	}
}
