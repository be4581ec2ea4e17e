package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// configuration returns the newest configuration of a shard's group that any node has had.
func (w *World) configuration(shard uint16) (newest replica.Configuration, known bool) {
	for _, n := range w.nodes {
		if n.process == nil {
			continue
		}
		if status, err := n.process.machine.Host().Status(shard); err == nil {
			w.oracle.configured(&status)
		}
	}
	newest = w.oracle.shards[shard].configuration
	return newest, len(newest.Voters) > 0
}

// diskOf returns the folder of a member; nil: it is lost.
func (w *World) diskOf(m shardmap.Member) *disk {
	n := w.node(m.Node)
	if n == nil || n.disk.incarnation != m.Incarnation || n.disk.power && !w.options.Always {
		return nil
	}
	return n.disk
}

// complete reports whether a full voter has all that was answered; without is not counted.
// Where boards lose their power though the cluster cannot spare them, the log of a witness
// may be what a full voter gets it from.
func (w *World) complete(shard uint16, c *replica.Configuration, without *node) bool {
	answered := w.oracle.shards[shard].answered
	for _, m := range slices.Concat(c.Members, c.Leaving) {
		f := w.diskOf(m)
		if m.Role != shardmap.Full && !(w.options.Rescue && m.Role == shardmap.Witness) || f == nil || without != nil && m.Node == without.id {
			continue
		}
		g := &f.images[shard]
		if (g.raftID == m.RaftID || w.continues(shard, c, g)) && g.last() >= answered {
			return true
		}
	}
	return false
}

// continues reports whether an image is of the replica from which the only member of a
// configuration goes on. The map has named that member durably, alone, in a later era and with
// a raft id of that; its folder says so with the first round after, and has all that the era
// began with already. A process that dies in between has lost nothing: its next start finds the
// replica under its former name, and the map still names its folder (rule M6).
func (w *World) continues(shard uint16, c *replica.Configuration, g *image) bool {
	s := &w.oracle.shards[shard]
	if len(c.Members) != 1 || g.role == shardmap.Witness || g.era == 0 || g.era >= s.era || s.answered == 0 {
		return false
	}
	return g.has(s.answered, s.entries[s.answered-1].entry.Term, math.MaxUint64)
}

// majority reports whether the folders of a majority are there, without one node's.
func (w *World) majority(c *replica.Configuration, without *node) bool {
	for _, voters := range [2][]uint64{c.Voters, c.Outgoing} {
		left := 0
		for _, m := range slices.Concat(c.Members, c.Leaving) {
			if slices.Contains(voters, m.RaftID) && w.diskOf(m) != nil && (without == nil || m.Node != without.id) {
				left++
			}
		}
		if 2*left <= len(voters) && len(voters) > 0 {
			return false
		}
	}
	return true
}

// checkCopies is invariants 8 and 14: some full voter has all that was answered.
func (w *World) checkCopies(shard uint16, when string) {
	c, known := w.configuration(shard)
	if !known || w.oracle.shards[shard].answered == 0 || !w.majority(&c, nil) {
		return
	}
	if !w.complete(shard, &c, nil) {
		w.fail(8, "shard %d: %s, and no full voter of %v has index %d", shard, when, c.Members, w.oracle.shards[shard].answered)
	}
}

func (w *World) checkNow() {
	for shard := range w.options.Shards {
		w.checkCopies(uint16(shard), "time has passed")
	}
	for _, n := range w.nodes {
		if n.process == nil {
			continue
		}
		for _, shard := range n.process.machine.Host().Shards() {
			status, err := n.process.machine.Host().Status(shard)
			if err == nil && status.Role == shardmap.Witness && n.process.engine.AppliedIndexes()[shard] > 0 {
				w.fail(12, "%s: the witness of shard %d has data", n.id, shard)
			}
		}
	}
}

// mayLose reports whether the cluster has to survive the loss of a node's folder.
func (w *World) mayLose(n *node) bool {
	m := w.newestMap()
	for shard := range w.options.Shards {
		c, known := w.configuration(uint16(shard))
		if !known || !w.majority(&c, n) || !w.complete(uint16(shard), &c, n) {
			return false
		}
		// In the middle of a change there may be fewer voters, and only some know of it.
		if m == nil || m.Rows[shard].Intended != nil || !slices.Equal(m.Rows[shard].Members, c.Members) || !w.allKnow(uint16(shard), &c) {
			return false
		}
	}
	return true
}

// allKnow reports whether all members are up, and have the configuration and one log.
func (w *World) allKnow(shard uint16, c *replica.Configuration) bool {
	last := uint64(0)
	for _, m := range c.Members {
		p := w.node(m.Node).process
		if p == nil {
			return false
		}
		status, err := p.machine.Host().Status(shard)
		if err != nil || status.Configuration.Index != c.Index || status.Commit != status.Last || len(status.Configuration.Voters) == 0 {
			return false
		}
		if last == 0 {
			last = status.Last
		}
		if status.Last != last {
			return false
		}
	}
	return true
}

// unrest returns what is not yet as it should be in the end; empty: all is.
func (w *World) unrest() string {
	m := w.newestMap()
	if m == nil {
		return "no map"
	}
	for _, r := range w.routers {
		if r.open > 0 {
			return "an operation is under way"
		}
	}
	for shard := range m.Rows {
		if w.stranded(uint16(shard)) && !w.options.Rescue {
			continue
		}
		if why := w.shardUnrest(uint16(shard), &m.Rows[shard]); why != "" {
			return fmt.Sprintf("shard %d: %s%s", shard, why, w.describe(uint16(shard)))
		}
	}
	view, err := w.server.Open(shardmap.Seen{}).Load(w.ctx)
	if err != nil || len(view.Nodes) < len(w.nodes) {
		return fmt.Sprintf("%d nodes in the store: %v", len(view.Nodes), err)
	}
	var tracker shardmap.Tracker
	if steps := shardmap.Plan(tracker.Observe(view, w.now/1000+1), w.limits); len(steps) > 0 {
		return fmt.Sprintf("a step is to be made: %v", steps[0].Reason)
	}
	return ""
}

// stranded reports whether a group has lost its majority for good: it was left with two
// voters by a change, while one of them lost its disk. It takes an operator to go on.
func (w *World) stranded(shard uint16) bool {
	c, known := w.configuration(shard)
	return known && !w.majority(&c, nil)
}

func (w *World) shardUnrest(shard uint16, row *shardmap.Row) string {
	if row.Intended != nil {
		return fmt.Sprintf("%v moves to %v", row.Members, row.Intended)
	}
	leaders := 0
	truth := &w.oracle.shards[shard]
	for _, n := range w.nodes {
		if n.process == nil {
			return n.id + " is down"
		}
		p := n.process
		status, err := p.machine.Host().Status(shard)
		m, member := row.MemberOn(n.id, n.disk.incarnation)
		switch {
		case !member && err != nil:
			continue
		case !member && len(status.Configuration.Voters) == 0:
			continue // holds nothing
		case !member || err != nil:
			return fmt.Sprintf("%s: member %v, replica %v", n.id, member, err)
		case status.RaftID != m.RaftID || status.Role != m.Role:
			return fmt.Sprintf("%s has %+v", n.id, status.Replica)
		case !slices.Equal(status.Configuration.Members, row.Members) && m.Role != shardmap.Learner:
			return fmt.Sprintf("%s has the configuration %v, the map %v", n.id, status.Configuration.Members, row.Members)
		case status.Commit != status.Last || status.Commit != uint64(len(truth.entries)):
			return fmt.Sprintf("%s: commit %d of %d, %d are known", n.id, status.Commit, status.Last, len(truth.entries))
		case m.Role == shardmap.Full && p.applied[shard] != status.Last:
			return fmt.Sprintf("%s: applied %d of %d", n.id, p.applied[shard], status.Last)
		}
		if m.Role == shardmap.Full {
			p.checkApplied(shard, status.Era)
		}
		if status.Leads {
			leaders++
		}
	}
	if leaders != 1 {
		return fmt.Sprintf("%d leaders", leaders)
	}
	return ""
}

// readBack reads a series at each full voter when all is at rest.
func (w *World) readBack(shard uint16, series uint64) {
	for _, n := range w.nodes {
		if n.process == nil {
			continue
		}
		if status, err := n.process.machine.Host().Status(shard); err != nil || w.stranded(shard) || status.Role != shardmap.Full || len(status.Configuration.Voters) == 0 {
			continue
		}
		var got [timesPerSeries]uint64
		c := n.process.content(shard)
		copy(got[:], c.values[series*timesPerSeries:])
		w.oracle.checkRead(n.id+" in the end", shard, series, got, uint64(len(w.oracle.shards[shard].entries)), w.oracle.shards[shard].era, false)
	}
}

// describe returns what a shard's replicas are, for people.
func (w *World) describe(shard uint16) (text string) {
	for _, n := range w.nodes {
		if n.process == nil {
			continue
		}
		s, err := n.process.machine.Host().Status(shard)
		if err != nil {
			text += fmt.Sprintf("; %s (%.6s): none, quarantined %d", n.id, n.disk.incarnation, n.process.machine.Quarantined())
			continue
		}
		text += fmt.Sprintf("; %s (%.6s): raft id %d of era %d, role %v, leads %v, last %d, commit %d, applied %d, configuration %d %v, installing %v",
			n.id, n.disk.incarnation, s.RaftID, s.Era, s.Role, s.Leads, s.Last, s.Commit, n.process.applied[shard], s.Configuration.Index, s.Configuration.Members, s.Installing)
	}
	return text
}
