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

func (d *decision) setDesired(node string, desired shardmap.Desired, reason Reason) {
	d.desired[node] = desired
	d.do(Action{Kind: Desire, Reason: reason, Node: node, Desired: desired})
}

// drain drains those of a group that are not drained yet, all of them or none. A node
// that never was part of the cluster has nothing to lose.
func (d *decision) drain(group []string, reason Reason) {
	var fresh, known []string
	for _, node := range group {
		if desired := d.desired[node]; desired == shardmap.Draining || desired == shardmap.Gone {
			continue
		}
		fresh = append(fresh, node)
		if d.known(node) || d.named(node) {
			known = append(known, node)
		}
	}
	if ending := d.ending(); len(ending) > 0 && len(fresh) > 0 {
		d.wait(reason, "", ending[0]+" is ending with its volume, and what is drained could move to it")
		return
	}
	if down := d.down(group); down != "" && len(known) > 0 {
		d.wait(reason, "", fmt.Sprintf("%s is down, and has shards that may need what is to leave", down))
		return
	}
	if err := d.checkDrain(known); err != nil {
		d.plan.Refusals = append(d.plan.Refusals, Refusal{Nodes: fresh, Scale: reason == ReasonScalingIn, Volume: reason == ReasonReplacingVolume, Err: err})
		return
	}
	for _, node := range fresh {
		d.setDesired(node, shardmap.Draining, reason)
	}
}

// down returns a node with shards that is dead and not to be drained; "": there is none.
// Placement counts on it to come back, and would take away a witness that stands in for
// it.
func (d *decision) down(group []string) string {
	for _, node := range slices.Sorted(maps.Keys(d.State.Nodes)) {
		state, desired := d.State.Nodes[node], d.desired[node]
		if state.DeadSinceMs != 0 && (desired == "" || desired == shardmap.Active) && !slices.Contains(group, node) && d.named(node) {
			return node
		}
	}
	return ""
}

// checkDrain refuses a drain that cannot be done, or that would keep one from its end
// that is under way and could reach it.
func (d *decision) checkDrain(fresh []string) error {
	if len(fresh) == 0 || d.State.Map == nil {
		return nil
	}
	state := d.State
	state.Desired = d.desired
	check := func(nodes []string) error {
		_, err := shardmap.CheckDrain(state, d.Limits, d.rates(), nodes...)
		return err
	}
	begun := d.begun()
	err := check(slices.Concat(begun, fresh))
	if err == nil || len(begun) == 0 {
		return err
	}
	if check(begun) != nil {
		err = check(fresh)
	}
	return err
}

// begun returns the nodes that are being drained and are not empty yet.
func (d *decision) begun() []string {
	var begun []string
	for _, node := range slices.Sorted(maps.Keys(d.desired)) {
		if desired := d.desired[node]; desired != shardmap.Active && desired != "" && d.named(node) {
			begun = append(begun, node)
		}
	}
	return begun
}

// tellStuck describes a drain that was begun and cannot go on: what it needs has gone
// since.
func (d *decision) tellStuck() {
	if d.State.Map == nil || d.State.Map.Moving() > 0 {
		return
	}
	begun := d.begun()
	if len(begun) == 0 {
		return
	}
	state := d.State
	state.Desired = d.desired
	if _, err := shardmap.CheckDrain(state, d.Limits, d.rates(), begun...); err != nil {
		d.plan.Refusals = append(d.plan.Refusals, Refusal{Nodes: begun, Begun: true, Err: err})
	}
}

func (d *decision) rates() shardmap.Rates {
	bytes := make([]int64, len(d.Shards))
	for shard := range d.Shards {
		bytes[shard] = d.Shards[shard].Bytes
	}
	return shardmap.Rates{ShardBytes: bytes}
}

// usable reports whether a pod with this ordinal could take part with the volume that it
// would find. One that holds shards is first brought back, whatever it finds: replace
// sees to it then.
func (d *decision) usable(s slot) bool {
	node, claim := s.node(), s.claim()
	if s.ordinal < s.group.Replicas || d.named(node) {
		return true
	}
	return claim == nil || !claim.Terminating && !claim.GivenUp && d.State.Desired[node] != shardmap.Gone
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
