package sim

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// beginFaults plays each fault of the options at times of chance, until all is healed.
func (w *World) beginFaults() {
	play := map[Fault]func(){
		FaultKill: func() { w.strike(w.any(), false) }, FaultPowerCut: func() { w.strike(w.any(), true) }, FaultPowerCutAll: w.cutAllPower,
		FaultPause: w.pause, FaultOneWay: w.cutOneWay, FaultPartition: w.partition, FaultStoreCut: w.cutStore,
		FaultLoss: w.loseSome, FaultTwice: func() { w.network.twice = 0.05 * w.rng.Float64() }, FaultRollback: w.rollBack,
		FaultDisk: w.loseDisk, FaultSlowDisk: w.slowDisk, FaultDesired: w.changeDesired, FaultRouter: w.killRouter,
		FaultTransfer: w.transfer, FaultJoin: w.join, FaultSlowLink: w.slowLink, FaultTogether: w.killTogether,
		FaultStall: w.stall,
	}
	for f := range faults {
		if do := play[f]; do != nil && w.options.Faults.has(f) {
			mean := w.between(200_000, 3_000_000) / max(1, int64(w.options.Hurry))
			w.every(always, func() int64 { return w.between(mean/4, 2*mean) }, func() bool {
				if !w.healed {
					do()
				}
				return !w.healed
			})
		}
	}
}

func (w *World) any() *node { return w.nodes[w.rng.IntN(len(w.nodes))] }

// soon undoes a fault after a while.
func (w *World) soon(most int64, undo func()) {
	w.after(w.between(10_000, most), undo)
}

// How long faults last at most, µs.
const (
	downMax     = 2_500_000
	pauseMax    = 3_000_000
	slowDiskMax = 2_500_000
	stallMax    = 1_500_000
	setBackMax  = 3_000_000
)

// most returns the bound of an option in µs, and otherwise the usual one.
func most(ms int, usual int64) int64 {
	if ms > 0 {
		return int64(ms) * 1000
	}
	return usual
}

func (w *World) cutPower(n *node) {
	if !w.options.Always && !w.options.Rescue && !w.mayLose(n) {
		return
	}
	w.cut(n)
	w.down(n, 0)
}

// strikeMax is how long a process may live that ends within something that it does, µs.
const strikeMax = 1_200_000

// strike ends a process between two events, or between two operations on its disk.
func (w *World) strike(n *node, power bool) {
	p := n.process
	if within := w.chance(2) && (!power || w.options.Always || w.options.Rescue); p != nil && within {
		p.cutAfter, p.cutPower = 1+w.rng.IntN(25), power
		w.after(w.between(1000, strikeMax), func() {
			if !p.dead && p.cutAfter > 0 {
				p.cutAfter = 0
				w.strikeNow(n, power)
			}
		})
		return
	}
	w.strikeNow(n, power)
}

func (w *World) strikeNow(n *node, power bool) {
	if power {
		w.cutPower(n)
	} else {
		w.down(n, 0)
	}
}

func (w *World) cutAllPower() {
	if w.chance(2) && (w.options.Always || w.options.Rescue) {
		for _, n := range w.nodes {
			w.cutPower(n)
		}
	}
}

func (w *World) pause() {
	if p := w.any().process; p != nil {
		p.pausedUntil = w.now + w.between(20_000, pauseMax)
		w.trace.note("pause", p.node.id)
	}
}

func (w *World) slowDisk() {
	if p := w.any().process; p != nil {
		p.slowUntil = w.now + w.between(20_000, slowDiskMax)
	}
}

func (w *World) stall() {
	if p := w.any().process; p != nil {
		p.stallUntil = w.now + w.between(10_000, most(w.options.StallMs, stallMax))
	}
}

// ends returns the ids of all that talk to nodes.
func (w *World) ends() []string {
	ids := w.allIDs()
	for _, r := range w.routers {
		ids = append(ids, r.id)
	}
	return ids
}

func (w *World) cutOneWay() {
	ends := w.ends()
	l := link{ends[w.rng.IntN(len(ends))], ends[w.rng.IntN(len(ends))]}
	w.network.cut[l] = true
	w.soon(2_500_000, func() { delete(w.network.cut, l) })
}

func (w *World) slowLink() {
	l := link{w.any().id, w.any().id}
	w.network.slow[l] = w.between(1000, 400_000)
	w.soon(3_000_000, func() { delete(w.network.slow, l) })
}

func (w *World) partition() {
	n := w.any()
	w.trace.note("partition", n.id)
	routers := w.chance(2)
	for i, id := range w.ends() {
		if id == n.id || i >= len(w.nodes) && !routers {
			continue
		}
		for _, l := range [2]link{{n.id, id}, {id, n.id}} {
			w.network.cut[l] = true
		}
	}
	w.soon(3_000_000, func() {
		for _, id := range w.ends() {
			delete(w.network.cut, link{n.id, id})
			delete(w.network.cut, link{id, n.id})
		}
	})
}

func (w *World) cutStore() {
	ends := w.ends()
	id := ends[w.rng.IntN(len(ends))]
	w.storeCut[id] = true
	w.soon(3_000_000, func() { w.storeCut[id] = false })
}

func (w *World) loseSome() {
	w.network.loss = 0.3 * w.rng.Float64() * w.rng.Float64()
	w.soon(2_000_000, func() { w.network.loss = 0 })
}

func (w *World) rollBack() {
	snapshot := w.server.Snapshot()
	longest := most(w.options.SetBackMs, setBackMax)
	w.after(w.between(longest/30, longest), func() {
		if w.healed || w.newestMap() == nil {
			return
		}
		w.setBack(snapshot)
	})
}

func (w *World) setBack(snapshot memstore.Snapshot) {
	w.trace.note("store set back", "")
	w.server.Restore(snapshot)
	w.after(w.between(100_000, 1_000_000), w.rescueMap)
}

// loseDisk replaces a disk by an empty one, where the cluster has to survive that. The
// old disk may be put in again later.
func (w *World) loseDisk() {
	n := w.any()
	if !w.mayLose(n) {
		return
	}
	lost := n.disk
	w.kill(n)
	w.trace.note("disk lost", n.id)
	w.replaceDisk(n)
	w.down(n, 0)
	if !w.options.Faults.has(FaultTwin) {
		return
	}
	w.soon(6_000_000, func() {
		if w.healed || n.disk.incarnation == lost.incarnation || !w.mayLose(n) {
			return
		}
		w.kill(n)
		w.trace.note("old disk", n.id)
		n.disk = lost
		w.down(n, 0)
	})
}

// changeDesired marks a node as one that is to be empty, or not.
func (w *World) changeDesired() {
	desired := [...]shardmap.Desired{shardmap.Draining, shardmap.Active}[w.rng.IntN(2)]
	n := w.any()
	if err := w.server.Open(shardmap.Seen{}).SetDesired(w.ctx, n.id, desired); err != nil {
		w.fail(0, "desired: %v", err)
	}
	w.trace.note(string(desired), n.id)
}

func (w *World) killRouter() {
	r := w.routers[w.rng.IntN(len(w.routers))]
	w.trace.note("router dies", r.id)
	r.begin()
}

func (w *World) transfer() {
	n, to := w.any(), w.any()
	if p := n.process; p != nil {
		shard := uint16(w.rng.IntN(w.options.Shards))
		p.run(func() { p.command(func() { _ = p.machine.Transfer(shard, to.id) }) })
	}
}

func (w *World) join() {
	if len(w.nodes) < w.options.Nodes+2 {
		w.addNode(len(w.nodes))
	}
}

func (w *World) killTogether() {
	w.killRouter()
	w.server.ExpireLeases()
	w.down(w.any(), 0)
}

// heal ends all faults.
func (w *World) heal() {
	w.healed = true
	clear(w.network.cut)
	clear(w.network.slow)
	clear(w.storeCut)
	w.network.loss, w.network.twice = 0, 0
	for _, n := range w.nodes {
		if err := w.server.Open(shardmap.Seen{}).SetDesired(w.ctx, n.id, shardmap.Active); err != nil {
			w.fail(0, "desired: %v", err)
		}
		if n.process != nil {
			n.process.pausedUntil = min(n.process.pausedUntil, w.now)
			n.process.slowUntil = min(n.process.slowUntil, w.now)
			n.process.cutAfter = 0
		}
		w.startIfDown(n)
	}
	w.rescueMap()
}
