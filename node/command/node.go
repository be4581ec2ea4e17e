package command

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

	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/agent"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
)

// nodeSettings are the flags of `tickmesh node`.
type nodeSettings struct {
	settings.Cluster
	nodeIdentitySettings
	StorageFlags
	moveSettings
	SeriesLimitFlags
	process.DatabaseRuleFlags
	auth.Flags
	process.AuditFlags
	settings.PublicTLS
	settings.PeerTLS
	settings.Operation
	httpAddr settings.Address
}

func (s *nodeSettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.Cluster.Define(f)
	s.nodeIdentitySettings.Define(f)
	s.httpAddr = ":6191"
	f.Var(&s.httpAddr, "http-addr", "HTTP: metrics and health; empty: off")
	settings.Group(f, settings.HeadingCluster, "http-addr")
	s.StorageFlags.Define(f)
	s.walSync.Value = "interval"
	f.Lookup("wal-sync").DefValue = "interval"
	s.moveSettings.Define(f)
	s.SeriesLimitFlags.Define(f)
	s.DatabaseRuleFlags.Define(f)
	s.Flags.Define(f)
	f.Lookup("auth-file").Usage = "`file` with users, tokens and rights, for the HTTP port; empty: everybody may ask there"
	s.AuditFlags.Define(f)
	s.PublicTLS.Define(f)
	s.PeerTLS.Define(f)
	s.Operation.Define(f)
}

func (s *nodeSettings) Validate() error {
	var v settings.Validation
	s.Cluster.Validate(&v)
	s.nodeIdentitySettings.Validate(&v)
	s.StorageFlags.Validate(&v)
	s.moveSettings.Validate(&v)
	s.PublicTLS.Validate(&v, s.AuthFile)
	s.PeerTLS.Validate(&v, s.EtcdEndpoints)
	s.ExposeRPC(&v, "rpc-addr", string(s.rpcAddr))
	s.Operation.Validate(&v)
	return v.Err()
}

// New returns `tickmesh node`.
func New() *cobra.Command {
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
	settings.Bind(cmd, s, []string{settings.HeadingCluster, settings.HeadingStorage, settings.HeadingMoves, settings.HeadingWriteLimits, settings.HeadingAccess, settings.HeadingTLS, settings.HeadingOperation}, func(ctx context.Context, logger *slog.Logger, _ io.Writer) error {
		return runNode(ctx, s, logger)
	})
	return cmd
}

func runNode(ctx context.Context, s *nodeSettings, logger *slog.Logger) error {
	points, err := failpoint.Parse(s.Failpoints, FailpointNames())
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
	seen, err := seenBy(s.DataDir)
	if err != nil {
		return err
	}
	store, err := s.OpenStore(&s.PeerTLS, seen, logger)
	if err != nil {
		return err
	}
	defer store.Close()
	shards, err := s.shardsOf(ctx, store, seen, logger)
	if err != nil {
		return err
	}
	peers, err := s.RPCCredentials(s.Cluster.Name, certificate.RoleNode, s.nodeID, logger)
	if err != nil {
		return err
	}
	rules, err := s.DatabaseRuleFlags.Follow(ctx, logger)
	if err != nil {
		return err
	}
	defer rules.Close()
	plan := memory.Open(memory.Options{LimitBytes: int64(s.MemoryLimit), Process: memory.Process{Role: memory.Node, ExtentBytes: int64(s.PageFileBytes), Most: MemoryMost(1)}})
	ctx, unfit := context.WithCancelCause(ctx)
	defer unfit(nil)
	member.MakePrivate(s.DataDir, logger)
	m, err := member.Start(ctx, member.Options{
		ID: s.nodeID, Zone: s.zone, Cluster: s.Cluster.Name, RPCAddr: string(s.rpcAddr), AdvertiseAddr: string(s.advertiseAddr), Store: store,
		Node: s.NodeOptions(plan, shards, &s.SeriesLimitFlags, rules, logger, points), Peers: peers, Logger: logger,
		Unfit: unfit, MoveRate: uint64(s.moveRate), Memory: plan,
	})
	if err != nil {
		return process.ListenError("rpc-addr", string(s.rpcAddr), err)
	}
	plan.Log(logger)
	err = s.watch(ctx, m, plan, rules, logger)
	if cause := context.Cause(ctx); errors.Is(cause, node.ErrShards) {
		err = member.DataDirError(s.DataDir, cause)
	}
	logger.Info("stopping: other nodes take over what this one leads", "timeout", s.ShutdownTimeout.String())
	defer process.ExitAfter(time.Duration(s.ShutdownTimeout)+process.ClosingMax, logger).Stop()
	return errors.Join(err, m.Close(ctx))
}

// seenBy returns the newest map that the node of a data folder has seen.
func seenBy(dataDir string) (shardmap.Seen, error) {
	m, err := agent.ReadMap(dataDir)
	if err != nil || m == nil {
		return shardmap.Seen{}, err
	}
	return shardmap.Seen{ClusterID: m.ID, Epoch: m.Epoch}, nil
}

const storeRetry = 2 * time.Second

// shardsOf returns the number of shards of the cluster; 0: as in the data folder. While
// the store does not answer, a node that knows its cluster goes on without it.
func (s *nodeSettings) shardsOf(ctx context.Context, store shardmap.Store, seen shardmap.Seen, logger *slog.Logger) (settings.Count, error) {
	for {
		view, err := store.Load(ctx)
		switch {
		case err == nil && view.Map != nil:
			return settings.Count(view.Map.Settings.Shards), s.Check(view.Map)
		case seen.Epoch > 0:
			return 0, nil
		case err == nil:
			return s.NewShards(), nil
		case !errors.Is(err, shardmap.ErrUnavailable):
			return 0, err
		}
		logger.Warn("the placement store does not answer, and this node is new; waiting for it", "endpoints", strings.Join(s.EtcdEndpoints, ","), "error", err)
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(storeRetry):
		}
	}
}

// watch serves metrics and health until the context ends.
func (s *nodeSettings) watch(ctx context.Context, m *member.Member, plan *memory.Plan, rules *process.DatabaseRules, logger *slog.Logger) error {
	if s.httpAddr == "" {
		<-ctx.Done()
		return nil
	}
	secure, err := s.Server(logger)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", string(s.httpAddr))
	if err != nil {
		return process.ListenError("http-addr", string(s.httpAddr), err)
	}
	registry := process.NewRegistry()
	TrackMemory(plan, m.Node())
	registry.MustRegister(plan, m.Node(), process.StoreGauge(m.StoreErr), budget.NewCollector(m.Budgets()))
	rules.Register(registry)
	users, err := s.Flags.Follow(ctx, nil, nil, logger)
	if err != nil {
		return err
	}
	defer users.Close()
	users.Register(registry)
	trail, err := s.AuditFlags.Open(registry, logger)
	if err != nil {
		return err
	}
	defer trail.Close()
	registry.MustRegister(process.DiskGauges(s.DataDir)...)
	ready := &process.Readiness{Health: m.Ready, Details: m.Details}
	ready.Set(true)
	pages, err := s.OriginPolicy(secure.Certificate)
	if err != nil {
		return err
	}
	handler := users.Guard(newMux(registry, ready, m.Node(), &s.Operation))
	server := process.ServeHTTP(ctx, listener, secure.Config, trail.Handler(pages.Handler(handler)), logger)
	logger.Info("listening", "port", "http", "address", listener.Addr().String())
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-server.Failed():
		return err
	}
}

// newMux routes what a node's HTTP port answers.
func newMux(registry *process.Registry, ready *process.Readiness, compactor process.Compactor, s *settings.Operation) *endpoint.Mux {
	return process.NewMux(process.MuxOptions{Own: nodeRoot(), Registry: registry, Ready: ready, Compactor: compactor, Admin: s.Admin, Pprof: s.Pprof})
}

// Endpoints lists what the HTTP port of a node answers when every flag is on that adds some.
func Endpoints(compactor process.Compactor) []string {
	return newMux(process.NewRegistry(), &process.Readiness{}, compactor, &settings.Operation{Admin: true, Pprof: true}).Endpoints()
}

// nodeRoot answers / with where to go.
func nodeRoot() *endpoint.Mux {
	m := &endpoint.Mux{}
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "TickMesh "+process.Version+", a node: /metrics and /readyz tell how it is; routers take points, answer queries and have a page.")
	})
	return m
}
