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
	// AdoptMap makes the node follow a map that is not older than any before.
	AdoptMap(m *shardmap.Map) error
	// Unpublished returns the configurations of the groups that the node leads where
	// they are not what the adopted map says, which it confirms after the call.
	Unpublished(ctx context.Context) []commit.GroupConfig
	// PublishSignal gets a signal when Unpublished may have something new.
	PublishSignal() <-chan struct{}
}

// Options configure an Agent.
type Options struct {
	Store   shardmap.Store
	Node    Node
	DataDir string
	Cluster string
	// Info describes who the node is; it is asked again for each update.
	Info func() shardmap.NodeInfo
	// Seen is called with every view of the store: addresses of nodes, and whether the
	// store answers. It must not block.
	Seen func(view shardmap.View)
	// Unfit is called when the node can never take part with its data folder, and why. nil:
	// nobody does.
	Unfit  func(error)
	Logger *slog.Logger
}

// UpdateInterval is how often a node tells the store of itself though it has nothing to tell.
const UpdateInterval = 15 * time.Second

const (
	registerTimeout = 20 * time.Second // longer than a lease that a killed process left
	retryDelayMin   = 200 * time.Millisecond
	retryDelayMax   = 5 * time.Second
	publishRetry    = 500 * time.Millisecond
	storeTimeout    = 5 * time.Second
	// adoptInterval is the least time between two maps from the watch. A map is synced to
	// disk before it counts, and while shards move there may be dozens in a second: only
	// the newest waits.
	adoptInterval = 50 * time.Millisecond
	// publishInterval is the least time between two writes of configurations of groups, so
	// that the groups of a node that move together are written together.
	publishInterval = 100 * time.Millisecond
)

// Agent runs until its context ends.
type Agent struct {
	options Options
	logger  *slog.Logger
	newest  atomic.Pointer[shardmap.Map] // seen, and told to the store with the next update; it may wait to be adopted
	// adopting is held while a map is compared, confirmed, kept and handed on. It guards what follows.
	adopting sync.Mutex
	adopted  *shardmap.Map // what the node goes by, which is in the data folder
	behind   bool          // the node has not taken all of the newest map, and may if it is asked again
	// entering is held while the entry in the store is changed, so that an older epoch never
	// replaces a newer one. It guards the registration, which is nil while there is none.
	entering     sync.Mutex
	registration shardmap.Registration
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
	a.newest.Store(kept)
	if err := a.enter(ctx); err != nil {
		return nil, err
	}
	if kept != nil {
		a.adopted = kept
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
		err := a.tell(bounded)
		switch {
		case err == nil:
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

// Map returns the newest map that the node has seen, which it may not have adopted yet; nil: none.
func (a *Agent) Map() *shardmap.Map { return a.newest.Load() }

// Run watches the store, keeps the node registered and publishes configurations, until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { a.watch(ctx) })
	loops.Go(func() { a.stayRegistered(ctx) })
	loops.Go(func() { a.publish(ctx) })
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
			err := a.Adopt(ctx, view.Map)
			switch {
			case err == nil:
			case waits(err):
				a.logger.Info("a shard map is not adopted yet", "epoch", view.Map.Epoch, "error", err)
			default:
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
// folder. One that allocates something to this node is confirmed first. Errors:
// shardmap.ErrRolledBack, shardmap.ErrWrongCluster, shardmap.ErrJump, those of a store that
// does not confirm it, and those of the data folder, after which the present map stays.
func (a *Agent) Adopt(ctx context.Context, m *shardmap.Map) error {
	a.adopting.Lock()
	defer a.adopting.Unlock()
	if m.Cluster != a.options.Cluster {
		return fmt.Errorf("%w: %q", shardmap.ErrWrongCluster, m.Cluster)
	}
	if seen := a.newest.Load(); seen != nil {
		if err := (shardmap.Seen{ClusterID: seen.ID, Epoch: seen.Epoch}).Check(m); err != nil {
			return err
		}
		if err := seen.CheckSuccessor(m); err != nil {
			return err
		}
	}
	if a.adopted != nil && m.Epoch == a.adopted.Epoch && !a.behind {
		return nil
	}
	return a.adoptLocked(ctx, m)
}

// adoptLocked adopts a map that may follow the newest. Until it has, catchUp tries again, but where the
// store is to bring another map.
func (a *Agent) adoptLocked(ctx context.Context, m *shardmap.Map) error {
	a.newest.Store(m)
	err := a.takeLocked(ctx, m)
	a.behind = err != nil && !errors.Is(err, shardmap.ErrConflict) && !errors.Is(err, shardmap.ErrRolledBack)
	return err
}

// takeLocked confirms a map, keeps it and hands it on.
func (a *Agent) takeLocked(ctx context.Context, m *shardmap.Map) error {
	if m.Allocates(a.adopted, a.options.Info().ID) {
		if err := a.confirm(ctx, m); err != nil {
			return err
		}
	}
	if err := writeMap(a.options.DataDir, m); err != nil {
		return err
	}
	a.adopted = m
	return a.options.Node.AdoptMap(m)
}

// confirm records in the store that the node has seen a map, which is the newest, and returns nil if the store has that
// map still. A store that is set back afterwards has a node then that knows more
// (View.Overtaken), so nobody allocates again what the map has allocated. One that was set
// back before has another map. Errors: ErrConflict for another map, ErrUnavailable if the store cannot be told or does not
// answer in time, and those of the store.
func (a *Agent) confirm(ctx context.Context, m *shardmap.Map) error {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := a.tell(bounded); err != nil {
		return fmt.Errorf("%w: the store cannot be told of epoch %d: %w", shardmap.ErrUnavailable, m.Epoch, err)
	}
	view, err := a.options.Store.Load(bounded)
	switch {
	case bounded.Err() != nil: // which the store returns as it is
		return fmt.Errorf("%w: the store does not say whether it has epoch %d still: %w", shardmap.ErrUnavailable, m.Epoch, bounded.Err())
	case err != nil:
		return err
	case view.Map == nil || !view.Map.Equal(*m):
		return fmt.Errorf("%w: after epoch %d", shardmap.ErrConflict, m.Epoch)
	}
	return nil
}

// waits reports whether a map is not adopted only because of what the store has, or does not say:
// the store's next view, or another try, shows.
func waits(err error) bool {
	return errors.Is(err, shardmap.ErrConflict) || errors.Is(err, shardmap.ErrUnavailable) || errors.Is(err, shardmap.ErrRolledBack)
}

// catchUp adopts the newest map again if the node did not take it, as when its disk was full or
// the store did not answer.
func (a *Agent) catchUp(ctx context.Context) {
	a.adopting.Lock()
	defer a.adopting.Unlock()
	if a.behind {
		_ = a.adoptLocked(ctx, a.newest.Load()) // told when it came
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

// tell updates the node's entry in the store, and makes one if there is none.
func (a *Agent) tell(ctx context.Context) error {
	a.entering.Lock()
	defer a.entering.Unlock()
	if a.registration != nil {
		select {
		case <-a.registration.Lost():
		default:
			err := a.registration.Update(ctx, a.info())
			if err == nil || errors.Is(err, shardmap.ErrUnavailable) {
				return err
			}
		}
		a.registration = nil
	}
	registration, err := a.options.Store.Register(ctx, a.info())
	if err == nil {
		a.registration = registration
	}
	return err
}

// lost returns a channel that is closed when the node has lost its entry; nil: it has none.
func (a *Agent) lost() <-chan struct{} {
	a.entering.Lock()
	defer a.entering.Unlock()
	if a.registration == nil {
		return nil
	}
	return a.registration.Lost()
}

// stayRegistered keeps the entry fresh, and enters the node again when it is lost.
func (a *Agent) stayRegistered(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		delay, err := UpdateInterval, a.tell(ctx)
		if failures++; err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			delay = retry().Delay(failures)
			a.logger.Warn("the node cannot be registered; trying again", "after", delay, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-a.lost():
		case <-time.After(delay):
		}
	}
	a.entering.Lock()
	defer a.entering.Unlock()
	if a.registration != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		if err := a.registration.Close(bounded); err != nil {
			a.logger.Warn("the node's registration could not be removed; it ends with its lease", "error", err)
		}
		a.registration = nil
	}
}

// publish writes the configurations that leaders have reached into the map.
func (a *Agent) publish(ctx context.Context) {
	retry := time.NewTicker(publishRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.options.Node.PublishSignal():
		case <-retry.C:
			a.catchUp(ctx)
		}
		// A conflict, or a newer map than the one that was published for: the next view tells.
		err := a.publishOnce(ctx)
		if err != nil && !errors.Is(err, shardmap.ErrConflict) && !errors.Is(err, shardmap.ErrRolledBack) {
			a.logger.Warn("configurations of groups could not be written to the map; trying again", "error", err)
		}
		sleep(ctx, publishInterval)
	}
}

func (a *Agent) publishOnce(ctx context.Context) error {
	a.adopting.Lock()
	present := a.adopted
	a.adopting.Unlock()
	if present == nil {
		return nil
	}
	configs := a.options.Node.Unpublished(ctx)
	next, changed := *present, false
	for _, s := range configs {
		row, ok := next.RowOf(s.Shard)
		if !ok {
			continue
		}
		if published, differs := row.Published(s.Config); differs {
			if published.Validate() != nil {
				published.Intended = nil // it wants another replica in the place of one that has joined meanwhile
			}
			next, changed = next.WithRow(s.Shard, published), true
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
	return a.Adopt(ctx, &next)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
