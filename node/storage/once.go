package storage

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// applyOnceLocked applies a batch that has an id, unless it was applied before.
// Errors: series.ErrBatchOld and those of applyBatchLocked.
func (s *shard) applyOnceLocked(epoch uint16, entry uint64, b *entry.Batches) error {
	return s.onceLocked(epoch, entry, b.ID, b.TimeMs, func() error { return s.applyBatchLocked(b.Batch) })
}

// applyNamedDeleteLocked applies a delete, unless it was applied before. What is wrong
// with it is told as of the only batch of an entry of samples.
func (s *shard) applyNamedDeleteLocked(epoch uint16, e *entry.Entry) error {
	timeMs, id, body, err := entry.ParseNamedDeleteBody(e.Body)
	if err != nil {
		return err
	}
	err = s.onceLocked(epoch, e.Index, id, timeMs, func() error { return s.applyDeleteLocked(e.Index, body) })
	if err == nil || errors.Is(err, ErrStalled) {
		return err
	}
	var refused *entry.BatchError
	return refused.With(0, err)
}

// onceLocked applies what has an id, unless that was applied before.
func (s *shard) onceLocked(epoch uint16, entry uint64, id series.BatchID, timeMs int64, apply func() error) error {
	l := &s.mu.ledger
	verdict := l.Judge(epoch, entry, id, timeMs)
	var err error
	switch verdict {
	case dedup.Repeated:
		s.engine.stats.batchesRepeated.Add(1)
	case dedup.Old:
		err = fmt.Errorf("%w: counter %d of session %x", series.ErrBatchOld, id.Counter, id.Session)
	case dedup.Fresh:
		if err = apply(); errors.Is(err, ErrStalled) {
			return err
		}
	}
	l.Record(id, verdict, err != nil)
	return err
}
