package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/metadata"
	"github.com/tickmesh/tickmesh/router/split"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// Backend is what a front stands before: a node of its own, or a cluster.
type Backend struct {
	Writer          ingest.Writer
	ExemplarWriter  ingest.ExemplarWriter // nil: exemplars are left out
	Exemplars       scan.ExemplarSource   // nil: there are none
	Resolver        split.Resolver
	Generation      func() uint64 // of the resolver's ids; nil: they hold for ever
	Source          scan.Source
	Deleter         scan.Deleter
	WithConsistency func(scan.Consistency) (scan.Source, func() []uint16) // nil: source answers these reads, too
	Snapshots       api.Snapshots                                         // nil: none are made
	Shards          series.Sharding

	Memory    *memory.Plan // nil: flags alone bound it
	Rules     *process.DatabaseRules
	Retention *time.Duration // of what rules say nothing of, 0 for ever; nil: each node has its own
	Marks     tenant.Marks   // what was said of databases by name; nil: nothing can be
	Tokens    token.Store    // of those that callers make; nil: they cannot
	// Metadata keeps what writers say of metrics; nil: the process remembers it until it ends.
	Metadata metadata.Store
	access   *frontAccess // set by openAccess; nil: nothing is said of callers and databases

	Queries continuous.Store // continuous queries; nil: there can be none
	// Campaign waits until this process is to do what one process of a cluster does at a time; nil: it always is.
	Campaign func(context.Context, shardmap.Election) (shardmap.Leadership, error)

	Cluster     api.Cluster
	ClusterName string
	Compactor   process.Compactor // nil: there is nothing to compact
	Folders     int               // data folders that are closed at the end
	Health      func() error      // why no writes are taken, or nil
	Details     func() []string
	About       string // for the banner
}

// campaign returns what waits until this process is to do the work of an election; nil: it always is.
func (b *Backend) campaign(e shardmap.Election) func(context.Context) (shardmap.Leadership, error) {
	if b.Campaign == nil {
		return nil
	}
	return func(ctx context.Context) (shardmap.Leadership, error) { return b.Campaign(ctx, e) }
}

// retentionOf returns how long samples of a database are kept, metrics with rules of their own
// aside (0: for ever), and whether that is known.
func (b *Backend) retentionOf(database string) (kept time.Duration, known bool) {
	kept = b.Rules.Current().RetentionOf(database, "")
	switch {
	case kept == tenancy.Unlimited:
		return 0, true
	case kept != 0:
		return kept, true
	case b.Retention != nil:
		return *b.Retention, true
	}
	return 0, false
}

// rawFrom returns since when all samples of a metric are kept, by the rules of databases.
func (b *Backend) rawFrom(database, metric string) (timeMs int64) {
	from, all := b.Rules.Current().RawFrom(database, metric, time.Now())
	if all {
		return math.MinInt64
	}
	return from.UnixMilli()
}

// Serve listens until the context ends, then drains.
func (s *Settings) Serve(ctx context.Context, b *Backend, registry *process.Registry, logger *slog.Logger, stdout io.Writer) error {
	ready := &process.Readiness{Health: b.Health, Details: b.Details}
	secure, err := s.Server(logger)
	if err != nil {
		return err
	}
	processors := registry.NewProcessors()
	who, err := s.openAccess(ctx, b, processors, registry, logger)
	if err != nil {
		return err
	}
	defer who.close()
	trail, err := s.AuditFlags.Open(registry, logger)
	if err != nil {
		return err
	}
	defer trail.Close()
	b.Deleter = auditedDeleter{b.Deleter}
	queries, answers, err := s.openQueries(b, s.pageURL(secure.Config != nil), logger, registry)
	if err != nil {
		return err
	}
	ingestOptions := s.ingestOptions(b, logger, registry, process.NewMux(process.MuxOptions{Own: answers, Registry: registry, Ready: ready, Compactor: b.Compactor, Admin: s.Admin, Pprof: s.Pprof}))
	ingestOptions.Pages, _ = s.OriginPolicy(secure.Certificate) // validate has said what is wrong
	ingestOptions.TLS, ingestOptions.Authenticator, ingestOptions.Meter = secure.Config, who.authenticator, who.meter
	ingestOptions.Audit, ingestOptions.Processors = trail.Log(), processors
	budgets := ingest.NewBudgets(ingestOptions.Limits)
	ingestOptions.Metadata, ingestOptions.Budgets = &queries.catalog, budgets
	b.trackBudgets(budgets, registry)
	server, err := s.openFront(b, ingestOptions, queries)
	if err != nil {
		return err
	}
	apiOptions := s.apiOptions(b, queries, logger, registry)
	apiOptions.Audit, apiOptions.Processors = trail.Log(), processors
	apiOptions.Authenticator, apiOptions.Meter, apiOptions.Writes, apiOptions.Reads = who.authenticator, who.meter, budgets.Writes, budgets.Reads
	if who.users.MakesTokens() {
		apiOptions.Tokens = who.users
	}
	clients, err := api.New(apiOptions)
	if err != nil {
		return err
	}
	calls, err := s.listenCalls(clients, server, secure.Credentials)
	if err != nil {
		return s.listenError(err)
	}
	defer calls.stop(ctx)
	if err := server.Start(); err != nil {
		return s.listenError(err)
	}
	watch, err := s.serveMetrics(ctx, who.users.Guard(process.NewWatchMux(registry, ready)), ingestOptions.Pages, trail, secure, logger)
	if err != nil {
		return s.listenError(err)
	}
	defer watch.close()
	who.countSeries(ctx, b.Source)
	queries.run(ctx, &who.running, server)
	ready.Set(true)
	calls.serve(logger)
	s.printBanner(stdout, banner{about: b.About, secure: secure.Config != nil, users: who.authenticator != nil}, server.Addresses(), calls, watch)
	<-ctx.Done()
	process.ExitAfter(s.drain(ctx, ready, server, calls, logger)+time.Duration(max(1, b.Folders))*process.ClosingMax, logger)
	return nil
}

// ServeAPI serves the gRPC API alone, to callers who may do everything, until stop is called.
func (s *Settings) ServeAPI(ctx context.Context, b *Backend, address string, logger *slog.Logger) (at net.Addr, stop func(), err error) {
	registry := process.NewRegistry()
	service, err := api.New(s.apiOptions(b, s.newQueries(b, logger, registry), logger, registry))
	if err != nil {
		return nil, nil, err
	}
	g, err := listenAPI(address, int(s.connectionsMax), service, nil)
	if err != nil {
		return nil, nil, err
	}
	g.serve(logger)
	return g.address(), func() { g.stop(ctx) }, nil
}

// Endpoints lists what the ports of a server answer when every flag is on that adds some: patterns of HTTP, of the
// port for clients and of --metrics-addr, and "PORT CALL METHOD" of gRPC, with full names of methods.
func (s *Settings) Endpoints(b *Backend, logger *slog.Logger) (http, metrics, grpc []string, err error) {
	registry := process.NewRegistry()
	queries := s.newQueries(b, logger, registry)
	answers, err := queries.handler()
	if err != nil {
		return nil, nil, nil, err
	}
	ready := &process.Readiness{Health: b.Health}
	front, err := ingest.New(s.ingestOptions(b, logger, registry, process.NewMux(process.MuxOptions{
		Own: answers, Registry: registry, Ready: ready, Compactor: b.Compactor, Admin: true, Pprof: true,
	})))
	if err != nil {
		return nil, nil, nil, err
	}
	clients, err := api.New(s.apiOptions(b, queries, logger, registry))
	if err != nil {
		return nil, nil, nil, err
	}
	all := *s
	all.GRPCAddr, all.OTLPAddr = "127.0.0.1:0", "127.0.0.1:0"
	calls, err := all.listenCalls(clients, front, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	defer calls.stop(context.Background())
	return front.Endpoints(), process.NewWatchMux(registry, ready).Endpoints(), append(calls.api.endpoints("grpc"), calls.otlp.endpoints("otlp")...), nil
}

// drain ends what runs, within --shutdown-timeout, and returns how much longer
// closing may take: it has as much again, unless there is what does not look at its context,
// which nobody waits for.
func (s *Settings) drain(ctx context.Context, ready *process.Readiness, server *ingest.Server, calls grpcPorts, logger *slog.Logger) time.Duration {
	ready.Set(false)
	calls.refuse()
	if s.ShutdownDelay > 0 {
		logger.Info("not ready any more; stopping soon", "delay", s.ShutdownDelay.String())
		time.Sleep(time.Duration(s.ShutdownDelay))
	}
	logger.Info("stopping: no new connections, running requests end; a second signal stops at once", "timeout", s.ShutdownTimeout.String())
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(s.ShutdownTimeout))
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		logger.Warn("not every request ended in time", "error", err)
	}
	if ended := calls.stop(drain); !ended || errors.Is(err, ingest.ErrAbandoned) {
		return 0
	}
	return time.Duration(s.ShutdownTimeout)
}

func (s *Settings) printBanner(stdout io.Writer, g banner, at ingest.Addresses, calls grpcPorts, watch *metricsPort) {
	g.version, g.udpFormat = process.Version, s.udpFormat.Value
	g.http, g.put, g.line, g.graphite, g.udp, g.grpc = at.HTTP, at.Put, at.Line, at.Graphite, at.UDP, calls.api.address()
	g.otlp, g.metrics = calls.otlp.address(), watch.address()
	g.write(stdout)
}

// listenError names the flag of an address that cannot be listened on, and says
// what to do where that is known.
func (s *Settings) listenError(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr == nil {
		return err
	}
	for _, l := range s.listeners() {
		resolved, _, resolveErr := l.resolve()
		if l.address == "" || resolveErr != nil || !strings.HasPrefix(op.Net, l.network) || op.Addr.String() != resolved {
			continue
		}
		return process.ListenError(l.flag, string(l.address), err)
	}
	return err
}

func (s *Settings) ingestOptions(b *Backend, logger *slog.Logger, registry *process.Registry, other *endpoint.Mux) ingest.Options {
	format := ingest.UDPPut
	if s.udpFormat.Value == "line" {
		format = ingest.UDPLine
	}
	requests := s.requestMemory(b.Memory)
	s.warn(requests, logger)
	return ingest.Options{
		HTTPAddress: string(s.HTTPAddr), PutAddress: string(s.PutAddr), LineAddress: string(s.LineAddr), GraphiteAddress: string(s.GraphiteAddr), UDPAddress: string(s.UDPAddr),
		Writer: b.Writer, Resolver: b.Resolver, Shards: b.Shards.Shards, ShardKey: b.Shards.Key, Generation: b.Generation, Exemplars: b.ExemplarWriter, Other: other,
		Logger: logger, Registerer: registry, Build: ingest.Build(process.CurrentBuild()),
		UDP:         ingest.UDPOptions{Format: format, Database: s.udpDatabase, User: s.udpUser},
		PutDatabase: s.putDatabase, LineDatabase: s.lineDatabase, GraphiteDatabase: s.graphiteDatabase, DatabaseFromHeader: s.fromHeader(),
		DatabasesJoined: s.databasesJoined, ReplicaLabel: s.replicaLabel, RefuseText: s.textFields.Value == textRefuse,
		Limits: ingest.Limits{
			Line:         parse.Limits{LineBytesMax: int(requests.lineBytes), TagsMax: int(s.tagsMax), KeyBytesMax: int(s.keyBytesMax)},
			BodyBytesMax: int(s.bodyBytesMax), BodyBytesDecodedMax: int(s.bodyDecodedMax),
			WholeBytesMax: int(requests.wholeBytes), WholeDecodedBytesMax: int(requests.wholeDecodedBytes), OtherBodyBytesMax: int(requests.otherBodyBytes),
			ConnectionsMax: int(s.connectionsMax), InFlightBytesMax: requests.inFlight, WaitingBytesMax: requests.waiting,
			KeptBytesMax: requests.kept, ReadsBytesMax: requests.reads, WritesMax: requests.writes,
		},
	}
}

// openFront makes the server of the ports, and what fetches for it. Nothing listens yet.
func (s *Settings) openFront(b *Backend, o ingest.Options, q *queries) (*ingest.Server, error) {
	if err := s.readFiles(&o); err != nil {
		return nil, err
	}
	server, err := ingest.New(o)
	if err != nil {
		return nil, err
	}
	b.Memory.Track(memory.Writes, server.BytesBeside)
	q.messages, err = s.openMQTT(b, server, o.Budgets.Writes, q)
	return server, err
}

// readFiles adds what is read from files when a server starts.
func (s *Settings) readFiles(o *ingest.Options) (err error) {
	if o.SignInPage, err = newSignInPage(); err != nil {
		return err
	}
	o.GraphiteNames, err = s.graphiteNames()
	return err
}

func (s *Settings) apiOptions(b *Backend, q *queries, logger *slog.Logger, registry *process.Registry) api.Options {
	requests := s.requestMemory(b.Memory)
	return api.Options{
		Writer: b.Writer, Resolver: b.Resolver, Generation: b.Generation, Shards: b.Shards.Shards, ShardKey: b.Shards.Key, Source: q.source, Deleter: b.Deleter, WithConsistency: q.withConsistency, Snapshots: q.snapshots(),
		Admission: q.admission, Cluster: b.Cluster,
		DatabaseFromHeader: s.fromHeader(), DatabasesJoined: s.databasesJoined,
		ClusterName: b.ClusterName, Version: process.CurrentBuild().Version, Logger: logger, Registerer: registry,
		RawFrom: b.rawFrom,
		Limits: api.Limits{
			TagsMax: int(s.tagsMax), KeyBytesMax: int(s.keyBytesMax), InFlightBytesMax: requests.inFlight, CallsMax: requests.calls,
		},
	}
}

// trackBudgets has what requests hold counted in metrics.
func (b *Backend) trackBudgets(budgets ingest.Budgets, registry *process.Registry) {
	registry.MustRegister(budget.NewCollector(map[string]*budget.Pool{"writes": budgets.Writes, "reads": budgets.Reads}))
	b.Memory.Track(memory.Writes, func() int64 { return budgets.Writes.Stats().Used })
	b.Memory.Track(memory.Reads, func() int64 { return budgets.Reads.Stats().Used })
}
