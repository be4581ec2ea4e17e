package main

import (
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
	nodecommand "github.com/tickmesh/tickmesh/node/command"
	"github.com/tickmesh/tickmesh/router/server"
)

// standaloneSettings are the flags of `tickmesh standalone`.
type standaloneSettings struct {
	server.Settings
	nodecommand.StorageFlags
	nodecommand.SeriesLimitFlags
	shards, nodes, replication settings.Count
}

func (s *standaloneSettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.Listeners.Define(f)
	s.shards = settings.ShardsDefault
	f.Var(&s.shards, "shards", "shards of a new data folder; a used one keeps its own number")
	s.nodes, s.replication = 1, 1
	f.Var(&s.nodes, "nodes", "storage nodes in this process; more than 1 make a cluster on the loopback, with an etcd of its own")
	f.Var(&s.replication, "replication", "copies of each shard, 1 to 3, of a new data folder with more than one node")
	settings.Group(f, settings.HeadingStorage, "shards", "nodes", "replication")
	s.StorageFlags.Define(f)
	s.SeriesLimitFlags.Define(f)
	s.WriteLimits.Define(f)
	s.QueryLimits.Define(f)
	s.Access.Define(f)
	s.PublicTLS.Define(f)
	s.Operation.Define(f)
}

// standaloneNodesMax bounds the nodes of one process: each has files and memory of its own.
const standaloneNodesMax = 16

// Validate checks what a flag's own type cannot: bounds, and flags against each
// other. The error has a line for each problem.
func (s *standaloneSettings) Validate() error {
	var v settings.Validation
	v.Between("shards", s.shards, 1, settings.ShardsMax)
	v.Between("nodes", s.nodes, 1, standaloneNodesMax)
	v.Between("replication", s.replication, 1, min(settings.ReplicationMax, max(s.nodes, 1)))
	s.StorageFlags.Validate(&v)
	s.Settings.Validate(&v)
	return v.Err()
}
