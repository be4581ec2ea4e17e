package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/certificate/ephemeral"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
	nodecommand "github.com/tickmesh/tickmesh/node/command"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/router/cluster"
	routercommand "github.com/tickmesh/tickmesh/router/command"
)

// localAddress is a free port of the loopback.
const localAddress = "127.0.0.1:0"

// refuseLocalCluster guards against starting one node in the folder of several.
func refuseLocalCluster(dataDir string) error {
	if _, err := os.Stat(filepath.Join(dataDir, member.LocalEtcdDir)); err != nil {
		return nil //nolint:nilerr // there is none; what is wrong with the folder shows when it is opened
	}
	return fmt.Errorf("--data-dir %s: this folder has a cluster of several nodes; start it with --nodes", dataDir)
}

// refuseSingleNode guards against starting several nodes in the folder of one.
func refuseSingleNode(dataDir string) error {
	if _, err := os.Stat(filepath.Join(dataDir, "MANIFEST")); err == nil {
		return fmt.Errorf("--data-dir %s: this folder has a single node; start it without --nodes", dataDir)
	}
	return nil
}

// runLocalCluster runs etcd, nodes and a router in this process: the code of a real
// cluster, over the loopback, where no other process can call them: the CA of their certificates
// lives in this process only.
func runLocalCluster(ctx context.Context, s *standaloneSettings, plan *memory.Plan, rules *process.DatabaseRules, logger *slog.Logger, stdout io.Writer) (err error) {
	points, err := failpoint.Parse(s.Failpoints, nodecommand.FailpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	if err := refuseSingleNode(s.DataDir); err != nil {
		return err
	}
	ca, err := ephemeral.New(member.StandaloneName, filepath.Join(s.DataDir, member.LocalTLSDir), time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ca.Remove()) }()
	etcd, router, err := startLocalEtcd(ctx, s.DataDir, ca, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	// Stores are closed last: nodes leave by them.
	var stores []shardmap.Store
	defer func() {
		for _, store := range stores {
			err = errors.Join(err, store.Close())
		}
	}()
	open := func() (shardmap.Store, error) {
		store, err := etcdstore.Open(etcdstore.Options{Endpoints: []string{etcd.Endpoint()}, Cluster: member.StandaloneName, Credentials: router.Client})
		if err == nil {
			stores = append(stores, store)
		}
		return store, err
	}
	registry := process.NewRegistry()
	registry.MustRegister(plan)
	for i := range int(s.nodes) {
		store, err := open()
		if err != nil {
			return err
		}
		name := fmt.Sprintf(member.LocalNodeName, i+1)
		options := s.NodeOptions(plan, s.shards, &s.SeriesLimitFlags, rules, logger, points)
		options.DataDir = filepath.Join(s.DataDir, name)
		m, err := startLocalNode(ctx, ca, member.Options{ID: name, Store: store, Node: options, Logger: logger, Memory: plan, Together: true})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer func() { err = errors.Join(err, m.Close(ctx)) }()
		registry.RegisterNode(name, m.Node())
		nodecommand.TrackMemory(plan, m.Node())
	}
	store, err := open()
	if err != nil {
		return err
	}
	created := settings.Cluster{Name: member.StandaloneName, Shards: s.shards, Replication: s.replication}
	r, err := cluster.Start(ctx, cluster.Options{
		Name: "router", Peers: router, Cluster: member.StandaloneName, Store: store, Create: routercommand.Creation(&created, s.nodes, 0), Logger: logger, Registry: registry, Memory: plan,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.Await(ctx)
	if err != nil {
		return nil
	}
	return s.serveCluster(ctx, r, m, plan, rules, registry, logger, stdout)
}

// serveCluster serves the router of a cluster in this process.
func (s *standaloneSettings) serveCluster(ctx context.Context, r *cluster.Cluster, m *shardmap.Map, plan *memory.Plan, rules *process.DatabaseRules, registry *process.Registry, logger *slog.Logger, stdout io.Writer) error {
	shards, err := cluster.ShardingOf(m)
	if err != nil {
		return err
	}
	b := routercommand.Backend(r, shards)
	b.Folders = int(s.nodes) + 1 // and that of etcd
	b.Memory, b.Rules, b.Retention = plan, rules, (*time.Duration)(&s.Retention)
	b.About = fmt.Sprintf("runs %d nodes with %d copies in %s", s.nodes, m.Settings.Replication, s.DataDir)
	return s.Serve(ctx, b, registry, logger, stdout)
}

// startLocalNode starts a node that only this process can call.
func startLocalNode(ctx context.Context, ca *ephemeral.CA, o member.Options) (m *member.Member, err error) {
	o.Cluster, o.RPCAddr = member.StandaloneName, localAddress
	if o.Peers, err = ca.Credentials(certificate.RoleNode, o.ID); err != nil {
		return nil, err
	}
	return member.Start(ctx, o)
}

// startLocalEtcd starts an etcd that only this process can call, and returns the
// credentials of the router, with which it is called.
func startLocalEtcd(ctx context.Context, dataDir string, ca *ephemeral.CA, logger *slog.Logger) (*etcdserver.Server, settings.PeerCredentials, error) {
	router, err := ca.Credentials(certificate.RoleRouter, "")
	if err != nil {
		return nil, router, err
	}
	etcd, err := etcdserver.Start(ctx, etcdserver.Options{
		DataDir: filepath.Join(dataDir, member.LocalEtcdDir), ClientAddress: localAddress, Log: logger, ClientTLS: ca.EtcdFiles(), PeerTLS: ca.EtcdFiles(),
	})
	return etcd, router, err
}
