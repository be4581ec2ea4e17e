package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/parse"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			strange, err := loadSettings(cmd.Flags(), os.Environ())
			if err == nil {
				err = s.validate()
			}
			if err != nil {
				return withHelp(cmd, err)
			}
			logger := newLogger(cmd.ErrOrStderr(), s.logFormat.value, s.logLevel.value)
			if len(strange) > 0 {
				logger.Warn("the environment has variables that look like settings and are none", "names", strings.Join(strange, " "))
			}
			return runStandalone(cmd.Context(), s, logger, cmd.OutOrStdout())
		},
	}
	s.define(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		writeUsage(cmd, cmd.OutOrStderr(), headings())
		return nil
	})
	return cmd
}

// runStandalone runs a server until the context ends.
func runStandalone(ctx context.Context, s *standaloneSettings, logger *slog.Logger, stdout io.Writer) error {
	points, err := failpoint.Parse(s.failpoints, failpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	plan := s.planMemory(logger)
	start := time.Now()
	n, err := node.Open(s.nodeOptions(plan, logger, points))
	if err != nil {
		return dataDirError(s.dataDir, err)
	}
	recovery := n.Recovery()
	logger.Info("opened the data folder", "dir", s.dataDir, "shards", n.Shards(), "series", n.SeriesCount(),
		"replayed_entries", recovery.Entries, "replayed_bytes", recovery.Bytes, "took_ms", time.Since(start).Milliseconds())
	err = serveStandalone(ctx, s, n, logger, stdout)
	closeErr := n.Close()
	if closeErr == nil {
		logger.Info("stopped; the data folder is clean")
	}
	return errors.Join(err, closeErr)
}

// planMemory sets the soft limit of Go's memory, unless the environment has set it,
// and says what follows from how much memory there is.
func (s *standaloneSettings) planMemory(logger *slog.Logger) memoryPlan {
	available := memoryAvailable(os.DirFS("/"))
	plan := planMemory(available, int64(s.pageFileBytes))
	if s.memoryLimit > 0 {
		plan.goBytes = int64(s.memoryLimit)
	}
	if before := debug.SetMemoryLimit(-1); s.memoryLimit > 0 || before == math.MaxInt64 {
		debug.SetMemoryLimit(plan.goBytes)
	}
	logger.Info("memory", "available_bytes", available, "go_limit_bytes", debug.SetMemoryLimit(-1), "page_log_generation_bytes", plan.generationBytes)
	return plan
}

// dataDirError says which flag named the folder that could not be opened, and
// what to do where that is known.
func dataDirError(dir string, err error) error {
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("--data-dir %s: another process uses this folder (%w); stop it, or choose another folder", dir, vfs.ErrLocked)
	}
	return fmt.Errorf("--data-dir %s: %w", dir, err)
}

// serveStandalone listens until the context ends, then drains.
func serveStandalone(ctx context.Context, s *standaloneSettings, n *node.Node, logger *slog.Logger, stdout io.Writer) error {
	registry := newRegistry()
	registry.MustRegister(n)
	ready := &readiness{health: n.Health}
	queries := opentsdb.New(s.queryOptions(n, logger, registry))
	server, err := ingest.New(s.ingestOptions(n, logger, registry, s.newMux(queries, registry, ready, n)))
	if err != nil {
		return err
	}
	clients, err := api.New(s.apiOptions(n, logger, registry))
	if err != nil {
		return err
	}
	health, err := listenGRPC(string(s.grpcAddr), int(s.connectionsMax), clients, nil)
	if err != nil {
		return s.listenError(err)
	}
	defer health.stop(ctx)
	if err := server.Start(); err != nil {
		return s.listenError(err)
	}
	ready.set(true)
	health.serve(logger)
	s.greet(stdout, server.Addresses(), health)
	<-ctx.Done()
	ready.set(false)
	health.refuse()
	if s.shutdownDelay > 0 {
		logger.Info("not ready any more; stopping soon", "delay", s.shutdownDelay.String())
		time.Sleep(time.Duration(s.shutdownDelay))
	}
	logger.Info("stopping: no new connections, running requests end; a second signal stops at once", "timeout", s.shutdownTimeout.String())
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(s.shutdownTimeout))
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		logger.Warn("not every request ended in time", "error", err)
	}
	health.stop(drain)
	return nil
}

func (s *standaloneSettings) greet(stdout io.Writer, at ingest.Addresses, health *grpcServer) {
	g := greeting{
		version: programVersion, dataDir: s.dataDir, udpFormat: s.udpFormat.value,
		http: at.HTTP, put: at.Put, line: at.Line, udp: at.UDP, grpc: health.address(),
	}
	g.write(stdout)
}

// listenError names the flag of an address that cannot be listened on, and says
// what to do where that is known.
func (s *standaloneSettings) listenError(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr == nil {
		return err
	}
	for _, l := range s.listeners() {
		resolved, _, resolveErr := l.resolve()
		if l.address == "" || resolveErr != nil || !strings.HasPrefix(op.Net, l.network) || op.Addr.String() != resolved {
			continue
		}
		advice := "choose another address"
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			advice = "stop the program that listens there, or choose another address"
		case errors.Is(err, syscall.EACCES):
			advice = "choose a port above 1023, or give the program CAP_NET_BIND_SERVICE"
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			advice = "choose an address of this machine"
		}
		return fmt.Errorf("--%s %s: %w; %s", l.flag, l.address, op.Err, advice)
	}
	return err
}

func (s *standaloneSettings) nodeOptions(plan memoryPlan, logger *slog.Logger, points *failpoint.Set) node.Options {
	return node.Options{
		FS: vfs.OS(), DataDir: s.dataDir, Shards: int(s.shards),
		Sync: node.SyncMode(s.walSync.value), SyncInterval: time.Duration(s.walSyncInterval),
		Retention: time.Duration(s.retention), FlushInterval: time.Duration(s.flushInterval),
		CheckpointBytes: int64(s.checkpointBytes), LogFileBytes: int64(s.walFileBytes), ExtentBytes: int64(s.pageFileBytes),
		GenerationBytesMax: plan.generationBytes,
		Limits:             node.Limits{SeriesMax: int64(s.seriesMax), SeriesPerSecondMax: int64(s.seriesPerSecondMax)},
		Logger:             logger, Failpoints: points,
	}
}

func (s *standaloneSettings) queryOptions(n *node.Node, logger *slog.Logger, registry *registry) opentsdb.Options {
	return opentsdb.Options{
		Source: n, Deleter: n, Logger: logger, Registerer: registry,
		Limits: opentsdb.Limits{
			SeriesMax: unlimitedIfZero(int64(s.querySeriesMax)), SamplesMax: unlimitedIfZero(int64(s.querySamplesMax)),
			BytesMax: unlimitedIfZero(int64(s.queryMemory)), Timeout: time.Duration(unlimitedIfZero(int64(s.queryTimeout))),
		},
		Version:     apiVersion(),
		Config:      map[string]string{"tsd.core.auto_create_metrics": "true", "tsd.http.query.allow_delete": "true"},
		Stats:       registry.stats,
		CORSOrigins: s.corsOrigins,
	}
}

// unlimitedIfZero gives the form in which the query limits say "none".
func unlimitedIfZero(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

func (s *standaloneSettings) ingestOptions(n *node.Node, logger *slog.Logger, registry *registry, other *mux) ingest.Options {
	format := ingest.UDPPut
	if s.udpFormat.value == "line" {
		format = ingest.UDPLine
	}
	return ingest.Options{
		HTTPAddress: string(s.httpAddr), PutAddress: string(s.putAddr), LineAddress: string(s.lineAddr), UDPAddress: string(s.udpAddr),
		Writer: n, Resolver: n, Shards: n.Shards(), Databases: n.Databases, Other: other,
		Logger: logger, Registerer: registry, Build: build(),
		UDP: ingest.UDPOptions{Format: format},
		Limits: ingest.Limits{
			Line:         parse.Limits{LineBytesMax: int(s.lineBytesMax), TagsMax: int(s.tagsMax), KeyBytesMax: int(s.keyBytesMax)},
			BodyBytesMax: int(s.bodyBytesMax), BodyBytesDecodedMax: int(s.bodyDecodedMax),
			ConnectionsMax: int(s.connectionsMax), InFlightBytesMax: int64(s.inFlightBytesMax),
		},
	}
}
