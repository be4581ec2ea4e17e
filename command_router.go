package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// routerSettings are the flags of `tickmesh router`.
type routerSettings struct {
	frontSettings
	clusterSettings
	peerTLSSettings
	initialNodes count
	initialWait  span
	replaceAfter span
}

func (s *routerSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.listenerSettings.define(f)
	s.clusterSettings.define(f)
	s.initialNodes, s.initialWait, s.replaceAfter = 0, span(time.Minute), span(10*time.Minute)
	f.Var(&s.initialNodes, "initial-nodes", "nodes that a new cluster waits for; 0: enough for copies and witness, see --initial-wait")
	f.Var(&s.initialWait, "initial-wait", "without --initial-nodes: how long after the first node a witness is waited for; copies always are")
	f.Var(&s.replaceAfter, "replace-after", "a node that is dead for so long has its copies rebuilt elsewhere")
	group(f, headingCluster, "initial-nodes", "initial-wait", "replace-after")
	s.writeLimitSettings.define(f)
	s.queryLimitSettings.define(f)
	s.accessSettings.define(f)
	s.clientTLSSettings.define(f)
	s.peerTLSSettings.define(f)
	s.operationSettings.define(f)
}

func (s *routerSettings) validate() error {
	var v validation
	s.clusterSettings.validate(&v)
	s.frontSettings.validate(&v)
	s.peerTLSSettings.validate(&v, s.etcdEndpoints)
	v.notZero("replace-after", s.replaceAfter)
	return v.err()
}

func newRouterCommand() *cobra.Command {
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
	headings := []string{headingListeners, headingCluster, headingWriteLimits, headingQueryLimits, headingAccess, headingTLS, headingOperation}
	runWith(cmd, s, headings, func(ctx context.Context, logger *slog.Logger, stdout io.Writer) error {
		return runRouter(ctx, s, logger, stdout)
	})
	return cmd
}

// creation returns what a new cluster is made with. Without a number of nodes it waits for
// those that copies and witness need, and after a while does without the witness: shards
// that are placed on the first nodes that come have to move at once, and a node that is lost
// meanwhile takes their majority with it.
func (s *clusterSettings) creation(initialNodes count, wait span) shardmap.Creation {
	replication := s.replication
	if replication == 0 {
		replication = replicationDefault
	}
	c := shardmap.Creation{
		Cluster: s.cluster, Settings: shardmap.Settings{Shards: int(s.newShards()), Replication: int(replication)}, InitialNodes: int(initialNodes),
	}
	if initialNodes == 0 {
		c.InitialNodes, c.LeastNodes, c.WaitMs = shardmap.VotersNeeded(int(replication)), int(replication), time.Duration(wait).Milliseconds()
	}
	return c
}

func runRouter(ctx context.Context, s *routerSettings, logger *slog.Logger, stdout io.Writer) error {
	store, err := s.openStore(&s.peerTLSSettings, shardmap.Seen{}, logger)
	if err != nil {
		return err
	}
	defer store.Close()
	peers, err := s.rpcCredentials(s.cluster, certificate.RoleRouter, "", logger)
	if err != nil {
		return err
	}
	plan := applyMemoryPlan(s.memoryLimit, 16<<20)
	plan.log(logger)
	registry := newRegistry()
	name, err := os.Hostname()
	if err != nil {
		name = "router"
	}
	r, err := startRouter(ctx, routerOptions{
		name: fmt.Sprintf("%s-%d", name, os.Getpid()), cluster: s.cluster, store: store, create: s.creation(s.initialNodes, s.initialWait),
		replaceAfter: time.Duration(s.replaceAfter), peers: peers, logger: logger, registry: registry,
	})
	if err != nil {
		return err
	}
	defer r.close()
	rules, err := s.follow(ctx, logger)
	if err != nil {
		return err
	}
	defer rules.close()
	m, err := r.await(ctx)
	if err != nil {
		return nil
	}
	if err := s.check(m); err != nil {
		return err
	}
	shards, err := shardingOf(m)
	if err != nil {
		return err
	}
	b := r.backend(shards)
	b.rules = rules
	return s.serve(ctx, b, registry, logger, stdout)
}
