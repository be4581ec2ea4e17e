package storage

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// Apply applies an entry of a shard's log; epoch grows with the checkpoints, see
// Checkpoint. ErrStalled means that the entry is kept and waits for Resume. A
// *entry.BatchError names the batches that were wrong; entry.ErrInvalid means that the entry was, which is
// then passed over.
func (e *Engine) Apply(epoch uint16, one *entry.Entry) error {
	if int(one.Shard) >= len(e.shards) {
		e.stats.entriesInvalid.Add(1)
		return fmt.Errorf("%w: shard %d of %d", entry.ErrInvalid, one.Shard, len(e.shards))
	}
	return e.shards[one.Shard].apply(epoch, one)
}

// Resume applies what has stalled, in order. Nil means that nothing stalls now.
func (e *Engine) Resume() error {
	for _, s := range e.shards {
		if err := s.resume(); err != nil {
			return err
		}
	}
	return nil
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
