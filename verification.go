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

// verificationServer is an empty server in this process, which only this process can reach: what a
// backup is restored into to see that it can be.
type verificationServer struct {
	node   *node.Node
	client *client.Client
	stop   func()
}

// startVerificationServer starts a server in an empty folder, with the settings that `tickmesh
// standalone` has by default.
func startVerificationServer(ctx context.Context, dir string) (c *client.Client, stop func() error, err error) {
	s := &standaloneSettings{}
	s.Define(pflag.NewFlagSet("verification", pflag.ContinueOnError))
	s.DataDir = dir
	logger := slog.New(slog.DiscardHandler)
	plan := memory.Open(s.memoryOptions())
	v := &verificationServer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.node, err = member.OpenAlone(s.NodeOptions(plan, s.shards, &s.SeriesLimitFlags, nil, logger, nil)); err != nil {
		return nil, nil, err
	}
	n := v.node
	address, stopServer, err := s.ServeAPI(ctx, &server.Backend{
		Writer: n, Resolver: n, Generation: n.Generation, Source: n, Deleter: n, Shards: n.Sharding(), Memory: plan,
		Cluster: &member.Standalone{Node: n, DataDir: dir}, ClusterName: member.StandaloneName,
	}, "127.0.0.1:0", logger)
	if err != nil {
		return nil, nil, err
	}
	v.stop = stopServer
	v.client, err = client.New(client.Options{Endpoints: []string{address.String()}, Name: "tickmesh " + process.Version})
	return v.client, v.close, err
}

func (v *verificationServer) close() (err error) {
	if v.client != nil {
		err = v.client.Close()
	}
	if v.stop != nil {
		v.stop()
	}
	if v.node != nil {
		err = errors.Join(err, v.node.Close())
	}
	return err
}
