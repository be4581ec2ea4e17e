package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// wanted reports whether a node is to hold shards. A spare one is, whatever its name.
func (d *decision) wanted(ordinal int) bool {
	return ordinal < d.asked && !d.Want.Drained[d.NodeName(ordinal)] || d.asked <= ordinal && ordinal < d.Want.Count
}

// desire decides what is desired of each node.
func (d *decision) desire() {
	d.desired = maps.Clone(d.State.Desired)
	if d.desired == nil {
		d.desired = map[string]shardmap.Desired{}
	}
	top := d.ordinals()
	for ordinal := range top {
		node := d.NodeName(ordinal)
		switch desired := d.desired[node]; {
		case ordinal >= d.Want.Count || !d.usable(ordinal):
		case d.endsForGood(ordinal):
			// Placement would move shards to it as long as it holds its lease, and they would
			// go with its volume. The node with a new volume becomes active.
		case d.replacesVolume(ordinal):
		case d.wanted(ordinal) && desired != "" && desired != shardmap.Active:
			d.setDesired(node, shardmap.Active, ReasonReactivated)
		case !d.wanted(ordinal) && desired == shardmap.Gone:
			d.setDesired(node, shardmap.Draining, ReasonReactivated)
		}
	}
	var leaving []string
	for ordinal := d.Want.Count; ordinal < d.Replicas; ordinal++ {
		leaving = append(leaving, d.NodeName(ordinal))
	}
	d.drain(leaving, ReasonScalingIn)
	for _, node := range slices.Sorted(maps.Keys(d.Want.Drained)) {
		ordinal, ours := d.ordinalOf(node)
		switch {
		case !d.Want.Drained[node] || ours && ordinal >= d.Want.Count && ordinal < d.Replicas:
		case !ours || ordinal >= d.asked:
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
func (d *decision) usable(ordinal int) bool {
	node, claim := d.NodeName(ordinal), d.claim(ordinal)
	if ordinal < d.Replicas || d.named(node) {
		return true
	}
	return claim == nil || !claim.Terminating && !claim.GivenUp && d.State.Desired[node] != shardmap.Gone
}

// needs reports whether the pod of an ordinal is to be there: for the count, or because
// somebody took it away with shards on it. Then it first comes back.
func (d *decision) needs(ordinal int) bool {
	return ordinal < d.Want.Count || d.named(d.NodeName(ordinal))
}

// scale sets the number of pods: up at once, down by one from the top when that node is
// empty.
func (d *decision) scale() {
	d.target = d.Want.Count
	for ordinal := d.target; ordinal < d.ordinals(); ordinal++ {
		if d.needs(ordinal) {
			d.target = ordinal + 1
		}
	}
	switch {
	case d.target > d.Replicas:
		d.scaleOut()
	case d.Replicas > d.Want.Count:
		d.scaleIn()
	}
}

func (d *decision) scaleOut() {
	to := d.Replicas
	for to < d.target && d.usable(to) {
		to++
	}
	if to < d.target {
		d.wait(ReasonScalingOut, d.NodeName(to), "the volume that it had before is being deleted")
	}
	if to > d.Replicas {
		d.do(Action{Kind: Scale, Reason: ReasonScalingOut, Replicas: to})
	}
}

func (d *decision) scaleIn() {
	top := d.Replicas - 1
	node := d.NodeName(top)
	if d.State.Desired[node] != shardmap.Draining && d.State.Desired[node] != shardmap.Gone || d.desired[node] == shardmap.Active {
		return // not begun, or refused
	}
	for i := range d.Pods {
		if d.Pods[i].Ordinal >= d.Replicas {
			d.wait(ReasonScalingIn, d.NodeName(d.Pods[i].Ordinal), "its pod is ending")
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
	d.do(Action{Kind: Scale, Reason: ReasonScalingIn, Replicas: top})
}

// scaleBlind is scaling while the store cannot be relied on: only what is safe whatever
// it would say. A cluster that is being created has no store yet.
func (d *decision) scaleBlind() {
	if d.Want.Count > d.Replicas {
		for ordinal := d.Replicas; ordinal < d.Want.Count; ordinal++ {
			if d.claim(ordinal) != nil {
				d.wait(ReasonScalingOut, d.NodeName(ordinal), "whether its old volume can be used is not known while etcd does not answer")
				return
			}
		}
		d.do(Action{Kind: Scale, Reason: ReasonScalingOut, Replicas: d.Want.Count})
	}
	if d.Want.Count < d.Replicas {
		d.wait(ReasonScalingIn, "", "etcd does not answer")
	}
}
