package shardmap

import (
	"hash/fnv"
	"maps"
	"slices"
)

// plannedNode is a node as planning sees it.
type plannedNode struct {
	id          string
	incarnation string // the present one; empty: not known
	zone        int    // number of its zone; a node without one has its own
	live        bool
	wanted      bool  // it is to hold shards
	gone        bool  // it is dead and will not come back
	give        bool  // wanted and live: its replicas may be moved for balance
	take        bool  // wanted, live and not full: it may get replicas
	deadMs      int64 // for how long it has been dead
}

// nodeSet has the nodes in the order of their ids.
type nodeSet struct {
	all    []plannedNode
	byID   map[string]int
	limits *Limits
}

func newNodeSet(s *State, l *Limits) *nodeSet {
	p := &nodeSet{byID: map[string]int{}, limits: l}
	zones := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(nodesOf(s))) {
		node, known := s.Nodes[id]
		desired := s.Desired[id]
		at := plannedNode{
			id: id, incarnation: node.Incarnation, live: known && node.DeadSinceMs == 0,
			wanted: desired == "" || desired == Active,
		}
		if list := s.Incarnations[id]; at.incarnation == "" && len(list) > 0 {
			at.incarnation = list[len(list)-1].ID
		}
		if !at.live {
			at.deadMs = max(s.NowMs-node.DeadSinceMs, 0)
			at.gone = desired == Gone
		}
		zone := "zone " + node.Zone
		if node.Zone == "" {
			zone = "node " + id
		}
		if _, numbered := zones[zone]; !numbered {
			zones[zone] = len(zones)
		}
		at.zone = zones[zone]
		at.give = at.wanted && at.live
		at.take = at.give && !overfull(node.NodeInfo, l.UsedShareMax)
		p.byID[id] = len(p.all)
		p.all = append(p.all, at)
	}
	return p
}

// nodesOf returns all nodes that are known or that the map names.
func nodesOf(s *State) map[string]bool {
	ids := map[string]bool{}
	for id := range s.Nodes {
		ids[id] = true
	}
	for id := range s.Incarnations {
		ids[id] = true
	}
	if s.Map != nil {
		for _, row := range s.Map.Rows {
			for _, member := range row.Members {
				ids[member.Node] = true
			}
			for _, member := range row.Intended {
				ids[member.Node] = true
			}
		}
	}
	return ids
}

// numbersOf returns the numbers of members' nodes, in their order.
func (p *nodeSet) numbersOf(members []Member) []int {
	nodes := make([]int, len(members))
	for i, m := range members {
		nodes[i] = p.byID[m.Node]
	}
	return nodes
}

func overfull(n NodeInfo, shareMax float64) bool {
	return n.CapacityBytes > 0 && shareMax > 0 && float64(n.UsedBytes) > shareMax*float64(n.CapacityBytes)
}

// present reports whether a member is of its node's present incarnation.
func (p *nodeSet) present(m Member) bool { return p.all[p.byID[m.Node]].has(m) }

// has reports whether a member on the node is of its present incarnation.
func (n *plannedNode) has(m Member) bool {
	return n.incarnation == "" || n.incarnation == m.Incarnation
}

// live reports whether a member's process runs.
func (p *nodeSet) live(m Member) bool { return p.all[p.byID[m.Node]].live && p.present(m) }

// stays reports whether a published member may stay where it is.
func (p *nodeSet) stays(m Member) bool {
	at := &p.all[p.byID[m.Node]]
	return at.wanted && p.present(m) && (at.live || at.deadMs < p.limits.ReplaceAfterMs)
}

// awaited reports whether a replica that is only intended is still worth waiting for.
func (p *nodeSet) awaited(m Member) bool {
	at := &p.all[p.byID[m.Node]]
	return at.wanted && p.present(m) && (at.live || at.deadMs < p.limits.RetargetAfterMs)
}

// returns reports whether a published member that should not stay is still better than
// none: it is only to be drained, or may come back.
func (p *nodeSet) returns(m Member) bool {
	at := &p.all[p.byID[m.Node]]
	return p.present(m) && !at.gone
}

// crowding counts the pairs of nodes in one zone.
func (p *nodeSet) crowding(nodes []int) int {
	pairs := 0
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			if p.all[a].zone == p.all[b].zone {
				pairs++
			}
		}
	}
	return pairs
}

// crowdingWith counts the nodes in the zone of one more.
func (p *nodeSet) crowdingWith(nodes []int, node int) int {
	same := 0
	for _, other := range nodes {
		if other != node && p.all[other].zone == p.all[node].zone {
			same++
		}
	}
	return same
}

// crowdingAfter counts the nodes in the zone of one that comes for another.
func (p *nodeSet) crowdingAfter(nodes []int, from, to int) int {
	same := 0
	for _, other := range nodes {
		if other != from && p.all[other].zone == p.all[to].zone {
			same++
		}
	}
	return same
}

// preference is a number that is different for each pair of shard and node: it
// decides between equals, so that a dead node's shards are spread over all others.
func (p *nodeSet) preference(shard, node int) uint32 {
	h := fnv.New32a()
	h.Write([]byte{byte(shard), byte(shard >> 8)})
	h.Write([]byte(p.all[node].id))
	mixed := h.Sum32()
	mixed ^= mixed >> 16
	mixed *= 0x85ebca6b // the last steps of MurmurHash3: neighbouring ids give unlike numbers
	mixed ^= mixed >> 13
	mixed *= 0xc2b2ae35
	return mixed ^ mixed>>16
}
