package sim

import "github.com/tickmesh/tickmesh/api/shardmap"

// rescue lets groups go on that have lost their majority for good, when all who may have
// data are back: what the placement loop does. In the end it is the person who knows that
// lost disks will not come back.
func (w *World) rescue() {
	w.replaceConflicting()
	store := w.server.Open(shardmap.Seen{})
	view, err := store.Load(w.ctx)
	if err != nil || !w.options.Rescue || view.Map == nil || view.Overtaken() != nil {
		return
	}
	var tracker shardmap.Tracker
	asked := shardmap.Summarize(tracker.Observe(view, w.now/1000+1)).Incomplete > 0
	before := w.lost
	w.lost = map[uint16]uint64{}
	found := shardmap.Recoveries(view.Map, w.copies())
	for i := range found {
		r := &found[i]
		if r.Electable || r.Automatic() && !asked || !r.Automatic() && !w.personKnows() {
			continue
		}
		version := view.Map.Rows[r.Shard].Version
		if seen, again := before[r.Shard]; !again || seen != version {
			w.lost[r.Shard] = version
			continue
		}
		next, err := view.Map.Recover(r, w.now/1000, !r.Automatic())
		if err != nil {
			w.fail(14, "recover shard %d: %v", r.Shard, err)
			return
		}
		if err := store.CompareAndSwap(w.ctx, view.Map.Epoch, next); err != nil {
			return
		}
		w.trace.note("rescue", next.Rows[r.Shard].Members[0].Node, int(r.Shard), int(r.Era))
		w.begun(r)
		return
	}
}

// personKnows reports whether all has been healed for so long that who is not there now will
// not come.
func (w *World) personKnows() bool {
	return w.healed && w.now > int64(w.options.ActiveMs)*1000+personMs*1000
}

const personMs = 8000

// copies returns what all nodes that run say.
func (w *World) copies() (out []shardmap.NodeCopies) {
	for _, n := range w.nodes {
		if n.process == nil || n.process.pausedUntil > w.now {
			continue
		}
		said := shardmap.NodeCopies{Node: n.id, Incarnation: n.disk.incarnation, Former: n.disk.former, SyncMs: syncInterval / 1000,
			Copies: n.process.machine.Copies()}
		out = append(out, said)
	}
	return out
}

// begun reports to the oracle that a shard goes on in a new era from what a copy has.
func (w *World) begun(r *shardmap.Recovery) {
	w.stats.Eras++
	if r.Best == nil {
		w.oracle.begin(r.Shard, r.Era, &image{}, 0, r.Automatic())
		return
	}
	w.oracle.begin(r.Shard, r.Era, &w.node(r.Best.Node).disk.images[r.Shard], r.Best.Index, r.Automatic())
}

// replaceConflicting replaces the disk of a node that cannot take the files of others, as its
// message asks for.
func (w *World) replaceConflicting() {
	for _, n := range w.nodes {
		if w.conflicts[n.id] && w.maySpare(n) {
			delete(w.conflicts, n.id)
			w.stats.Conflicts++
			w.kill(n)
			w.trace.note("disk replaced", n.id)
			w.replaceDisk(n)
			w.after(w.between(1000, 100_000), func() { w.startIfDown(n) })
			return
		}
	}
}

// maySpare reports whether all shards have all without a node's disk.
func (w *World) maySpare(n *node) bool {
	for shard := range w.options.Shards {
		c, known := w.configuration(uint16(shard))
		if !known || !w.majority(&c, n) || !w.complete(uint16(shard), &c, n) {
			return false
		}
	}
	return true
}
