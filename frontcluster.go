package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/router/fanout"
	"github.com/tickmesh/tickmesh/router/placement"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// routerOptions say how a process stands before a cluster.
type routerOptions struct {
	name, cluster string
	store         shardmap.Store
	create        shardmap.Creation
	replaceAfter  time.Duration
	peers         settings.PeerCredentials
	logger        *slog.Logger
	registry      *process.Registry
}

// clusterRouter follows a cluster and runs its placement when it is elected.
type clusterRouter struct {
	options   routerOptions
	fanout    *fanout.Cluster
	placement *placement.Loop
	limits    shardmap.Limits
	marks     *tenant.Cluster
	tokens    *token.Cluster
	lost      *lostNodes
	process   uint64
	view      atomic.Pointer[shardmap.View] // the last one
	mapped    chan struct{}                 // closed when there is a map
	running   sync.WaitGroup
	cancel    context.CancelFunc
}

// startRouter begins to follow the cluster. It does not wait for it.
func startRouter(ctx context.Context, o routerOptions) (*clusterRouter, error) {
	r := &clusterRouter{options: o, marks: tenant.NewCluster(o.store), tokens: token.NewCluster(o.store), process: rand.Uint64(), mapped: make(chan struct{})}
	r.view.Store(&shardmap.View{})
	r.fanout = fanout.New(fanout.Options{Self: r.hello, Credentials: o.peers.Client, Names: o.peers.Names, Logger: o.logger, Registerer: o.registry})
	r.limits = shardmap.DefaultLimits()
	r.limits.Create = o.create
	if o.replaceAfter > 0 {
		r.limits.ReplaceAfterMs = o.replaceAfter.Milliseconds()
	}
	r.lost = newLostNodes(o.logger, time.Duration(r.limits.ReplaceAfterMs)*time.Millisecond)
	var err error
	r.placement, err = placement.New(placement.Options{
		Store: o.store, Name: o.name, Limits: r.limits, Log: o.logger, Leaders: r.leaderNames, Transfer: r.transfer, Copies: r.copies,
		Pause: placement.WritePause,
	})
	if err != nil {
		r.fanout.Close()
		return nil, err
	}
	o.registry.MustRegister(placement.NewCollector(r.placement), process.StoreGauge(func() error { return r.view.Load().Err }))
	running, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	r.running.Go(func() { r.placement.Run(running) })
	r.running.Go(func() { r.follow(running) })
	return r, nil
}

func (r *clusterRouter) hello() handshake.Hello {
	id := ""
	if m := r.view.Load().Map; m != nil {
		id = m.ID
	}
	return handshake.New(r.options.cluster, id, "", "", r.process)
}

func (r *clusterRouter) follow(ctx context.Context) {
	for view := range r.options.store.Watch(ctx) {
		first := r.view.Load().Map == nil && view.Map != nil
		r.view.Store(&view)
		r.marks.See(view)
		r.tokens.See(view)
		r.lost.see(view)
		if view.Err != nil {
			r.options.logger.Warn("the placement store cannot be relied on; the router goes on with its shard map", "error", view.Err)
		}
		if err := r.fanout.SetView(view.Map, view.Nodes); err != nil {
			r.options.logger.Error("a shard map is refused", "error", err)
			continue
		}
		if first {
			close(r.mapped)
		}
	}
}

// await waits for the first map and gives it.
func (r *clusterRouter) await(ctx context.Context) (*shardmap.Map, error) {
	const patience = 5 * time.Second
	for {
		select {
		case <-r.mapped:
			return r.view.Load().Map, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(patience):
			view := r.view.Load()
			r.options.logger.Info("waiting for the cluster's first shard map, which is made when enough nodes are there",
				"nodes", len(view.Nodes), "wanted", max(1, r.options.create.InitialNodes), "store_error", view.Err)
		}
	}
}

func (r *clusterRouter) close() {
	r.cancel()
	r.running.Wait()
	r.fanout.Close()
}

// shardingOf returns how a map chooses the shards of series. Errors: series.ErrShardKey.
func shardingOf(m *shardmap.Map) (series.Sharding, error) {
	key, err := series.ParseShardKey(m.Settings.ShardKey)
	return series.Sharding{Shards: len(m.Rows), Key: key}, err
}

// backend is the cluster as a front sees it.
func (r *clusterRouter) backend(shards series.Sharding) *backend {
	return &backend{
		writer: r.fanout, resolver: r.fanout.Resolver(), generation: r.fanout.Generation,
		source: r.fanout.Source(scan.Relaxation{}), deleter: r.fanout, shards: shards,
		relaxed: func(o scan.Relaxation) (scan.Source, func() []uint16) {
			source := r.fanout.Source(o)
			return source, source.Missing
		},
		marks: r.marks, tokens: r.tokens,
		cluster: r, clusterName: r.options.cluster, health: r.health, details: r.details,
		about: fmt.Sprintf("is a router of cluster %q", r.options.cluster),
	}
}

// health says why nothing can be served; with the store down everything but placement
// works.
func (r *clusterRouter) health() error {
	if r.view.Load().Map == nil {
		return errors.New("there is no shard map yet")
	}
	return nil
}

func (r *clusterRouter) details() []string {
	if err := r.view.Load().Err; err != nil {
		return []string{"placement store: " + err.Error() + "; all but placement works" + process.StoreAdvice(err)}
	}
	return nil
}
