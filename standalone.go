package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/node"
	nodecommand "github.com/tickmesh/tickmesh/node/command"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/router/server"
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
	points, err := failpoint.Parse(s.Failpoints, nodecommand.FailpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	rules, err := s.DatabaseRuleFlags.Follow(ctx, logger)
	if err != nil {
		return err
	}
	defer rules.Close()
	plan := process.ApplyMemoryPlan(s.MemoryLimit, s.PageFileBytes)
	member.MakePrivate(s.DataDir, logger)
	if s.nodes > 1 {
		return runLocalCluster(ctx, s, plan, rules, logger, stdout)
	}
	if err := refuseLocalCluster(s.DataDir); err != nil {
		return err
	}
	start := time.Now()
	n, err := member.OpenAlone(s.NodeOptions(plan, s.shards, &s.SeriesLimitFlags, rules, logger, points))
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	plan.Log(logger)
	recovery := n.Recovery()
	logger.Info("opened the data folder", "dir", s.DataDir, "shards", n.Shards(), "series", n.SeriesCount(),
		"replayed_entries", recovery.Entries, "replayed_bytes", recovery.Bytes, "took_ms", time.Since(start).Milliseconds())
	err = serveAlone(ctx, s, n, rules, logger, stdout)
	closeErr := n.Close()
	if closeErr == nil {
		logger.Info("stopped; the data folder is clean")
	}
	return errors.Join(err, closeErr)
}

// serveAlone serves one node of its own.
func serveAlone(ctx context.Context, s *standaloneSettings, n *node.Node, rules *process.DatabaseRules, logger *slog.Logger, stdout io.Writer) error {
	registry := process.NewRegistry()
	registry.MustRegister(n)
	registry.MustRegister(process.DiskGauges(s.DataDir)...)
	marks, err := tenant.OpenFolder(s.DataDir)
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	tokens, err := token.OpenFolder(s.DataDir)
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	address := string(s.GRPCAddr)
	return s.Serve(ctx, &server.Backend{
		Writer: n, Resolver: n, Source: n, Deleter: n, Shards: n.Sharding(), Settler: n, Folders: 1, Health: n.Health, Marks: marks, Tokens: tokens, Rules: rules,
		Retention: time.Duration(s.Retention),
		Cluster:   &member.Standalone{Node: n, DataDir: s.DataDir, Address: address}, ClusterName: member.StandaloneName, About: "keeps its data in " + s.DataDir,
	}, registry, logger, stdout)
}
