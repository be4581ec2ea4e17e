package fanout

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// view is what is known of the cluster at one time. It does not change.
type view struct {
	seen  shardmap.Seen
	rows  []shardmap.Row
	nodes map[string]*node
}

// errNoMap: nothing can be done before the first shard map.
var errNoMap = fmt.Errorf("%w: there is no shard map yet", series.ErrUnavailable)

// servers calls yield with each full voter of a shard that can be reached, those of
// the group's configuration first, until it returns false.
func (v *view) servers(shard uint16, yield func(*node) bool) {
	row := &v.rows[shard]
	for _, members := range [...][]shardmap.Member{row.Members, row.Intended} {
		for i := range members {
			if n := v.nodes[members[i].Node]; n != nil && members[i].Role == shardmap.Full && !yield(n) {
				return
			}
		}
	}
}

// serves reports whether a node has a full voter of a shard, by the map.
func (v *view) serves(shard uint16, n *node) (found bool) {
	v.servers(shard, func(server *node) bool {
		found = found || server == n
		return !found
	})
	return found
}

// hasOther reports whether another node has a full voter of a shard, too, by the map.
func (v *view) hasOther(shard uint16, n *node) (found bool) {
	v.servers(shard, func(server *node) bool {
		found = server != n
		return !found
	})
	return found
}

// names returns the ids of all nodes that the map has.
func (v *view) names() map[string]bool {
	names := map[string]bool{}
	for i := range v.rows {
		for _, m := range v.rows[i].Members {
			names[m.Node] = true
		}
		for _, m := range v.rows[i].Intended {
			names[m.Node] = true
		}
	}
	return names
}

// serverOf returns the node that most likely leads a shard; nil: none is known.
func (c *Cluster) serverOf(v *view, shard uint16) *node {
	if guess := c.leaders[shard].Load(); guess != nil {
		if n := v.nodes[*guess]; n != nil {
			return n
		}
	}
	var first *node
	v.servers(shard, func(n *node) bool {
		first = n
		return false
	})
	return first
}

// leads notes that a node leads a shard.
func (c *Cluster) leads(shard uint16, n *node) {
	if guess := c.leaders[shard].Load(); guess == nil || *guess != n.id {
		c.leaders[shard].Store(&n.id)
	}
}

// pointed notes whom a node has named as the leader of a shard, and reports whether
// that is news: another node that can be reached.
func (c *Cluster) pointed(v *view, shard uint16, from *node, leader string) bool {
	n := v.nodes[leader]
	if n == nil || n.id == from.id {
		return false
	}
	c.leads(shard, n)
	return true
}

// passOver makes the next full voter the guess, if a node that did not serve a shard
// is still the guess.
func (c *Cluster) passOver(v *view, shard uint16, from *node) {
	guess := c.leaders[shard].Load()
	if guess != nil && *guess != from.id && v.nodes[*guess] != nil {
		return
	}
	var first, next *node
	passed := false
	v.servers(shard, func(n *node) bool {
		if first == nil {
			first = n
		}
		if passed && n.id != from.id {
			next = n
			return false
		}
		passed = passed || n.id == from.id
		return true
	})
	if next == nil {
		next = first
	}
	if next != nil {
		c.leads(shard, next)
	}
}
