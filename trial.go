package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/router/server"
)

// trial is an empty server in this process, which only this process can reach: what a
// backup is restored into to see that it can be.
type trial struct {
	node   *node.Node
	client *client.Client
	stop   func()
}

// startTrial starts a server in an empty folder, with the settings that `tickmesh
// standalone` has by default.
func startTrial(ctx context.Context, dir string) (c *client.Client, stop func() error, err error) {
	s := &standaloneSettings{}
	s.Define(pflag.NewFlagSet("trial", pflag.ContinueOnError))
	s.DataDir = dir
	logger := slog.New(slog.DiscardHandler)
	plan := memory.Open(s.memoryOptions())
	t := &trial{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.node, err = member.OpenAlone(s.NodeOptions(plan, s.shards, &s.SeriesLimitFlags, nil, logger, nil)); err != nil {
		return nil, nil, err
	}
	n := t.node
	address, stopServer, err := s.ServeAPI(ctx, &server.Backend{
		Writer: n, Resolver: n, Source: n, Deleter: n, Shards: n.Sharding(), Memory: plan,
		Cluster: &member.Standalone{Node: n, DataDir: dir}, ClusterName: member.StandaloneName,
	}, "127.0.0.1:0", logger)
	if err != nil {
		return nil, nil, err
	}
	t.stop = stopServer
	t.client, err = client.New(client.Options{Endpoints: []string{address.String()}, Name: "tickmesh " + process.Version})
	return t.client, t.close, err
}

func (t *trial) close() (err error) {
	if t.client != nil {
		err = t.client.Close()
	}
	if t.stop != nil {
		t.stop()
	}
	if t.node != nil {
		err = errors.Join(err, t.node.Close())
	}
	return err
}
