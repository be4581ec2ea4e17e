package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/limits"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// dataDirError says which flag named the folder that could not be opened, and
// what to do where that is known.
func dataDirError(dir string, err error) error {
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("--data-dir %s: another process uses this folder (%w); stop it, or choose another folder", dir, vfs.ErrLocked)
	}
	return fmt.Errorf("--data-dir %s: %w", dir, err)
}

// openAlone opens the data folder of a node that is in no cluster. A new folder gets a
// shard key; a used one keeps what it has.
func openAlone(o node.Options) (n *node.Node, err error) {
	if o.ShardKey, err = series.NewShardKey(); err != nil {
		return nil, err
	}
	return node.Open(o)
}

func (s *storageSettings) nodeOptions(plan process.MemoryPlan, shards settings.Count, bounds *seriesLimitSettings, rules *process.DatabaseRules, logger *slog.Logger, points *failpoint.Set) node.Options {
	return node.Options{
		FS: vfs.OS(), DataDir: s.dataDir, Shards: int(shards),
		Sync: node.SyncMode(s.walSync.Value), SyncInterval: time.Duration(s.walSyncInterval),
		Retention: time.Duration(s.retention), FlushInterval: time.Duration(s.flushInterval), DigestInterval: time.Duration(s.digestInterval),
		CheckpointBytes: int64(s.checkpointBytes), LogFileBytes: int64(s.walFileBytes), ExtentBytes: int64(s.pageFileBytes),
		GenerationBytesMax: plan.GenerationBytes,
		Limits:             limits.Bounds{SeriesMax: int64(bounds.seriesMax), SeriesPerSecondMax: int64(bounds.seriesPerSecondMax)},
		Rules:              rules.Current,
		Logger:             logger, Failpoints: points,
	}
}
