package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/router/continuous"
	"github.com/tickmesh/tickmesh/router/fanout"
	"github.com/tickmesh/tickmesh/router/placement"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// Options describe how a process stands before a cluster.
type Options struct {
	Name, Cluster string
	Store         shardmap.Store
	Create        shardmap.Creation
	ReplaceAfter  time.Duration
	Peers         settings.PeerCredentials
	Logger        *slog.Logger
	Registry      *process.Registry
	Memory        *memory.Plan // nil: defaults bound it
}

// Cluster follows a cluster and runs its placement when it is elected.
type Cluster struct {
	options   Options
	fanout    *fanout.Cluster
	placement *placement.Loop
	limits    shardmap.Limits
	marks     *tenant.Cluster
	tokens    *token.Cluster
	queries   *continuous.Cluster
	lost      *lostNodes
	refusers  refusers // of placement's goroutine
	process   uint64
	view      atomic.Pointer[shardmap.View] // the last one
	mapped    chan struct{}                 // closed when there is a map
	running   sync.WaitGroup
	cancel    context.CancelFunc
}

// Metadata returns where the cluster keeps what metrics mean.
func (r *Cluster) Metadata() shardmap.Store { return r.options.Store }

// Start begins to follow the cluster. It does not wait for it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	r := &Cluster{options: o, marks: tenant.NewCluster(o.Store), tokens: token.NewCluster(o.Store), queries: continuous.NewCluster(o.Store), process: rand.Uint64(), mapped: make(chan struct{})}
	r.view.Store(&shardmap.View{})
	r.fanout = fanout.New(fanout.Options{
		Self: r.hello, Credentials: o.Peers.Client, Names: o.Peers.Names, Logger: o.Logger, Registerer: o.Registry, Limits: fanoutLimits(o.Memory),
	})
	o.Memory.Track(memory.Forwards, r.fanout.WriteBytes)
	o.Memory.Track(memory.IDs, func() int64 { return r.fanout.Resolver().Stats().Bytes })
	r.limits = shardmap.DefaultLimits()
	r.limits.Create = o.Create
	if o.ReplaceAfter > 0 {
		r.limits.ReplaceAfterMs = o.ReplaceAfter.Milliseconds()
	}
	r.refusers = refusers{}
	r.lost = newLostNodes(o.Logger, time.Duration(r.limits.ReplaceAfterMs)*time.Millisecond)
	var err error
	r.placement, err = placement.New(placement.Options{
		Store: o.Store, Name: o.Name, Limits: r.limits, Log: o.Logger, Leaders: r.knownLeaders, Transfer: r.transfer, Copies: r.copies,
		Pause: placement.WritePause,
	})
	if err != nil {
		r.fanout.Close()
		return nil, err
	}
	o.Registry.MustRegister(placement.NewCollector(r.placement), process.StoreGauge(func() error { return r.view.Load().Err }))
	running, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	r.running.Go(func() { r.placement.Run(running) })
	r.running.Go(func() { r.follow(running) })
	return r, nil
}

func (r *Cluster) hello() handshake.Hello {
	id := ""
	if m := r.view.Load().Map; m != nil {
		id = m.ID
	}
	return handshake.New(r.options.Cluster, id, "", "", r.process)
}

func (r *Cluster) follow(ctx context.Context) {
	for view := range r.options.Store.Watch(ctx) {
		first := r.view.Load().Map == nil && view.Map != nil
		r.view.Store(&view)
		r.marks.See(view)
		r.tokens.See(view)
		r.queries.See(view)
		r.lost.see(view)
		if view.Err != nil {
			r.options.Logger.Warn("the placement store cannot be relied on; the router goes on with its shard map", "error", view.Err)
		}
		if err := r.fanout.SetView(view.Map, view.Nodes); err != nil {
			r.options.Logger.Error("a shard map is refused", "error", err)
			continue
		}
		if first {
			close(r.mapped)
		}
	}
}

// Await waits for the first map and returns it.
func (r *Cluster) Await(ctx context.Context) (*shardmap.Map, error) {
	const waitMax = 5 * time.Second
	for {
		select {
		case <-r.mapped:
			return r.view.Load().Map, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(waitMax):
			view := r.view.Load()
			r.options.Logger.Info("waiting for the cluster's first shard map, which is made when enough nodes are there",
				"nodes", len(view.Nodes), "wanted", max(1, r.options.Create.InitialNodes), "store_error", view.Err)
		}
	}
}

// Close ends placement and the connections to the nodes.
func (r *Cluster) Close() {
	r.cancel()
	r.running.Wait()
	r.fanout.Close()
}

// ShardingOf returns how a map chooses the shards of series. Errors: series.ErrShardKey.
func ShardingOf(m *shardmap.Map) (series.Sharding, error) {
	key, err := series.ParseShardKey(m.Settings.ShardKey)
	return series.Sharding{Shards: len(m.Rows), Key: key}, err
}

// Health reports why nothing can be served; with the store down everything but placement
// works.
func (r *Cluster) Health() error {
	if r.view.Load().Map == nil {
		return errors.New("there is no shard map yet")
	}
	return nil
}

// Details returns what a person should know though everything is served.
func (r *Cluster) Details() []string {
	if err := r.view.Load().Err; err != nil {
		return []string{"placement store: " + err.Error() + "; all but placement works" + process.StoreAdvice(err)}
	}
	return nil
}

// Campaign waits until this process is elected.
func (r *Cluster) Campaign(ctx context.Context, e shardmap.Election) (shardmap.Leadership, error) {
	return r.options.Store.Campaign(ctx, e, r.options.Name)
}

// Name returns the name of the cluster.
func (r *Cluster) Name() string { return r.options.Cluster }

// Fanout returns what writes to the nodes and reads from them.
func (r *Cluster) Fanout() *fanout.Cluster { return r.fanout }

// Marks returns what was said of databases by name.
func (r *Cluster) Marks() *tenant.Cluster { return r.marks }

// Queries returns the continuous queries.
func (r *Cluster) Queries() *continuous.Cluster { return r.queries }

// Tokens returns the tokens that callers have made.
func (r *Cluster) Tokens() *token.Cluster { return r.tokens }
