package storage

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Damages returns what cannot be read of the shards that are here, by shard and time.
func (e *Engine) Damages() []manifest.Damage {
	return e.files.Damages(len(e.shards), func(shard uint16) (int64, bool) {
		s := e.shards[shard]
		return s.cutMs.Load(), s.Holds()
	})
}

// Hosted implements read.Shard and transfer.Shard.
func (s *shard) Hosted() bool { return !s.absent.Load() }

// Cut implements read.Shard and transfer.Shard.
func (s *shard) Cut() int64 { return s.cutMs.Load() }

// Snapshot implements read.Shard.
func (s *shard) Snapshot(id, oldest uint32, hot *page.Hot) (replica uint64, ordered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.set.Snapshot(id, hot)
	return s.mu.number, s.mu.outOfOrder.ordered(id, oldest)
}

// Heads implements read.Shard.
func (s *shard) Heads(refs []series.Ref, heads []read.Head) (replica uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range refs {
		h := &heads[i]
		h.TimeMs, h.Number, h.Known = s.mu.set.Last(uint32(refs[i].ID))
		h.Known = h.Known && !s.mu.repaired.Has(h.TimeMs)
	}
	return s.mu.number
}

// Holds implements transfer.Shard.
func (s *shard) Holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.applied > 0 && !s.absent.Load()
}

// Applied implements transfer.Shard.
func (s *shard) Applied() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.applied
}

// Forgotten implements transfer.Shard.
func (s *shard) Forgotten() *index.Forgotten { return s.forgotten }

// Rules implements transfer.Shard.
func (s *shard) Rules() *retention.Table { return s.rules.Load() }

// Thin implements transfer.Shard.
func (s *shard) Thin() *retention.Table { return s.thin.Load().table }

// Exact implements transfer.Shard.
func (s *shard) Exact() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exactLocked()
}

func (s *shard) exactLocked() error {
	switch {
	case s.absent.Load():
		return fmt.Errorf("%w: there is no replica of shard %d", series.ErrUnavailable, s.number)
	case s.mu.doubtful != noDoubt:
		return fmt.Errorf("%w: the log lacks entries of shard %d", series.ErrUnavailable, s.number)
	case len(s.mu.backlog) > 0:
		return s.stalledLocked()
	}
	return nil
}

// Pin implements transfer.Shard.
func (s *shard) Pin() (transfer.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.exactLocked(); err != nil {
		return transfer.State{}, err
	}
	return transfer.State{
		Replica: s.mu.number, Applied: s.mu.applied, CutMs: s.cutMs.Load(), Rules: s.rules.Load(), Thin: s.thin.Load().table, Batches: s.mu.ledger.Now(),
		Exemplars: s.mu.exemplars.Append(nil),
		Forgotten: s.forgotten.IDs(),
	}, nil
}

// SealAll implements transfer.Shard.
func (s *shard) SealAll() (replica uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.exactLocked(); err != nil {
		return 0, err
	}
	if err = s.mu.set.SealAll(); err != nil {
		return 0, stalled(err)
	}
	return s.mu.number, nil
}

// UnchangedSince implements transfer.Shard.
func (s *shard) UnchangedSince(toMs int64) (since, applied uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.watches.since(toMs, s.mu.applied), s.mu.applied
}

// Replace implements transfer.Shard.
func (s *shard) Replace(r *transfer.Replica, show func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.set.Close()
	s.mu.outOfOrder = outOfOrder{}
	s.mu.applied, s.mu.backlog, s.mu.stall, s.mu.doubtful = r.Applied, nil, nil, noDoubt
	s.mu.ledger = dedup.NewLedger(r.Batches, r.Applied)
	s.replaceExemplarsLocked(r.Exemplars)
	s.mu.number, s.mu.logPosition = r.Number, r.LogPosition
	s.mu.watches.restart(math.MaxInt64)
	s.cutMs.Store(r.CutMs)
	s.rules.Store(r.Rules)
	s.thin.Store(newThinCuts(r.Thin, r.Applied, nil))
	s.thinned.Store(nil)
	s.absent.Store(r.Dropped)
	if !r.Dropped {
		if err := s.engine.index.ReplaceForgotten(s.number, r.Forgotten); err != nil {
			s.engine.reportCorruption(err)
		}
	}
	show()
}

// Repaired implements transfer.Shard.
func (s *shard) Repaired(within segment.TimeRange, show func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.watches.restart(s.mu.watches.leastMs)
	s.mu.repaired = segment.TimeRange{FromMs: min(s.mu.repaired.FromMs, within.FromMs), ToMs: max(s.mu.repaired.ToMs, within.ToMs)}
	show()
}
