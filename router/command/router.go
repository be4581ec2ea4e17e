package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/router/cluster"
	"github.com/tickmesh/tickmesh/router/server"
)

// routerSettings are the flags of `tickmesh router`.
type routerSettings struct {
	server.Settings
	settings.Cluster
	settings.PeerTLS
	initialNodes settings.Count
	initialWait  settings.Duration
	replaceAfter settings.Duration
}

func (s *routerSettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.Listeners.Define(f)
	s.Cluster.Define(f)
	s.initialNodes, s.initialWait, s.replaceAfter = 0, settings.Duration(time.Minute), settings.Duration(10*time.Minute)
	f.Var(&s.initialNodes, "initial-nodes", "nodes that a new cluster waits for; 0: enough for copies and, if there is one within a minute, a witness")
	f.Var(&s.initialWait, "initial-wait", "without --initial-nodes: how long after the first node a witness is waited for; copies always are")
	f.Var(&s.replaceAfter, "replace-after", "a node that is dead for so long has its copies rebuilt elsewhere")
	settings.Group(f, settings.HeadingCluster, "initial-nodes", "initial-wait", "replace-after")
	settings.Hide(f, "initial-wait")
	s.WriteLimits.Define(f)
	s.QueryLimits.Define(f)
	s.QueryHabits.Define(f)
	s.ReplicaFlags.Define(f)
	s.RuleFlags.Define(f)
	s.Access.Define(f)
	s.PublicTLS.Define(f)
	s.PeerTLS.Define(f)
	s.Operation.Define(f)
}

func (s *routerSettings) Validate() error {
	var v settings.Validation
	s.Cluster.Validate(&v)
	s.Settings.Validate(&v)
	s.PeerTLS.Validate(&v, s.EtcdEndpoints)
	v.NotZero("replace-after", s.replaceAfter)
	return v.Err()
}

// New returns `tickmesh router`.
func New() *cobra.Command {
	s := &routerSettings{}
	cmd := &cobra.Command{
		Use:   "router",
		Short: "Run a router: the protocols of clients before a cluster",
		Example: `  tickmesh router --etcd-endpoints 127.0.0.1:2379 --replication 2 --initial-nodes 3
  T=certs/router-r1    # of: tickmesh certs router/r1
  tickmesh router --etcd-endpoints https://etcd:2379 \
    --rpc-tls-cert $T.crt --rpc-tls-key $T.key --rpc-tls-ca certs/ca.crt \
    --etcd-tls-cert $T.crt --etcd-tls-key $T.key --etcd-tls-ca certs/ca.crt`,
		Args: cobra.NoArgs,
	}
	headings := []string{settings.HeadingListeners, settings.HeadingCluster, settings.HeadingWriteLimits, settings.HeadingQueryLimits, settings.HeadingRules, settings.HeadingAccess, settings.HeadingTLS, settings.HeadingOperation}
	settings.Bind(cmd, s, headings, func(ctx context.Context, logger *slog.Logger, stdout io.Writer) error {
		return runRouter(ctx, s, logger, stdout)
	})
	return cmd
}

func runRouter(ctx context.Context, s *routerSettings, logger *slog.Logger, stdout io.Writer) error {
	processor.Share()
	store, err := s.OpenStore(&s.PeerTLS, shardmap.Seen{}, logger)
	if err != nil {
		return err
	}
	defer store.Close()
	peers, err := s.RPCCredentials(s.Cluster.Name, certificate.RoleRouter, "", logger)
	if err != nil {
		return err
	}
	most := s.MemoryMost()
	maps.Copy(most, cluster.MemoryMost())
	plan := memory.Open(memory.Options{LimitBytes: int64(s.MemoryLimit), Process: memory.Process{Role: memory.Router, Most: most}})
	plan.Log(logger)
	registry := process.NewRegistry()
	registry.MustRegister(plan)
	name, err := os.Hostname()
	if err != nil {
		name = "router"
	}
	r, err := cluster.Start(ctx, cluster.Options{
		Name: fmt.Sprintf("%s-%d", name, os.Getpid()), Cluster: s.Cluster.Name, Store: store, Create: Creation(&s.Cluster, s.initialNodes, s.initialWait),
		ReplaceAfter: time.Duration(s.replaceAfter), Peers: peers, Logger: logger, Registry: registry, Memory: plan,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	rules, err := s.DatabaseRuleFlags.Follow(ctx, logger)
	if err != nil {
		return err
	}
	defer rules.Close()
	m, err := r.Await(ctx)
	if err != nil {
		return nil
	}
	if err := s.Check(m); err != nil {
		return err
	}
	shards, err := cluster.ShardingOf(m)
	if err != nil {
		return err
	}
	b := Backend(r, shards)
	b.Rules, b.Memory = rules, plan
	return s.Serve(ctx, b, registry, logger, stdout)
}
