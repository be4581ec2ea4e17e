package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/parse"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
)

// standaloneSettings are the flags of `tickmesh standalone`.
type standaloneSettings struct {
	httpAddr, putAddr, lineAddr, udpAddr, grpcAddr string
	udpFormat                                      oneOf

	dataDir         string
	shards          int
	retention       span
	walSync         oneOf
	walSyncInterval time.Duration
	checkpointBytes byteSize
	flushInterval   time.Duration
	walFileBytes    byteSize
	pageFileBytes   byteSize

	seriesMax, seriesPerSecondMax                  int64
	lineBytesMax, keyBytesMax                      byteSize
	tagsMax, connectionsMax                        int
	bodyBytesMax, bodyDecodedMax, inFlightBytesMax byteSize
	querySeriesMax, querySamplesMax                int64
	queryMemory                                    byteSize
	queryTimeout                                   time.Duration
	memoryLimit                                    byteSize
	logFormat, logLevel                            oneOf
	pprof                                          bool
	shutdownTimeout                                time.Duration
	corsOrigins                                    []string
	failpoints, config                             string
}

const (
	headingListeners = "Listeners (host:port; empty switches one off)"
	headingStorage   = "Storage"
	headingLimits    = "Limits (0: none)"
	headingOperation = "Operation"
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
			if err := loadSettings(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return runStandalone(cmd.Context(), s, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.define(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		writeUsage(cmd, cmd.OutOrStderr(), []string{headingListeners, headingStorage, headingLimits, headingOperation})
		return nil
	})
	return cmd
}

func (s *standaloneSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.defineListeners(f)
	s.defineStorage(f)
	s.defineLimits(f)
	s.defineOperation(f)
}

func (s *standaloneSettings) defineListeners(f *pflag.FlagSet) {
	f.StringVar(&s.httpAddr, "http-addr", ":6182", "HTTP: writes, queries, metrics, health")
	f.StringVar(&s.putAddr, "put-addr", ":6181", "TCP: OpenTSDB put lines")
	f.StringVar(&s.lineAddr, "line-addr", ":6180", "TCP: InfluxDB line protocol")
	f.StringVar(&s.udpAddr, "udp-addr", "", "UDP: lines, one or more in a datagram")
	s.udpFormat = oneOf{value: "put", words: []string{"put", "line"}}
	f.Var(&s.udpFormat, "udp-format", "what the lines on the UDP port are")
	f.StringVar(&s.grpcAddr, "grpc-addr", ":6183", "gRPC: health service")
	group(f, headingListeners, "http-addr", "put-addr", "line-addr", "udp-addr", "udp-format", "grpc-addr")
}

func (s *standaloneSettings) defineStorage(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", "tickmesh-data", "folder for all data; made if missing")
	f.IntVar(&s.shards, "shards", 128, "shards of a new data folder; a used one keeps its own number")
	f.Var(&s.retention, "retention", "how long samples are kept, such as 90d or 1y; 0: for ever")
	s.walSync = oneOf{value: "always", words: []string{"always", "interval", "off"}}
	f.Var(&s.walSync, "wal-sync", "when the log is made safe against a power cut: before each answer, at an interval, or when the operating system likes")
	f.DurationVar(&s.walSyncInterval, "wal-sync-interval", time.Second, "the interval of --wal-sync=interval")
	s.checkpointBytes, s.walFileBytes, s.pageFileBytes = 64<<20, 64<<20, 16<<20
	f.Var(&s.checkpointBytes, "checkpoint-bytes", "bytes of log between checkpoints; a restart replays at most twice as many")
	f.DurationVar(&s.flushInterval, "flush-interval", 5*time.Minute, "how often full pages are sorted into segments")
	f.Var(&s.walFileBytes, "wal-file-bytes", "size of the log's files")
	f.Var(&s.pageFileBytes, "page-file-bytes", "size of the page log's files")
	group(f, headingStorage, "data-dir", "shards", "retention", "wal-sync", "wal-sync-interval",
		"checkpoint-bytes", "flush-interval", "wal-file-bytes", "page-file-bytes")
}

func (s *standaloneSettings) defineLimits(f *pflag.FlagSet) {
	f.Int64Var(&s.seriesMax, "series-max", 0, "series in all")
	f.Int64Var(&s.seriesPerSecondMax, "series-per-second-max", 0, "new series a second")
	s.lineBytesMax, s.keyBytesMax = 64<<10, 8<<10
	f.Var(&s.lineBytesMax, "line-bytes-max", "length of a line")
	f.Var(&s.keyBytesMax, "key-bytes-max", "length of a series' key: database, metric and tags")
	f.IntVar(&s.tagsMax, "tags-max", 64, "tags of a series")
	s.bodyBytesMax, s.bodyDecodedMax, s.inFlightBytesMax = 32<<20, 64<<20, 256<<20
	f.Var(&s.bodyBytesMax, "body-bytes-max", "body of an HTTP request as sent")
	f.Var(&s.bodyDecodedMax, "body-decoded-bytes-max", "body of an HTTP request, decompressed")
	f.Var(&s.inFlightBytesMax, "in-flight-bytes-max", "memory of all requests that are being read or written")
	f.IntVar(&s.connectionsMax, "connections-max", 10_000, "connections of each listener")
	f.Int64Var(&s.querySeriesMax, "query-series-max", 1_000_000, "series that one query reads")
	f.Int64Var(&s.querySamplesMax, "query-samples-max", 1_000_000_000, "samples that one query reads")
	s.queryMemory = 512 << 20
	f.Var(&s.queryMemory, "query-memory", "memory of one query")
	f.DurationVar(&s.queryTimeout, "query-timeout", 2*time.Minute, "time of one query")
	group(f, headingLimits, "series-max", "series-per-second-max", "line-bytes-max", "key-bytes-max", "tags-max",
		"body-bytes-max", "body-decoded-bytes-max", "in-flight-bytes-max", "connections-max",
		"query-series-max", "query-samples-max", "query-memory", "query-timeout")
}

func (s *standaloneSettings) defineOperation(f *pflag.FlagSet) {
	f.StringVar(&s.config, flagConfig, "", "YAML file with settings")
	s.logFormat = oneOf{value: "text", words: []string{"text", "json"}}
	f.Var(&s.logFormat, "log-format", "form of the log on standard error")
	s.logLevel = oneOf{value: "info", words: []string{"debug", "info", "warn", "error"}}
	f.Var(&s.logLevel, "log-level", "least important kind of log line")
	f.BoolVar(&s.pprof, "pprof", false, "serve Go's profiles below /debug/pprof/")
	f.StringSliceVar(&s.corsOrigins, "cors-origins", nil, "origins whose pages may query, * for all")
	f.DurationVar(&s.shutdownTimeout, "shutdown-timeout", 30*time.Second, "how long running requests may take to end after SIGTERM")
	f.Var(&s.memoryLimit, "memory-limit", "soft limit of the Go heap, as GOMEMLIMIT; 0: none")
	f.StringVar(&s.failpoints, "failpoints", "", "for tests: where to fail, as name=kill@n;…")
	_ = f.MarkHidden("failpoints")
	group(f, headingOperation, flagConfig, "log-format", "log-level", "pprof", "cors-origins", "shutdown-timeout", "memory-limit", "failpoints")
}

func (s *standaloneSettings) validate() error {
	var problems []error
	check := func(ok bool, flag, reason string) {
		if !ok {
			problems = append(problems, fmt.Errorf("--%s: %s", flag, reason))
		}
	}
	for _, a := range []struct{ flag, value string }{
		{"http-addr", s.httpAddr}, {"put-addr", s.putAddr}, {"line-addr", s.lineAddr}, {"udp-addr", s.udpAddr}, {"grpc-addr", s.grpcAddr},
	} {
		if a.value != "" {
			_, _, err := net.SplitHostPort(a.value)
			check(err == nil, a.flag, fmt.Sprintf("%q is not an address: want host:port or :port", a.value))
		}
	}
	check(s.dataDir != "", "data-dir", "must not be empty")
	check(s.shards >= 1 && s.shards <= 4096, "shards", "must be from 1 to 4096")
	check(s.walSyncInterval > 0, "wal-sync-interval", "must be longer than 0")
	check(s.flushInterval > 0, "flush-interval", "must be longer than 0")
	check(s.checkpointBytes >= 64<<10, "checkpoint-bytes", "must be 64KiB or more")
	check(s.walFileBytes >= 64<<10, "wal-file-bytes", "must be 64KiB or more")
	check(s.pageFileBytes >= 64<<10, "page-file-bytes", "must be 64KiB or more")
	check(s.retention == 0 || time.Duration(s.retention) >= time.Hour, "retention", "must be 0 or at least 1h")
	check(s.seriesMax >= 0, "series-max", "must not be negative")
	check(s.seriesPerSecondMax >= 0, "series-per-second-max", "must not be negative")
	check(s.shutdownTimeout > 0, "shutdown-timeout", "must be longer than 0")
	return errors.Join(problems...)
}

func runStandalone(ctx context.Context, s *standaloneSettings, stdout, stderr io.Writer) error {
	if err := s.validate(); err != nil {
		return err
	}
	points, err := failpoint.Parse(s.failpoints, failpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	if s.memoryLimit > 0 {
		debug.SetMemoryLimit(int64(s.memoryLimit))
	}
	logger := newLogger(stderr, s.logFormat.value, s.logLevel.value)
	start := time.Now()
	n, err := node.Open(s.nodeOptions(logger, points))
	if err != nil {
		return err
	}
	recovery := n.Recovery()
	logger.Info("opened the data folder", "dir", s.dataDir, "series", n.SeriesCount(),
		"replayedEntries", recovery.Entries, "replayedBytes", recovery.Bytes, "took", time.Since(start).Round(time.Millisecond))
	err = serveStandalone(ctx, s, n, logger, stdout)
	closeErr := n.Close()
	if closeErr == nil {
		logger.Info("stopped; the data folder is clean")
	}
	return errors.Join(err, closeErr)
}

func (s *standaloneSettings) nodeOptions(logger *slog.Logger, points *failpoint.Set) node.Options {
	return node.Options{
		FS: vfs.OS(), DataDir: s.dataDir, Shards: s.shards,
		Sync: node.SyncMode(s.walSync.value), SyncInterval: s.walSyncInterval,
		Retention: time.Duration(s.retention), FlushInterval: s.flushInterval,
		CheckpointBytes: int64(s.checkpointBytes), LogFileBytes: int64(s.walFileBytes), ExtentBytes: int64(s.pageFileBytes),
		Limits: node.Limits{SeriesMax: s.seriesMax, SeriesPerSecondMax: s.seriesPerSecondMax},
		Logger: logger, Failpoints: points,
	}
}

// serveStandalone listens until the context ends, then drains.
func serveStandalone(ctx context.Context, s *standaloneSettings, n *node.Node, logger *slog.Logger, stdout io.Writer) error {
	registry := newRegistry()
	registry.MustRegister(n)
	ready := &readiness{node: n}
	queries := opentsdb.New(s.queryOptions(n, logger, registry))
	server, err := ingest.New(s.ingestOptions(n, logger, registry, newMux(queries, registry, ready, s.pprof)))
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	health, err := startGRPC(s.grpcAddr)
	if err != nil {
		return errors.Join(err, server.Shutdown(ctx))
	}
	ready.set(true)
	writeGreeting(stdout, s, server)
	<-ctx.Done()
	logger.Info("stopping: new connections are refused, running requests end")
	ready.set(false)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdownTimeout)
	defer cancel()
	health.stop(drain)
	if err := server.Shutdown(drain); err != nil {
		logger.Warn("not every request ended in time", "error", err)
	}
	return nil
}

func (s *standaloneSettings) queryOptions(n *node.Node, logger *slog.Logger, registry *registry) opentsdb.Options {
	return opentsdb.Options{
		Source: n, Deleter: n, Logger: logger, Registerer: registry,
		Limits: opentsdb.Limits{
			SeriesMax: unlimitedIfZero(s.querySeriesMax), SamplesMax: unlimitedIfZero(s.querySamplesMax),
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
		HTTPAddress: s.httpAddr, PutAddress: s.putAddr, LineAddress: s.lineAddr, UDPAddress: s.udpAddr,
		Writer: n, Resolver: n, Shards: n.Shards(), Databases: n.Databases, Other: other,
		Logger: logger, Registerer: registry, Build: build(),
		UDP: ingest.UDPOptions{Format: format},
		Limits: ingest.Limits{
			Line:         parse.Limits{LineBytesMax: int(s.lineBytesMax), TagsMax: s.tagsMax, KeyBytesMax: int(s.keyBytesMax)},
			BodyBytesMax: int(s.bodyBytesMax), BodyBytesDecodedMax: int(s.bodyDecodedMax),
			ConnectionsMax: s.connectionsMax, InFlightBytesMax: int64(s.inFlightBytesMax),
		},
	}
}
