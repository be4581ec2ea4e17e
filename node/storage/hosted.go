package storage

import (
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/read"
)

// here reports whether the shard has a replica that may have samples.
func (s *shard) here() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.applied > 0 && !s.absent.Load()
}

// hosts reports whether a shard has a replica here that may have samples.
func (e *Engine) hosts(shard uint16) bool { return e.shards[shard].here() }

// Damages returns what cannot be read of the shards that are here, by shard and time.
func (e *Engine) Damages() []manifest.Damage {
	return e.files.Damages(len(e.shards), func(shard uint16) (int64, bool) {
		s := e.shards[shard]
		return s.cutMs.Load(), s.here()
	})
}

// Hosted implements read.Shard.
func (s *shard) Hosted() bool { return !s.absent.Load() }

// Cut implements read.Shard.
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
