package command

import (
	"log/slog"
	"time"

	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/limits"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// NodeOptions returns the options of a node with these flags, without what comes from a cluster.
func (s *StorageFlags) NodeOptions(plan *memory.Plan, shards settings.Count, bounds *SeriesLimitFlags, rules *process.DatabaseRules, logger *slog.Logger, points *failpoint.Set) node.Options {
	return node.Options{
		FS: vfs.OS(), DataDir: s.DataDir, Shards: int(shards),
		Sync: node.SyncMode(s.walSync.Value), SyncInterval: time.Duration(s.walSyncInterval),
		Retention: time.Duration(s.Retention), FlushInterval: time.Duration(s.flushInterval), DigestInterval: time.Duration(s.digestInterval), ForgetSeries: s.forgetSeries,
		CheckpointBytes: int64(s.checkpointBytes), LogFileBytes: int64(s.walFileBytes), ExtentBytes: int64(s.PageFileBytes),
		GenerationBytesMax: plan.GenerationBytes(), Memory: nodeMemory(plan), ExemplarBytes: s.exemplarBytesWithin(plan),
		Limits: limits.Bounds{SeriesMax: int64(bounds.seriesMax), SeriesPerSecondMax: int64(bounds.seriesPerSecondMax)},
		Rules:  rules.Current,
		Logger: logger, Failpoints: points,
	}
}

// exemplarPart of the share of series is what exemplars may take of it.
const exemplarPart = 8

// exemplarBytesWithin returns how many bytes of exemplars a node may keep. They count to its share of series.
func (s *StorageFlags) exemplarBytesWithin(plan *memory.Plan) int64 {
	if ofSeries := plan.NodeBound(memory.Series, memory.Unlimited); plan != nil && ofSeries > 0 {
		return min(int64(s.exemplarBytes), ofSeries/exemplarPart)
	}
	return int64(s.exemplarBytes)
}

// KeepsExemplars reports whether there is room for exemplars.
func (s *StorageFlags) KeepsExemplars() bool { return s.exemplarBytes > 0 }
