package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/commit"
)

// Node is what an agent needs of a node.
type Node interface {
	// AdoptMap gives the node a map that is not older than any before.
	AdoptMap(m *shardmap.Map) error
	// Settlements returns the configurations of the groups that the node leads where
	// they are not what the adopted map says, which it confirms after the call.
	Settlements(ctx context.Context) []commit.Settlement
	// Unsettled gets a signal when Settlements may have something new.
	Unsettled() <-chan struct{}
}

// Options of an Agent.
type Options struct {
	Store   shardmap.Store
	Node    Node
	DataDir string
	Cluster string
	// Info describes who the node is; it is asked again for each update.
	Info func() shardmap.NodeInfo
	// Seen hears of every view of the store: addresses of nodes, and whether the
	// store answers. It must not block.
	Seen func(view shardmap.View)
	// Unfit hears that the node can never take part with its data folder, and why. nil:
	// nobody does.
	Unfit  func(error)
	Logger *slog.Logger
}

const (
	registerTimeout = 20 * time.Second // longer than a lease that a killed process left
	retryDelayMin   = 200 * time.Millisecond
	retryDelayMax   = 5 * time.Second
	updateInterval  = 15 * time.Second
	settleRetry     = 500 * time.Millisecond
	storeTimeout    = 5 * time.Second
	// adoptInterval is the least time between two maps from the watch. A map is synced to
	// disk before it counts, and while shards move there may be dozens in a second: only
	// the newest waits.
	adoptInterval = 50 * time.Millisecond
	// settleInterval is the least time between two writes of what groups have settled, so
	// that the groups of a node that move together are written together.
	settleInterval = 100 * time.Millisecond
)

// Agent runs until its context ends.
type Agent struct {
	options  Options
	logger   *slog.Logger
	newest   atomic.Pointer[shardmap.Map]
	adopting sync.Mutex // held while a map is compared, kept and handed on
	behind   bool       // the node has not taken the newest map; guarded by adopting
	register shardmap.Registration
}

// Start registers the node and adopts the newest map that is known: the store's, or
// while the store does not answer the one in the data folder. Errors:
// shardmap.ErrNodeHeld, shardmap.ErrRetired and shardmap.ErrWrongCluster say that the
// node must not run; those of the data folder.
func Start(ctx context.Context, options Options) (*Agent, error) {
	a := &Agent{options: options, logger: options.Logger}
	kept, err := ReadMap(options.DataDir)
	if err != nil {
		return nil, err
	}
	if kept != nil && kept.Cluster != options.Cluster {
		return nil, fmt.Errorf("%w: the data folder is of cluster %q, not %q", shardmap.ErrWrongCluster, kept.Cluster, options.Cluster)
	}
	if err := a.enter(ctx); err != nil {
		return nil, err
	}
	if kept != nil {
		a.newest.Store(kept)
		if err := options.Node.AdoptMap(kept); err != nil {
			return nil, fmt.Errorf("adopt the shard map: %w", err)
		}
	}
	return a, nil
}

// enter registers the node, unless the store does not answer. A process that was
// killed may have left a lease, which ends soon.
func (a *Agent) enter(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	for failures := 1; ; failures++ {
		registration, err := a.options.Store.Register(bounded, a.info())
		switch {
		case err == nil:
			a.register = registration
			return nil
		case errors.Is(err, shardmap.ErrUnavailable):
			a.logger.Warn("the placement store does not answer; starting with the last shard map seen", "error", err)
			return nil
		case !errors.Is(err, shardmap.ErrNodeHeld):
			return fmt.Errorf("register the node: %w", err)
		}
		select {
		case <-bounded.Done():
			return fmt.Errorf("register the node: %w", err)
		case <-time.After(retry().Delay(failures)):
		}
	}
}

// Map returns the newest map; nil: none yet.
func (a *Agent) Map() *shardmap.Map { return a.newest.Load() }

// Run watches the store, keeps the node registered and settles, until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { a.watch(ctx) })
	loops.Go(func() { a.stayRegistered(ctx) })
	loops.Go(func() { a.settle(ctx) })
	loops.Wait()
}

func (a *Agent) watch(ctx context.Context) {
	for view := range a.options.Store.Watch(ctx) {
		if a.options.Seen != nil {
			a.options.Seen(view)
		}
		if view.Err != nil {
			a.logger.Warn("the placement store cannot be relied on; the node goes on with its shard map", "error", view.Err)
			continue
		}
		if view.Map != nil {
			if err := a.Adopt(view.Map); err != nil {
				a.logger.Error("a shard map is refused", "epoch", view.Map.Epoch, "error", err)
				if errors.Is(err, node.ErrShards) && a.options.Unfit != nil {
					a.options.Unfit(err)
				}
			}
			sleep(ctx, adoptInterval)
		}
	}
}

// Adopt takes a map that is newer than the present one, and keeps it in the data
// folder. Errors: shardmap.ErrRolledBack, shardmap.ErrWrongCluster, shardmap.ErrJump, and
// those of the data folder, after which the present map stays.
func (a *Agent) Adopt(m *shardmap.Map) error {
	a.adopting.Lock()
	defer a.adopting.Unlock()
	if m.Cluster != a.options.Cluster {
		return fmt.Errorf("%w: %q", shardmap.ErrWrongCluster, m.Cluster)
	}
	if present := a.newest.Load(); present != nil {
		if err := (shardmap.Seen{ClusterID: present.ID, Epoch: present.Epoch}).Check(m); err != nil {
			return err
		}
		if err := present.CheckSuccessor(m); err != nil {
			return err
		}
		if m.Epoch == present.Epoch && !a.behind {
			return nil
		}
	}
	if err := writeMap(a.options.DataDir, m); err != nil {
		return err
	}
	a.newest.Store(m)
	err := a.options.Node.AdoptMap(m)
	a.behind = err != nil
	return err
}

// catchUp gives the node the newest map again if it did not take it, as when its disk
// was full.
func (a *Agent) catchUp() {
	a.adopting.Lock()
	defer a.adopting.Unlock()
	if a.behind {
		a.behind = a.options.Node.AdoptMap(a.newest.Load()) != nil
	}
}

func (a *Agent) info() shardmap.NodeInfo {
	info := a.options.Info()
	if m := a.newest.Load(); m != nil {
		info.ClusterID, info.Epoch = m.ID, m.Epoch
	}
	return info
}

// retry returns how long to wait when the placement store refuses or does not answer.
func retry() backoff.Exponential { return backoff.Exponential{Min: retryDelayMin, Max: retryDelayMax} }

// stayRegistered keeps the entry fresh, and enters the node again when it is lost.
func (a *Agent) stayRegistered(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		if a.register == nil {
			registration, err := a.options.Store.Register(ctx, a.info())
			if err != nil {
				failures++
				delay := retry().Delay(failures)
				a.logger.Warn("the node cannot be registered; trying again", "after", delay, "error", err)
				sleep(ctx, delay)
				continue
			}
			a.register, failures = registration, 0
		}
		select {
		case <-ctx.Done():
		case <-a.register.Lost():
			a.register = nil
		case <-time.After(updateInterval):
			if err := a.register.Update(ctx, a.info()); err != nil && !errors.Is(err, shardmap.ErrUnavailable) {
				a.register = nil
			}
		}
	}
	if a.register != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		if err := a.register.Close(bounded); err != nil {
			a.logger.Warn("the node's registration could not be removed; it ends with its lease", "error", err)
		}
	}
}

// settle writes the configurations that leaders have reached into the map.
func (a *Agent) settle(ctx context.Context) {
	retry := time.NewTicker(settleRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.options.Node.Unsettled():
		case <-retry.C:
			a.catchUp()
		}
		// A conflict, or a newer map than the one that was settled: the next view tells.
		err := a.settleOnce(ctx)
		if err != nil && !errors.Is(err, shardmap.ErrConflict) && !errors.Is(err, shardmap.ErrRolledBack) {
			a.logger.Warn("what groups have settled could not be written; trying again", "error", err)
		}
		sleep(ctx, settleInterval)
	}
}

func (a *Agent) settleOnce(ctx context.Context) error {
	present := a.newest.Load()
	if present == nil {
		return nil
	}
	settlements := a.options.Node.Settlements(ctx)
	next, changed := *present, false
	for _, s := range settlements {
		row, ok := next.RowOf(s.Shard)
		if !ok {
			continue
		}
		if settled, differs := row.Settled(s.Config); differs {
			if settled.Validate() != nil {
				settled.Intended = nil // it wants another replica in the place of one that has joined meanwhile
			}
			next, changed = next.WithRow(s.Shard, settled), true
		}
	}
	if !changed {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	// Of a store that was set back this node may have the map still, which others have gone beyond: an
	// epoch written on top of it would hide that from placement.
	view, err := a.options.Store.Load(bounded)
	if err == nil {
		err = view.Overtaken()
	}
	if err == nil {
		err = a.options.Store.CompareAndSwap(bounded, present.Epoch, next)
	}
	if err != nil {
		return err
	}
	return a.Adopt(&next)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
