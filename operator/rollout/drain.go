package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

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
