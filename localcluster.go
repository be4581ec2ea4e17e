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

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
)

// The folders of a cluster in one process, below the data folder.
const (
	localEtcdDir  = "etcd"
	localNodeName = "node-%d"
	localAddress  = "127.0.0.1:0"
)

// refuseLocalCluster guards against starting one node in the folder of several.
func refuseLocalCluster(dataDir string) error {
	if _, err := os.Stat(filepath.Join(dataDir, localEtcdDir)); err != nil {
		return nil //nolint:nilerr // there is none; what is wrong with the folder shows when it is opened
	}
	return fmt.Errorf("--data-dir %s: this folder has a cluster of several nodes; start it with --nodes", dataDir)
}

// runLocalCluster runs etcd, nodes and a router in this process: the code of a real
// cluster, over the loopback.
func runLocalCluster(ctx context.Context, s *standaloneSettings, plan memoryPlan, rules *databaseRules, logger *slog.Logger, stdout io.Writer) (err error) {
	points, err := failpoint.Parse(s.failpoints, failpointNames())
	if err != nil {
		return fmt.Errorf("--failpoints: %w", err)
	}
	if _, err := os.Stat(filepath.Join(s.dataDir, "MANIFEST")); err == nil {
		return fmt.Errorf("--data-dir %s: this folder has a single node; start it without --nodes", s.dataDir)
	}
	plan.log(logger)
	etcd, err := etcdserver.Start(ctx, etcdserver.Options{DataDir: filepath.Join(s.dataDir, localEtcdDir), ClientAddress: localAddress, Log: logger})
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
		store, err := etcdstore.Open(etcdstore.Options{Endpoints: []string{etcd.Endpoint()}, Cluster: lonelyName})
		if err == nil {
			stores = append(stores, store)
		}
		return store, err
	}
	registry := newRegistry()
	settings := clusterSettings{cluster: lonelyName, shards: s.shards, replication: s.replication}
	extent := int64(s.pageFileBytes)
	plan.generationBytes = max(plan.generationBytes/int64(s.nodes)/extent, 1) * extent
	for i := range int(s.nodes) {
		store, err := open()
		if err != nil {
			return err
		}
		local := s.storageSettings
		name := fmt.Sprintf(localNodeName, i+1)
		local.dataDir = filepath.Join(s.dataDir, name)
		m, err := startMember(ctx, memberOptions{
			id: name, cluster: lonelyName, rpcAddr: localAddress, store: store,
			node: local.nodeOptions(plan, s.shards, &s.seriesLimitSettings, rules, logger, points), logger: logger,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer func() { err = errors.Join(err, m.Close(ctx)) }()
		registry.registerNode(name, m.node)
	}
	store, err := open()
	if err != nil {
		return err
	}
	r, err := startRouter(ctx, routerOptions{
		name: "router", cluster: lonelyName, store: store, create: settings.creation(s.nodes, 0), logger: logger, registry: registry,
	})
	if err != nil {
		return err
	}
	defer r.close()
	m, err := r.await(ctx)
	if err != nil {
		return nil //nolint:nilerr // stopped before the cluster was there
	}
	return s.serveCluster(ctx, r, m, rules, registry, logger, stdout)
}

// serveCluster serves the router of a cluster in this process.
func (s *standaloneSettings) serveCluster(ctx context.Context, r *clusterRouter, m *shardmap.Map, rules *databaseRules, registry *registry, logger *slog.Logger, stdout io.Writer) error {
	shards, err := shardingOf(m)
	if err != nil {
		return err
	}
	b := r.backend(shards)
	b.rules, b.retention = rules, time.Duration(s.retention)
	b.about = fmt.Sprintf("runs %d nodes with %d copies in %s", s.nodes, m.Settings.Replication, s.dataDir)
	return s.serve(ctx, b, registry, logger, stdout)
}
