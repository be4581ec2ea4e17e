package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/router/api"
)

// trial is an empty server in this process, which only this process can reach: what a
// backup is restored into to see that it can be.
type trial struct {
	ctx    context.Context
	node   *node.Node
	grpc   *grpcServer
	client *client.Client
}

// startTrial starts a server in an empty folder, with the settings that `tickmesh
// standalone` has by default.
func startTrial(ctx context.Context, dir string) (c *client.Client, stop func() error, err error) {
	s := &standaloneSettings{}
	s.Define(pflag.NewFlagSet("trial", pflag.ContinueOnError))
	s.dataDir = dir
	logger := slog.New(slog.DiscardHandler)
	plan := process.ApplyMemoryPlan(s.MemoryLimit, s.pageFileBytes)
	t := &trial{ctx: ctx}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.node, err = openAlone(s.nodeOptions(plan, s.shards, &s.seriesLimitSettings, nil, logger, nil)); err != nil {
		return nil, nil, err
	}
	n := t.node
	b, registry := &backend{
		writer: n, resolver: n, source: n, deleter: n, shards: n.Sharding(),
		cluster: &lonelyCluster{node: n, dataDir: dir}, clusterName: lonelyName,
	}, process.NewRegistry()
	service, err := api.New(s.apiOptions(b, s.newQueries(b, logger, registry), logger, registry))
	if err != nil {
		return nil, nil, err
	}
	if t.grpc, err = listenGRPC("127.0.0.1:0", int(s.connectionsMax), service, nil); err != nil {
		return nil, nil, err
	}
	t.grpc.serve(logger)
	t.client, err = client.New(client.Options{Endpoints: []string{t.grpc.address().String()}, Name: "tickmesh " + process.Version})
	return t.client, t.close, err
}

func (t *trial) close() (err error) {
	if t.client != nil {
		err = t.client.Close()
	}
	if t.grpc != nil {
		t.grpc.stop(t.ctx)
	}
	if t.node != nil {
		err = errors.Join(err, t.node.Close())
	}
	return err
}
