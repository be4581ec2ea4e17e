package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/node"
	nodecommand "github.com/tickmesh/tickmesh/node/command"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/node/service"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/cluster"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/metadata"
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
	headings := []string{settings.HeadingListeners, settings.HeadingStorage, settings.HeadingWriteLimits, settings.HeadingQueryLimits, settings.HeadingRules, settings.HeadingAccess, settings.HeadingTLS, settings.HeadingOperation}
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
	plan := memory.Open(s.memoryOptions())
	member.MakePrivate(s.DataDir, logger)
	if s.nodes > 1 {
		plan.Log(logger)
		return runLocalCluster(ctx, s, plan, rules, logger, stdout)
	}
	if err := refuseLocalCluster(s.DataDir); err != nil {
		return err
	}
	if vfs.SyncsApart() {
		processor.Share()
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
	err = serveAlone(ctx, s, n, plan, rules, logger, stdout)
	closeErr := n.Close()
	if closeErr == nil {
		logger.Info("stopped; the data folder is clean")
	}
	return errors.Join(err, closeErr)
}

// serveAlone serves one node of its own.
func serveAlone(ctx context.Context, s *standaloneSettings, n *node.Node, plan *memory.Plan, rules *process.DatabaseRules, logger *slog.Logger, stdout io.Writer) error {
	registry := process.NewRegistry()
	registry.MustRegister(n, plan)
	nodecommand.TrackMemory(plan, n)
	registry.MustRegister(process.DiskGauges(s.DataDir)...)
	marks, err := tenant.OpenFolder(s.DataDir)
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	tokens, err := token.OpenFolder(s.DataDir)
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	queries, err := continuous.OpenFolder(s.DataDir)
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	descriptions, err := metadata.OpenFolder(s.DataDir)
	if err != nil {
		return member.DataDirError(s.DataDir, err)
	}
	address := string(s.GRPCAddr)
	return s.Serve(ctx, &server.Backend{
		Writer: n, Resolver: n, Generation: n.Generation, Source: n, Deleter: n, ExemplarWriter: s.exemplarWriter(n), Exemplars: n, Snapshots: service.Snapshots{Node: n}, Shards: n.Sharding(), Compactor: n, Folders: 1, Health: n.Health, Marks: marks, Tokens: tokens, Queries: queries, Metadata: descriptions, Rules: rules, Memory: plan,
		Retention: (*time.Duration)(&s.Retention),
		Cluster:   &member.Standalone{Node: n, DataDir: s.DataDir, Address: address}, ClusterName: member.StandaloneName, About: "keeps its data in " + s.DataDir,
	}, registry, logger, stdout)
}

// exemplarWriter returns what keeps exemplars; nil: nothing does, so that they are not even read.
func (s *standaloneSettings) exemplarWriter(n *node.Node) ingest.ExemplarWriter {
	if !s.KeepsExemplars() {
		return nil
	}
	return n
}

// memoryOptions are the settings of this process' memory.
func (s *standaloneSettings) memoryOptions() memory.Options {
	p := memory.Process{Role: memory.Standalone, Nodes: int(s.nodes), ExtentBytes: int64(s.PageFileBytes), Most: s.MemoryMost()}
	maps.Copy(p.Most, nodecommand.MemoryMost(p.Nodes))
	if s.nodes > 1 {
		p.Role = memory.LocalCluster
		maps.Copy(p.Most, cluster.MemoryMost())
	}
	return memory.Options{LimitBytes: int64(s.MemoryLimit), Process: p}
}

// standaloneSettings are the flags of `tickmesh standalone`.
type standaloneSettings struct {
	server.Settings
	nodecommand.StorageFlags
	nodecommand.SeriesLimitFlags
	shards, nodes, replication settings.Count
}

func (s *standaloneSettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.Listeners.Define(f)
	s.shards = settings.ShardsDefault
	f.Var(&s.shards, "shards", "shards of a new data folder; a used one keeps its own number")
	s.nodes, s.replication = 1, 1
	f.Var(&s.nodes, "nodes", "storage nodes in this process; more than 1 make a cluster on the loopback, with an etcd of its own")
	f.Var(&s.replication, "replication", "copies of each shard, 1 to 3, of a new data folder with more than one node")
	settings.Group(f, settings.HeadingStorage, "shards", "nodes", "replication")
	s.StorageFlags.Define(f)
	s.SeriesLimitFlags.Define(f)
	s.WriteLimits.Define(f)
	s.QueryLimits.Define(f)
	s.QueryHabits.Define(f)
	s.ReplicaFlags.Define(f)
	s.RuleFlags.Define(f)
	s.Access.Define(f)
	s.PublicTLS.Define(f)
	s.Operation.Define(f)
}

// standaloneNodesMax bounds the nodes of one process: each has files and memory of its own.
const standaloneNodesMax = 16

// Validate checks what a flag's own type cannot: bounds, and flags against each
// other. The error has a line for each problem.
func (s *standaloneSettings) Validate() error {
	var v settings.Validation
	if s.nodes > 1 {
		settings.ValidateClusterShards(&v, s.shards)
	} else {
		v.Between("shards", s.shards, 1, settings.ShardsMax)
	}
	v.Between("nodes", s.nodes, 1, standaloneNodesMax)
	v.Between("replication", s.replication, 1, min(settings.ReplicationMax, max(s.nodes, 1)))
	s.StorageFlags.Validate(&v)
	s.Settings.Validate(&v)
	return v.Err()
}

// verificationServer is an empty server in this process, which only this process can reach: what a
// backup is restored into to see that it can be.
type verificationServer struct {
	node   *node.Node
	client *client.Client
	stop   func()
}

// startVerificationServer starts a server in an empty folder, with the settings that `tickmesh
// standalone` has by default.
func startVerificationServer(ctx context.Context, dir string) (c *client.Client, stop func() error, err error) {
	s := &standaloneSettings{}
	s.Define(pflag.NewFlagSet("verification", pflag.ContinueOnError))
	s.DataDir = dir
	logger := slog.New(slog.DiscardHandler)
	plan := memory.Open(s.memoryOptions())
	v := &verificationServer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.node, err = member.OpenAlone(s.NodeOptions(plan, s.shards, &s.SeriesLimitFlags, nil, logger, nil)); err != nil {
		return nil, nil, err
	}
	n := v.node
	address, stopServer, err := s.ServeAPI(ctx, &server.Backend{
		Writer: n, Resolver: n, Generation: n.Generation, Source: n, Deleter: n, Shards: n.Sharding(), Memory: plan,
		Cluster: &member.Standalone{Node: n, DataDir: dir}, ClusterName: member.StandaloneName,
	}, "127.0.0.1:0", logger)
	if err != nil {
		return nil, nil, err
	}
	v.stop = stopServer
	v.client, err = client.New(client.Options{Endpoints: []string{address.String()}, Name: "tickmesh " + process.Version})
	return v.client, v.close, err
}

func (v *verificationServer) close() (err error) {
	if v.client != nil {
		err = v.client.Close()
	}
	if v.stop != nil {
		v.stop()
	}
	if v.node != nil {
		err = errors.Join(err, v.node.Close())
	}
	return err
}
