package sim

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// placer is a placement loop. Several may run at once.
type placer struct {
	store   *memstore.Store
	tracker shardmap.Tracker
	busy    bool
}

func (w *World) newPlacer(alive func() bool, name string) {
	p := &placer{store: w.server.Open(shardmap.Seen{})}
	w.every(always, func() int64 { return w.between(60_000, 250_000) }, func() bool {
		if alive() {
			p.store.SetReachable(!w.storeCut[name])
			w.place(p)
		}
		return alive()
	})
}

// place makes the first step of a plan. A map that is older than what a node has seen
// is not built on: the store was rolled back. Where a router has seen more than all nodes, as rescued
// maps were lost before any node had one, it refuses the next one, too, until it is restarted: a known
// limit (ARCHITECTURE.md). Who heals does that; a map that a node has gone beyond stays refused.
func (w *World) place(p *placer) {
	view, err := p.store.Load(w.ctx)
	if w.healed && errors.Is(err, shardmap.ErrRolledBack) {
		p.store = w.server.Open(shardmap.Seen{})
		return
	}
	if err != nil || p.busy {
		return
	}
	if view.Overtaken() != nil {
		return
	}
	state := p.tracker.Observe(view, w.now/1000+1)
	steps := shardmap.Plan(state, w.limits)
	if len(steps) == 0 {
		return
	}
	step := steps[0]
	if step.Kind == shardmap.StepRetire {
		_ = p.store.Retire(w.ctx, step.Node, step.Incarnation)
		return
	}
	next, err := step.Apply(state.Map)
	if err != nil {
		w.fail(14, "a step of the plan: %v", err)
		return
	}
	epoch := uint64(0)
	if state.Map != nil {
		epoch = state.Map.Epoch
	}
	w.trace.note("plan", string(step.Kind)+" "+string(step.Reason), int(step.Shard), int(next.Epoch))
	p.busy = true
	w.swap(p.store, epoch, next, always, func(error) { p.busy = false })
}

func (w *World) allIDs() (ids []string) {
	for _, n := range w.nodes {
		ids = append(ids, n.id)
	}
	return ids
}

// rescueMap rescues the map of a store that was set back, from what the nodes have, as the command
// line does.
func (w *World) rescueMap() {
	store := w.server.Open(shardmap.Seen{})
	view, _ := store.Load(w.ctx)
	reports, epoch := w.reports(), uint64(0)
	if view.Map != nil {
		epoch = view.Map.Epoch
		reports = append(reports, shardmap.Report{Map: view.Map}) // somebody may have seen a newer one all the same
	}
	next, err := shardmap.Rescue(reports)
	if errors.Is(err, shardmap.ErrRescue) { // nobody who is there has seen a map
		w.after(w.between(100_000, 1_000_000), w.rescueMap)
		return
	}
	if err == nil {
		err = store.CompareAndSwap(w.ctx, epoch, next)
	}
	if err != nil {
		w.fail(7, "rescue of the map: %v", err)
	}
	w.trace.note("map rescued", "", int(next.Epoch))
}
