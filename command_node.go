package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/agent"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
)

// nodeSettings are the flags of `tickmesh node`.
type nodeSettings struct {
	clusterSettings
	nodeIdentitySettings
	storageSettings
	moveSettings
	seriesLimitSettings
	databaseRuleSettings
	authSettings
	clientTLSSettings
	peerTLSSettings
	operationSettings
	httpAddr address
}

func (s *nodeSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.clusterSettings.define(f)
	s.nodeIdentitySettings.define(f)
	s.httpAddr = ":6191"
	f.Var(&s.httpAddr, "http-addr", "HTTP: metrics and health; empty: off")
	group(f, headingCluster, "http-addr")
	s.storageSettings.define(f)
	s.walSync.value = "interval"
	f.Lookup("wal-sync").DefValue = "interval"
	s.moveSettings.define(f)
	s.seriesLimitSettings.define(f)
	s.databaseRuleSettings.define(f)
	s.authSettings.define(f)
	f.Lookup("auth-file").Usage = "`file` with users, tokens and rights, for the HTTP port; empty: everybody may ask there"
	s.clientTLSSettings.define(f)
	s.peerTLSSettings.define(f)
	s.operationSettings.define(f)
}

func (s *nodeSettings) validate() error {
	var v validation
	s.clusterSettings.validate(&v)
	s.nodeIdentitySettings.validate(&v)
	s.storageSettings.validate(&v)
	s.moveSettings.validate(&v)
	s.clientTLSSettings.validate(&v, s.authFile)
	s.peerTLSSettings.validate(&v, s.etcdEndpoints)
	s.exposeRPC(&v, "rpc-addr", string(s.rpcAddr))
	s.operationSettings.validate(&v)
	return v.err()
}

func newNodeCommand() *cobra.Command {
	s := &nodeSettings{}
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run a storage node of a cluster",
		Example: `  tickmesh node --data-dir ./n2 --node-id n2 --rpc-addr 127.0.0.1:6290 --http-addr 127.0.0.1:6291
  T=certs/node-n1    # of: tickmesh certs node/n1
  tickmesh node --data-dir /var/lib/tickmesh --node-id n1 --etcd-endpoints https://etcd:2379 \
    --rpc-tls-cert $T.crt --rpc-tls-key $T.key --rpc-tls-ca certs/ca.crt \
    --etcd-tls-cert $T.crt --etcd-tls-key $T.key --etcd-tls-ca certs/ca.crt`,
		Args: cobra.NoArgs,
	}
	runWith(cmd, s, []string{headingCluster, headingStorage, headingMoves, headingWriteLimits, headingAccess, headingTLS, headingOperation}, func(ctx context.Context, logger *slog.Logger, _ io.Writer) error {
		return runNode(ctx, s, logger)
	})
	return cmd
}

// settings are the flags of a role.
type settings interface {
	define(f *pflag.FlagSet)
	validate() error
	log() (format, level string)
}

func (s *operationSettings) log() (format, level string) { return s.logFormat.value, s.logLevel.value }

// runWith gives a command the flags of a role, and has it run with them.
func runWith(cmd *cobra.Command, s settings, headings []string, run func(context.Context, *slog.Logger, io.Writer) error) {
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		strange, err := loadSettings(cmd.Flags(), os.Environ())
		if err == nil {
			err = s.validate()
		}
		if err != nil {
			return withHelp(cmd, err)
		}
		format, level := s.log()
		logger := newLogger(cmd.ErrOrStderr(), format, level)
		if len(strange) > 0 {
			logger.Warn("the environment has variables that look like settings and are none", "names", strings.Join(strange, " "))
		}
		return run(cmd.Context(), logger, cmd.OutOrStdout())
	}
	s.define(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		writeUsage(cmd, cmd.OutOrStderr(), headings)
		return nil
	})
}

func runNode(ctx context.Context, s *nodeSettings, logger *slog.Logger) error {
	points, err := failpoint.Parse(s.failpoints, failpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	if s.nodeID == "" {
		if s.nodeID, err = os.Hostname(); err != nil {
			return fmt.Errorf("--node-id: %w", err)
		}
	}
	if err := s.readZone(ctx, logger); err != nil {
		return err
	}
	seen, err := seenBy(s.dataDir)
	if err != nil {
		return err
	}
	store, err := s.openStore(&s.peerTLSSettings, seen, logger)
	if err != nil {
		return err
	}
	defer store.Close()
	shards, err := s.shardsOf(ctx, store, seen, logger)
	if err != nil {
		return err
	}
	peers, err := s.rpcCredentials(s.cluster, certificate.RoleNode, s.nodeID, logger)
	if err != nil {
		return err
	}
	rules, err := s.follow(ctx, logger)
	if err != nil {
		return err
	}
	defer rules.close()
	plan := applyMemoryPlan(s.memoryLimit, s.pageFileBytes)
	plan.log(logger)
	ctx, unfit := context.WithCancelCause(ctx)
	defer unfit(nil)
	makePrivate(s.dataDir, logger)
	m, err := startMember(ctx, memberOptions{
		id: s.nodeID, zone: s.zone, cluster: s.cluster, rpcAddr: string(s.rpcAddr), advertiseAddr: string(s.advertiseAddr), store: store,
		node: s.nodeOptions(plan, shards, &s.seriesLimitSettings, rules, logger, points), peers: peers, logger: logger,
		unfit: unfit, moveRate: uint64(s.moveRate),
	})
	if err != nil {
		return listenErrorOf("rpc-addr", string(s.rpcAddr), err)
	}
	err = s.watch(ctx, m, rules, logger)
	if cause := context.Cause(ctx); errors.Is(cause, node.ErrShards) {
		err = dataDirError(s.dataDir, cause)
	}
	logger.Info("stopping: other nodes take over what this one leads", "timeout", s.shutdownTimeout.String())
	defer exitAfter(time.Duration(s.shutdownTimeout)+closingMax, logger).Stop()
	return errors.Join(err, m.Close(ctx))
}

// seenBy gives the newest map that the node of a data folder has seen.
func seenBy(dataDir string) (shardmap.Seen, error) {
	m, err := agent.ReadMap(dataDir)
	if err != nil || m == nil {
		return shardmap.Seen{}, err
	}
	return shardmap.Seen{ClusterID: m.ID, Epoch: m.Epoch}, nil
}

func (s *clusterSettings) openStore(t *peerTLSSettings, seen shardmap.Seen, logger *slog.Logger) (shardmap.Store, error) {
	o := etcdstore.Options{Endpoints: s.etcdEndpoints, Cluster: s.cluster, Seen: seen}
	files, err := t.etcdTLS.open(logger)
	if err != nil {
		return nil, err
	}
	if files != nil {
		o.Credentials = files.Credentials()
	}
	return etcdstore.Open(o)
}

const storeRetry = 2 * time.Second

// shardsOf gives the number of shards of the cluster; 0: the data folder knows. While
// the store does not answer, a node that knows its cluster goes on without it.
func (s *clusterSettings) shardsOf(ctx context.Context, store shardmap.Store, seen shardmap.Seen, logger *slog.Logger) (count, error) {
	for {
		view, err := store.Load(ctx)
		switch {
		case err == nil && view.Map != nil:
			return count(view.Map.Settings.Shards), s.check(view.Map)
		case seen.Epoch > 0:
			return 0, nil
		case err == nil:
			return s.newShards(), nil
		case !errors.Is(err, shardmap.ErrUnavailable):
			return 0, err
		}
		logger.Warn("the placement store does not answer, and this node is new; waiting for it", "endpoints", strings.Join(s.etcdEndpoints, ","), "error", err)
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(storeRetry):
		}
	}
}

// newShards gives the number of shards of a cluster that is made.
func (s *clusterSettings) newShards() count {
	if s.shards == 0 {
		return shardsDefault
	}
	return s.shards
}

// check refuses settings that differ from those of the cluster.
func (s *clusterSettings) check(m *shardmap.Map) error {
	if s.shards != 0 && int(s.shards) != m.Settings.Shards {
		return fmt.Errorf("--shards %d: cluster %q has %d shards, which cannot be changed; leave the flag out", s.shards, s.cluster, m.Settings.Shards)
	}
	if s.replication != 0 && int(s.replication) != m.Settings.Replication {
		return fmt.Errorf("--replication %d: cluster %q was made with %d; leave the flag out", s.replication, s.cluster, m.Settings.Replication)
	}
	return nil
}

// watch serves metrics and health until the context ends.
func (s *nodeSettings) watch(ctx context.Context, m *member, rules *databaseRules, logger *slog.Logger) error {
	if s.httpAddr == "" {
		<-ctx.Done()
		return nil
	}
	secure, err := s.serverTLS(logger)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", string(s.httpAddr))
	if err != nil {
		return listenErrorOf("http-addr", string(s.httpAddr), err)
	}
	registry := newRegistry()
	registry.MustRegister(m.node, storeGauge(m.storeTrouble), budget.NewCollector(m.budgets))
	rules.register(registry)
	users, err := s.openAuthority(ctx, nil, logger)
	if err != nil {
		return err
	}
	defer users.close()
	users.register(registry)
	registry.MustRegister(diskGauges(m.options.node.DataDir)...)
	ready := &readiness{health: m.ready, details: m.details}
	ready.set(true)
	pages, err := s.pages(secure.certificate)
	if err != nil {
		return err
	}
	front := &frontSettings{operationSettings: s.operationSettings}
	const headerTimeout = 10 * time.Second
	server := &http.Server{
		Handler: pages.Handler(users.guard(front.newMux(nodeRoot(), registry, ready, m.node))), ReadHeaderTimeout: headerTimeout, TLSConfig: secure.config,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	logger.Info("listening", "port", "http", "address", listener.Addr().String())
	failed := make(chan error, 1)
	go func() {
		if secure.config != nil {
			failed <- server.ServeTLS(listener, "", "")
			return
		}
		failed <- server.Serve(listener)
	}()
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-failed:
		return err
	}
}

// nodeRoot tells at / where to go.
func nodeRoot() *mux {
	m := &endpoint.Mux{}
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "TickMesh "+programVersion+", a node: /metrics and /readyz tell how it is; routers take points, answer queries and have a page.")
	})
	return m
}
