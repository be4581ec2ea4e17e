package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// wanted reports whether a node is to hold shards. A spare one is, whatever its name.
func (d *decision) wanted(s slot) bool {
	return s.isWanted() && (!s.isAsked() || !d.Want.Drained[s.node()])
}

// desire decides what is desired of each node.
func (d *decision) desire() {
	d.desired = maps.Clone(d.State.Desired)
	if d.desired == nil {
		d.desired = map[string]shardmap.Desired{}
	}
	for _, s := range d.slots() {
		node := s.node()
		switch desired := d.desired[node]; {
		case !s.isWanted() || !d.usable(s):
		case s.endsForGood():
			// Placement would move shards to it as long as it holds its lease, and they would
			// go with its volume. The node with a new volume becomes active.
		case d.replacesVolume(s):
		case d.wanted(s) && desired != "" && desired != shardmap.Active:
			d.setDesired(node, shardmap.Active, ReasonReactivated)
		case !d.wanted(s) && desired == shardmap.Gone:
			d.setDesired(node, shardmap.Draining, ReasonReactivated)
		}
	}
	var leaving []string
	for _, s := range d.told() {
		if !s.isWanted() {
			leaving = append(leaving, s.node())
		}
	}
	d.drain(leaving, ReasonScalingIn)
	for _, node := range slices.Sorted(maps.Keys(d.Want.Drained)) {
		s, ours := d.slotOf(node)
		switch {
		case !d.Want.Drained[node] || ours && !s.isWanted() && s.ordinal < s.group.Replicas:
		case !ours || !s.isAsked():
			d.plan.Unknown = append(d.plan.Unknown, node)
		default:
			d.drain([]string{node}, ReasonDraining)
		}
	}
	d.tellStuck()
}

// needs reports whether the pod of an ordinal is to be there: for the count, or because
// somebody took it away with shards on it. Then it first comes back.
func (d *decision) needs(s slot) bool { return s.isWanted() || d.named(s.node()) }

// scale sets the numbers of pods: up at once, down by one from the top of a group when that node is
// empty.
func (d *decision) scale() {
	for _, g := range d.groups {
		g.target = g.wanted
		for ordinal := g.target; ordinal < d.ordinals(g); ordinal++ {
			if d.needs(slot{g, ordinal}) {
				g.target = ordinal + 1
			}
		}
		switch {
		case !g.isMade && g.wanted > 0: // see make
		case g.target > g.Replicas:
			d.scaleOut(g)
		case g.Replicas > g.wanted:
			d.scaleIn(g)
		}
	}
}

func (d *decision) scaleOut(g *group) {
	to := g.Replicas
	for to < g.target && d.usable(slot{g, to}) {
		to++
	}
	if to < g.target {
		d.wait(ReasonScalingOut, g.NodeName(to), "the volume that it had before is being deleted")
	}
	if to > g.Replicas {
		d.do(Action{Kind: Scale, Reason: ReasonScalingOut, Group: g.Name, Replicas: to})
	}
}

func (d *decision) scaleIn(g *group) {
	top := g.Replicas - 1
	node := g.NodeName(top)
	if d.State.Desired[node] != shardmap.Draining && d.State.Desired[node] != shardmap.Gone || d.desired[node] == shardmap.Active {
		return // not begun, or refused
	}
	for i := range g.Pods {
		if g.Pods[i].Ordinal >= g.Replicas {
			d.wait(ReasonScalingIn, g.NodeName(g.Pods[i].Ordinal), "its pod is ending")
			return
		}
	}
	if d.named(node) {
		d.wait(ReasonScalingIn, node, fmt.Sprintf("%d shards are still on it", len(d.State.Map.MembersOn(node))))
		return
	}
	if emptyForMs, counted := d.EmptyForMs[node]; !counted || emptyForMs < EmptyForMs {
		d.wait(ReasonScalingIn, node, "it is empty, and has to stay so for a moment")
		return
	}
	d.do(Action{Kind: Scale, Reason: ReasonScalingIn, Group: g.Name, Replicas: top})
}

// scaleBlind is scaling while the store cannot be relied on: only what is safe whatever
// it would say. A cluster that is being created has no store yet.
func (d *decision) scaleBlind() {
	for _, g := range d.groups {
		switch {
		case !g.isMade:
		case g.Count > g.Replicas:
			d.scaleOutBlind(g)
		case g.Count < g.Replicas:
			d.wait(ReasonScalingIn, "", "etcd does not answer")
		}
	}
}

func (d *decision) scaleOutBlind(g *group) {
	for ordinal := g.Replicas; ordinal < g.Count; ordinal++ {
		if g.claim(ordinal) != nil {
			d.wait(ReasonScalingOut, g.NodeName(ordinal), "whether its old volume can be used is not known while etcd does not answer")
			return
		}
	}
	d.do(Action{Kind: Scale, Reason: ReasonScalingOut, Group: g.Name, Replicas: g.Count})
}
