package command

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/cluster"
	"github.com/tickmesh/tickmesh/router/server"
)

// Backend returns a cluster as a server sees it.
func Backend(r *cluster.Cluster, shards series.Sharding) *server.Backend {
	return &server.Backend{
		Writer: r.Fanout(), Resolver: r.Fanout().Resolver(), Generation: r.Fanout().Generation,
		Source: r.Fanout().Source(scan.Consistency{}), Deleter: r.Fanout(), ExemplarWriter: r.Fanout().ExemplarWriter(shards), Exemplars: r.Fanout(), Snapshots: r.Fanout(), Shards: shards,
		WithConsistency: func(o scan.Consistency) (scan.Source, func() []uint16) {
			source := r.Fanout().Source(o)
			return source, source.Missing
		},
		Marks: r.Marks(), Tokens: r.Tokens(), Metadata: r.Metadata(),
		Queries: r.Queries(), Campaign: r.Campaign,
		Cluster: r, ClusterName: r.Name(), Health: r.Health, Details: r.Details,
		About: fmt.Sprintf("is a router of cluster %q", r.Name()),
	}
}
