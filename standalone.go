package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/limits"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/tenant"
)

func newStandaloneCommand() *cobra.Command {
	s := &standaloneSettings{}
	cmd := &cobra.Command{
		Use:   "standalone",
		Short: "Run everything in one process",
		Example: `  tickmesh standalone --data-dir ./data
  tickmesh standalone --data-dir /var/lib/tickmesh --retention 90d --wal-sync interval
  TICKMESH_HTTP_ADDR=:8080 tickmesh standalone --config /etc/tickmesh.yaml`,
		Args: cobra.NoArgs,
	}
	headings := []string{settings.HeadingListeners, settings.HeadingStorage, settings.HeadingWriteLimits, settings.HeadingQueryLimits, settings.HeadingAccess, settings.HeadingTLS, settings.HeadingOperation}
	settings.Bind(cmd, s, headings, func(ctx context.Context, logger *slog.Logger, stdout io.Writer) error {
		return runStandalone(ctx, s, logger, stdout)
	})
	return cmd
}

// runStandalone runs a server until the context ends.
func runStandalone(ctx context.Context, s *standaloneSettings, logger *slog.Logger, stdout io.Writer) error {
	points, err := failpoint.Parse(s.Failpoints, failpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	rules, err := s.follow(ctx, logger)
	if err != nil {
		return err
	}
	defer rules.close()
	plan := applyMemoryPlan(s.MemoryLimit, s.pageFileBytes)
	makePrivate(s.dataDir, logger)
	if s.nodes > 1 {
		return runLocalCluster(ctx, s, plan, rules, logger, stdout)
	}
	if err := refuseLocalCluster(s.dataDir); err != nil {
		return err
	}
	start := time.Now()
	n, err := openAlone(s.nodeOptions(plan, s.shards, &s.seriesLimitSettings, rules, logger, points))
	if err != nil {
		return dataDirError(s.dataDir, err)
	}
	plan.log(logger)
	recovery := n.Recovery()
	logger.Info("opened the data folder", "dir", s.dataDir, "shards", n.Shards(), "series", n.SeriesCount(),
		"replayed_entries", recovery.Entries, "replayed_bytes", recovery.Bytes, "took_ms", time.Since(start).Milliseconds())
	err = serveAlone(ctx, s, n, rules, logger, stdout)
	closeErr := n.Close()
	if closeErr == nil {
		logger.Info("stopped; the data folder is clean")
	}
	return errors.Join(err, closeErr)
}

// applyMemoryPlan sets the soft limit of Go's memory, unless the environment has set
// it, and gives what follows from how much memory there is.
func applyMemoryPlan(memoryLimit, pageFileBytes settings.Bytes) memoryPlan {
	plan := planMemory(memoryAvailable(os.DirFS("/")), int64(pageFileBytes))
	if memoryLimit > 0 {
		plan.goBytes = int64(memoryLimit)
	}
	if before := debug.SetMemoryLimit(-1); memoryLimit > 0 || before == math.MaxInt64 {
		debug.SetMemoryLimit(plan.goBytes)
	}
	return plan
}

// share makes the plan that of one of several nodes in this process.
func (p *memoryPlan) share(nodes, extentBytes int64) {
	p.generationBytes = max(p.generationBytes/nodes/extentBytes, 1) * extentBytes
}

func (p *memoryPlan) log(logger *slog.Logger) {
	logger.Info("memory", "available_bytes", p.availableBytes, "go_limit_bytes", debug.SetMemoryLimit(-1), "page_log_generation_bytes", p.generationBytes)
}

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

// serveAlone serves one node of its own.
func serveAlone(ctx context.Context, s *standaloneSettings, n *node.Node, rules *databaseRules, logger *slog.Logger, stdout io.Writer) error {
	registry := newRegistry()
	registry.MustRegister(n)
	registry.MustRegister(diskGauges(s.dataDir)...)
	marks, err := tenant.OpenFolder(s.dataDir)
	if err != nil {
		return dataDirError(s.dataDir, err)
	}
	tokens, err := token.OpenFolder(s.dataDir)
	if err != nil {
		return dataDirError(s.dataDir, err)
	}
	address := string(s.grpcAddr)
	return s.serve(ctx, &backend{
		writer: n, resolver: n, source: n, deleter: n, shards: n.Sharding(), settler: n, folders: 1, health: n.Health, marks: marks, tokens: tokens, rules: rules,
		retention: time.Duration(s.retention),
		cluster:   &lonelyCluster{node: n, dataDir: s.dataDir, address: address}, clusterName: lonelyName, about: "keeps its data in " + s.dataDir,
	}, registry, logger, stdout)
}

func (s *storageSettings) nodeOptions(plan memoryPlan, shards settings.Count, bounds *seriesLimitSettings, rules *databaseRules, logger *slog.Logger, points *failpoint.Set) node.Options {
	return node.Options{
		FS: vfs.OS(), DataDir: s.dataDir, Shards: int(shards),
		Sync: node.SyncMode(s.walSync.Value), SyncInterval: time.Duration(s.walSyncInterval),
		Retention: time.Duration(s.retention), FlushInterval: time.Duration(s.flushInterval), DigestInterval: time.Duration(s.digestInterval),
		CheckpointBytes: int64(s.checkpointBytes), LogFileBytes: int64(s.walFileBytes), ExtentBytes: int64(s.pageFileBytes),
		GenerationBytesMax: plan.generationBytes,
		Limits:             limits.Bounds{SeriesMax: int64(bounds.seriesMax), SeriesPerSecondMax: int64(bounds.seriesPerSecondMax)},
		Rules:              rules.current,
		Logger:             logger, Failpoints: points,
	}
}
