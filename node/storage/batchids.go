package storage

import (
	"fmt"
	"log/slog"

	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/shardfile"
)

// batchIDs are the batch ids of all shards: in memory each shard's ledger, on disk one file, which
// the manifest names. It is guarded by the Edit of the manifest.
type batchIDs struct {
	files  dedup.Files
	shards []*shard
	log    *slog.Logger
}

// stage writes the batch ids that each shard knew after its applied entry. The forms of replaced
// shards are those of the replicas that come.
func (b *batchIDs) stage(applied []uint64, replaced map[uint16]dedup.Form) (shardfile.Staged, error) {
	forms := make([]dedup.Form, len(b.shards))
	for i, s := range b.shards {
		if form, ok := replaced[s.number]; ok {
			forms[i] = form
			b.files.Forget()
			continue
		}
		s.mu.Lock()
		var err error
		forms[i], err = s.mu.ledger.At(applied[i])
		s.mu.Unlock()
		if err != nil {
			return shardfile.Staged{}, fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return b.files.Stage(forms)
}

// Stage implements transfer.BatchIDs.
func (b *batchIDs) Stage(applied []uint64, shard uint16, by dedup.Form) (shardfile.Staged, error) {
	return b.stage(applied, map[uint16]dedup.Form{shard: by})
}

// Keep implements transfer.BatchIDs.
func (b *batchIDs) Keep(staged shardfile.Staged) {
	if err := b.files.Keep(staged); err != nil {
		b.log.Error("old batch ids stay on disk until the next start", "error", err)
	}
}
