package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/split"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// backend is what a front stands before: a node of its own, or a cluster.
type backend struct {
	writer     ingest.Writer
	resolver   split.Resolver
	generation func() uint64 // of the resolver's ids; nil: they hold for ever
	source     scan.Source
	deleter    scan.Deleter
	relaxed    func(scan.Relaxation) (scan.Source, func() []uint16) // nil: source answers these reads, too
	shards     series.Sharding

	rules     *process.DatabaseRules
	retention time.Duration // of what rules say nothing of, where that is known; 0: for ever
	marks     tenant.Marks  // what was said of databases by name; nil: nothing can be
	tokens    token.Store   // of those that callers make; nil: they cannot
	access    *frontAccess  // set by serve; nil: nothing is said of callers and databases

	cluster     api.Cluster
	clusterName string
	settler     process.Settler // nil: there is nothing to settle
	folders     int             // data folders that are closed at the end
	health      func() error    // why no writes are taken, or nil
	details     func() []string
	about       string // what the greeting says of it
}

// retentionOf says how long samples of a database are kept, metrics with rules of their own
// aside; 0: for ever.
func (b *backend) retentionOf(database string) time.Duration {
	switch kept := b.rules.Current().RetentionOf(database, ""); kept {
	case 0:
		return b.retention
	case tenancy.Unlimited:
		return 0
	default:
		return kept
	}
}

// serve listens until the context ends, then drains.
func (s *frontSettings) serve(ctx context.Context, b *backend, registry *process.Registry, logger *slog.Logger, stdout io.Writer) error {
	ready := &process.Readiness{Health: b.health, Details: b.details}
	secure, err := s.Server(logger)
	if err != nil {
		return err
	}
	who, err := s.openAccess(ctx, b.rules, b.tokens, registry, logger)
	if err != nil {
		return err
	}
	defer who.close()
	b.access = who
	trail, err := s.openAudit(registry, logger)
	if err != nil {
		return err
	}
	defer trail.close()
	if b.marks != nil {
		who.directory = tenant.NewDirectory(tenant.DirectoryOptions{Source: b.source, Deleter: b.deleter, Marks: b.marks, Rules: b.rules.Current})
	}
	b.deleter = auditedDeleter{b.deleter}
	queries := s.newQueries(b, logger, registry)
	answers, err := queries.handler()
	if err != nil {
		return err
	}
	ingestOptions := s.ingestOptions(b, logger, registry, process.NewMux(process.MuxOptions{Own: answers, Registry: registry, Ready: ready, Settler: b.settler, Admin: s.Admin, Pprof: s.Pprof}))
	ingestOptions.Pages, _ = s.OriginPolicy(secure.Certificate) // validate has said what is wrong
	ingestOptions.TLS, ingestOptions.Authority, ingestOptions.Meter = secure.Config, who.authority, who.meter
	ingestOptions.Audit = trail.log()
	budgets := ingest.NewBudgets(ingestOptions.Limits)
	ingestOptions.Metadata, ingestOptions.Budgets = &queries.catalog, budgets
	registry.MustRegister(budget.NewCollector(map[string]*budget.Pool{"writes": budgets.Writes, "reads": budgets.Reads}))
	if ingestOptions.Door, err = newDoor(); err != nil {
		return err
	}
	server, err := ingest.New(ingestOptions)
	if err != nil {
		return err
	}
	apiOptions := s.apiOptions(b, queries, logger, registry)
	apiOptions.Audit = trail.log()
	apiOptions.Authority, apiOptions.Meter, apiOptions.Writes, apiOptions.Reads = who.authority, who.meter, budgets.Writes, budgets.Reads
	if who.users.MakesTokens() {
		apiOptions.Tokens = who.users
	}
	clients, err := api.New(apiOptions)
	if err != nil {
		return err
	}
	health, err := listenGRPC(string(s.grpcAddr), int(s.connectionsMax), clients, secure.Credentials)
	if err != nil {
		return s.listenError(err)
	}
	defer health.stop(ctx)
	if err := server.Start(); err != nil {
		return s.listenError(err)
	}
	who.countSeries(ctx, b.source)
	who.running.Go(func() { queries.page.Watch(ctx) })
	ready.Set(true)
	health.serve(logger)
	s.greet(stdout, greeting{about: b.about, secure: secure.Config != nil, users: who.authority != nil}, server.Addresses(), health)
	<-ctx.Done()
	process.ExitAfter(s.drain(ctx, ready, server, health, logger)+time.Duration(max(1, b.folders))*process.ClosingMax, logger)
	return nil
}

// drain ends what runs, within --shutdown-timeout, and returns how much longer
// closing may take: it has as much again, unless there is what does not look at its context,
// which nobody waits for.
func (s *frontSettings) drain(ctx context.Context, ready *process.Readiness, server *ingest.Server, health *grpcServer, logger *slog.Logger) time.Duration {
	ready.Set(false)
	health.refuse()
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
	if ended := health.stop(drain); !ended || errors.Is(err, ingest.ErrAbandoned) {
		return 0
	}
	return time.Duration(s.ShutdownTimeout)
}

func (s *frontSettings) greet(stdout io.Writer, g greeting, at ingest.Addresses, health *grpcServer) {
	g.version, g.udpFormat = process.Version, s.udpFormat.Value
	g.http, g.put, g.line, g.udp, g.grpc = at.HTTP, at.Put, at.Line, at.UDP, health.address()
	g.write(stdout)
}

// listenError names the flag of an address that cannot be listened on, and says
// what to do where that is known.
func (s *frontSettings) listenError(err error) error {
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

func (s *frontSettings) ingestOptions(b *backend, logger *slog.Logger, registry *process.Registry, other *endpoint.Mux) ingest.Options {
	format := ingest.UDPPut
	if s.udpFormat.Value == "line" {
		format = ingest.UDPLine
	}
	inFlight := s.inFlight(debug.SetMemoryLimit(-1))
	return ingest.Options{
		HTTPAddress: string(s.httpAddr), PutAddress: string(s.putAddr), LineAddress: string(s.lineAddr), UDPAddress: string(s.udpAddr),
		Writer: b.writer, Resolver: b.resolver, Shards: b.shards.Shards, ShardKey: b.shards.Key, Generation: b.generation, Other: other,
		Logger: logger, Registerer: registry, Build: ingest.Build(process.CurrentBuild()),
		UDP:         ingest.UDPOptions{Format: format, Database: s.udpDatabase, User: s.udpUser},
		PutDatabase: s.putDatabase, LineDatabase: s.lineDatabase, DatabaseFromHeader: s.fromHeader(),
		Limits: ingest.Limits{
			Line:         parse.Limits{LineBytesMax: int(s.lineBytesMax), TagsMax: int(s.tagsMax), KeyBytesMax: int(s.keyBytesMax)},
			BodyBytesMax: int(s.bodyBytesMax), BodyBytesDecodedMax: int(s.bodyDecodedMax),
			ConnectionsMax: int(s.connectionsMax), InFlightBytesMax: inFlight,
			WritesMax: int(min(max(inFlight/writeBytes, writesMin), writesMax)),
		},
	}
}

func (s *frontSettings) apiOptions(b *backend, q *queries, logger *slog.Logger, registry *process.Registry) api.Options {
	inFlight := s.inFlight(debug.SetMemoryLimit(-1))
	return api.Options{
		Writer: b.writer, Resolver: b.resolver, Generation: b.generation, Shards: b.shards.Shards, ShardKey: b.shards.Key, Source: q.source, Deleter: b.deleter, Relaxed: q.relaxed,
		Ledger: q.ledger, Cluster: b.cluster,
		DatabaseFromHeader: s.fromHeader(),
		ClusterName:        b.clusterName, Version: process.CurrentBuild().Version, Logger: logger, Registerer: registry,
		Limits: api.Limits{
			TagsMax: int(s.tagsMax), KeyBytesMax: int(s.keyBytesMax), InFlightBytesMax: inFlight,
			CallsMax: int(min(max(inFlight/transport.ServerStreamWindowBytes, callsMin), callsMax)),
		},
	}
}
