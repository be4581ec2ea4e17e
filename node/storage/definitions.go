package storage

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
)

// slot is a definition of the batch that is being applied.
type slot struct {
	key series.Key // nil once id or err is known
	id  uint32
	err error // why it cannot be a series
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

// defineSeries returns the id of a key, a new one if it has none, with its first
// sample at timeMs.
func (e *Engine) defineSeries(shard uint16, key series.Key, timeMs int64) (series.ID, error) {
	ref, known, err := e.index.Lookup(key)
	if err != nil {
		return 0, stalled(err)
	}
	if known {
		return ref.ID, nil
	}
	if err := e.hit(FailSeriesCreate); err != nil {
		return 0, stalled(err)
	}
	id := series.ID(e.index.ShardSeries(shard))
	_, err = e.index.Create(shard, id, key, index.DayOf(timeMs))
	switch {
	case errors.Is(err, series.ErrKey):
		return 0, fmt.Errorf("%w: define series %s: %w", series.ErrBatch, key, err)
	case errors.Is(err, index.ErrFull):
		return 0, fmt.Errorf("%w: define series %s: %w", series.ErrSeriesLimit, key, err)
	}
	if err != nil {
		return 0, stalled(err)
	}
	if err := e.hit(FailSeriesCreated); err != nil {
		return 0, stalled(err)
	}
	return id, nil
}
