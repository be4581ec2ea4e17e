package sim

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

func newWorld(o Options) *World {
	w := &World{options: o, ctx: context.Background(), rng: rand.New(rand.NewPCG(o.Seed, 0x7469_636b)), server: memstore.NewServer(),
		storeCut: map[string]bool{}, conflicts: map[string]bool{}, keys: keysOf(o.Shards)}
	w.trace.keep = o.Trace
	w.network = network{world: w, cut: map[link]bool{}, slow: map[link]int64{}}
	w.oracle = newOracle(w, o.Shards)
	w.limits = shardmap.DefaultLimits()
	w.limits.MovesMax, w.limits.ReplaceAfterMs, w.limits.RetargetAfterMs = 2, 2500, 1200
	w.limits.Create = shardmap.Creation{Cluster: "sim", ID: fmt.Sprintf("%032x", 0xc1), InitialNodes: min(o.Nodes, 3),
		Settings: shardmap.Settings{Shards: o.Shards, Replication: o.Replication}}
	for i := range o.Nodes {
		w.addNode(i)
	}
	for i := range o.Routers {
		w.routers = append(w.routers, newRouter(w, fmt.Sprintf("r%d", i)))
	}
	w.beginFaults()
	w.every(always, func() int64 { return 200_000 }, func() bool { w.checkNow(); return true })
	w.every(always, func() int64 { return 500_000 }, func() bool { w.rescue(); return true })
	w.every(always, func() int64 { return syncInterval }, func() bool { w.syncAll(); return true })
	w.every(always, func() int64 { return 1_500_000 }, func() bool { w.server.ExpireLeases(); return true })
	return w
}

// syncAll is what --wal-sync=interval does once a second.
func (w *World) syncAll() {
	for _, n := range w.nodes {
		if n.process != nil && n.process.pausedUntil <= w.now && n.process.slowUntil <= w.now {
			if err := n.process.syncLog(); err != nil {
				n.process.fail(0, "sync: %v", err)
			}
		}
	}
}

// Result is what came of a run.
type Result struct {
	Hash  uint64
	Stats Stats
	Err   error // a Violation, or nil
	Trace []string
}

// Run runs a cluster.
func Run(o Options) Result {
	w := newWorld(o)
	w.runUntil(int64(o.ActiveMs) * 1000)
	if w.err == nil {
		w.heal()
		w.rest()
	}
	for i := range w.oracle.shards {
		w.stats.Stranded += oneIf(w.stranded(uint16(i)))
		w.stats.Entries += len(w.oracle.shards[i].entries)
	}
	result := Result{w.trace.hash, w.stats, w.err, w.trace.lines()}
	w.end()
	return result
}

// end lets all processes, and what they have under way, come to an end.
func (w *World) end() {
	w.over, w.err = true, nil
	for _, n := range w.nodes {
		w.kill(n)
	}
	w.runUntil(w.now + 1)
}

func (w *World) runUntil(at int64) {
	for w.err == nil && len(w.queue.events) > 0 && w.queue.events[0].at <= at {
		e := w.queue.pop()
		w.now = e.at
		e.do()
		if w.events++; w.events > eventsMax {
			w.fail(0, "too many events")
		}
	}
	w.now = max(w.now, min(at, w.now+1_000_000))
}

// rest waits until all replicas agree and the map needs no change, then reads all.
func (w *World) rest() {
	deadline := w.now + restMsMax*1000
	why := ""
	for w.err == nil {
		if why = w.unrest(); why == "" {
			break
		}
		if w.now >= deadline {
			w.fail(0, "no rest after %d ms: %s", restMsMax, why)
			return
		}
		w.runUntil(w.now + 200_000)
	}
	for shard := range w.options.Shards {
		for s := range uint64(seriesPerShard) {
			w.readBack(uint16(shard), s)
		}
	}
}
