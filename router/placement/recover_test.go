package placement

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// TestLoopLetsGroupsGoOn has all nodes come back as other incarnations with quarantined replicas. Nothing
// is done while one that may have data is away; then every shard goes on from the best copy,
// and gets its other copies again.
func TestLoopLetsGroupsGoOn(t *testing.T) {
	c := newCluster(t)
	names := []string{"a", "b", "c"}
	var away atomic.Bool
	away.Store(true)
	var old atomic.Pointer[shardmap.Map] // from before the power cut; nil: it has not come
	l, ticks, _ := c.startLoop("one", func(o *Options) {
		o.Copies = func(context.Context) (all []shardmap.NodeCopies) {
			m := old.Load()
			if m == nil {
				return nil
			}
			now, err := c.store.Load(c.ctx)
			if err != nil {
				return nil
			}
			for i, name := range names {
				n := shardmap.NodeCopies{Node: name, Incarnation: fmt.Sprintf("%032x", 10+i), Former: []string{fmt.Sprintf("%032x", 1+i)}, SyncMs: 1000}
				for shard, row := range m.Rows {
					if is := now.Map.Rows[shard]; is.Era > row.Era { // it goes on
						if first := is.Members[0]; first.Node == name {
							n.Copies = append(n.Copies, shardmap.Copy{Shard: uint16(shard), RaftID: first.RaftID, Era: is.Era, Role: first.Role, Leads: true, Members: is.Members})
						}
						continue
					}
					for _, member := range row.Members {
						if member.Node == name {
							n.Copies = append(n.Copies, shardmap.Copy{Shard: uint16(shard), RaftID: member.RaftID, Era: 1, Role: member.Role,
								Quarantined: true, Term: 1, Index: uint64(10 + i), Members: row.Members})
						}
					}
				}
				if name != "b" || !away.Load() {
					all = append(all, n)
				}
			}
			return all
		}
	})
	for i, name := range names {
		c.startNode(name, 1+i)
	}
	before := c.await("a map", on(names...)).Map
	for _, name := range names {
		c.nodes[name].SetReachable(false)
	}
	c.server.ExpireLeases()
	old.Store(before)
	for i, name := range names {
		c.startNode(name, 10+i)
	}
	waiting, whole := 0, 0
	for _, row := range before.Rows {
		if _, has := memberOf(row, "b"); has {
			waiting++
		} else {
			whole++
		}
	}
	for l.Status().WaitingForCopies != waiting || l.Status().Recovered != uint64(whole) {
		ticks <- time.Time{}
	}
	for range 3 {
		ticks <- time.Time{}
	}
	if s := l.Status(); s.Recovered != uint64(whole) {
		t.Fatalf("%d of %d shards went on while %d had to wait", s.Recovered, len(before.Rows), waiting)
	}
	away.Store(false)
	for l.Status().Recovered != uint64(len(before.Rows)) {
		ticks <- time.Time{}
	}
	after := c.await("all copies to be there again", on(names...)).Map
	for shard, row := range after.Rows {
		was := before.Rows[shard]
		best := ""
		for _, m := range was.Members {
			if m.Role == shardmap.Full && m.Node > best {
				best = m.Node // its log is the longest
			}
		}
		if row.Era != was.Era+1 || row.Recovered == nil || row.Recovered.Node != best {
			t.Errorf("shard %d: %+v after %+v", shard, row, was)
		}
	}
}

// TestLoopLetsLateGroupsGoOn has one node come back as another incarnation. Only its quarantined copies know their
// groups: the other voters came late to them while they were fresh. They are a majority that is live, and elects nobody.
func TestLoopLetsLateGroupsGoOn(t *testing.T) {
	c := newCluster(t)
	names := []string{"a", "b", "c"}
	var old atomic.Pointer[shardmap.Map] // from before the power cut; nil: it has not come
	l, ticks, _ := c.startLoop("one", func(o *Options) {
		o.Copies = func(context.Context) (all []shardmap.NodeCopies) {
			m := old.Load()
			now, err := c.store.Load(c.ctx)
			if m == nil || err != nil {
				return nil
			}
			for i, name := range names {
				n := shardmap.NodeCopies{Node: name, Incarnation: fmt.Sprintf("%032x", 1+i)}
				if name == "a" {
					n.Incarnation, n.Former = fmt.Sprintf("%032x", 10), []string{n.Incarnation}
				}
				for shard, row := range m.Rows {
					if now.Map.Rows[shard].Era > row.Era {
						continue // it goes on
					}
					for _, member := range row.Members {
						of := shardmap.Copy{Shard: uint16(shard), RaftID: member.RaftID, Era: 1, Role: member.Role}
						if name == "a" {
							of.Quarantined, of.Members = true, row.Members
						}
						if member.Node == name {
							n.Copies = append(n.Copies, of)
						}
					}
				}
				all = append(all, n)
			}
			return all
		}
	})
	for i, name := range names {
		c.startNode(name, 1+i)
	}
	before := c.await("a map", on(names...)).Map
	c.before.Store(before)
	lost := 0
	for _, row := range before.Rows {
		_, has := memberOf(row, "a")
		lost += int(oneIf(has))
	}
	c.killNode("a")
	old.Store(before)
	c.startNode("a", 10)
	for l.Status().Recovered != uint64(lost) {
		ticks <- time.Time{}
	}
}

// memberOf returns the full voter of a row on a node.
func memberOf(row shardmap.Row, node string) (shardmap.Member, bool) {
	for _, m := range row.Members {
		if m.Node == node && m.Role == shardmap.Full {
			return m, true
		}
	}
	return shardmap.Member{}, false
}
