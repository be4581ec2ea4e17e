package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// ClaimTemplate is what the StatefulSet makes volume claims from. Kubernetes does not let it
// change, so that the StatefulSet is made anew for other claims, and its pods stay.
type ClaimTemplate struct {
	Outdated bool   // its claims have another storage class than is asked for
	Ending   bool   // the StatefulSet is being deleted, to be made anew
	Problem  string // why no claims can be made as they are asked for; empty: they can
}

// good reports whether claims are made as they are asked for.
func (t ClaimTemplate) good() bool { return !t.Outdated && t.Problem == "" }

// outdatedVolumes returns the ordinals of the nodes asked for whose claims are to be replaced,
// in the order in which they are: those first whose pods are not ready, as no shard moves for them.
func (d *decision) outdatedVolumes() (ordinals []int) {
	for ordinal := d.asked - 1; ordinal >= 0; ordinal-- {
		if claim := d.claim(ordinal); claim != nil && claim.Outdated {
			ordinals = append(ordinals, ordinal)
		}
	}
	slices.SortStableFunc(ordinals, func(a, b int) int {
		return cmp.Compare(oneIf(d.ready(a)), oneIf(d.ready(b)))
	})
	return ordinals
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// ready reports whether a node has a pod that is ready and holds its lease.
func (d *decision) ready(ordinal int) bool {
	pod := d.pod(ordinal)
	return pod != nil && pod.Ready && !pod.Terminating && d.live(d.NodeName(ordinal))
}

// replacesVolume reports whether a node is being emptied, or is empty, as its volume is to be
// replaced: it stays so until it has another one. A claim that is being deleted goes in any case;
// that of a spare node may be as it is. While no other volumes can be made, nodes are in use, and
// so they are for the first map: without it no volume that is there is replaced.
func (d *decision) replacesVolume(ordinal int) bool {
	claim := d.claim(ordinal)
	if claim == nil || d.State.Desired[d.NodeName(ordinal)] != shardmap.Draining {
		return false
	}
	replaceable := d.ClaimTemplate.good() && (d.State.Map != nil || !claim.Bound)
	return claim.Outdated && ordinal < d.asked && replaceable || claim.Terminating
}

// begunVolumes returns those of the outdated volumes whose nodes are being emptied, or are empty.
func (d *decision) begunVolumes(outdated []int) (begun []int) {
	for _, ordinal := range outdated {
		if d.replacesVolume(ordinal) {
			begun = append(begun, ordinal)
		}
	}
	return begun
}

// spareNodesMax bounds the nodes that there are more than asked for while volumes are replaced:
// with one, shards of replication 2 get witnesses, which then need a place of their own.
const spareNodesMax = 2

// spareNodes returns how many more nodes than asked for there are to be for now: as many as it
// takes to empty one for another volume. They stay until the last volume is replaced.
func (d *decision) spareNodes() int {
	outdated := d.outdatedVolumes()
	if len(outdated) == 0 || !d.ClaimTemplate.good() || d.State.Map == nil {
		return 0
	}
	spare := 0
	for spare < spareNodesMax && d.asked+spare < d.Replicas && !d.leaves(d.asked+spare) {
		spare++
	}
	emptied := d.begunVolumes(outdated)
	if begun := len(emptied) > 0; !begun {
		emptied = outdated[:1]
		if d.Closed || d.shardsMove() {
			return spare
		}
	}
	if spare == spareNodesMax || d.unwell(emptied, d.asked+spare) != "" {
		return spare
	}
	var leaving []string
	for ordinal := range d.Replicas {
		node := d.NodeName(ordinal)
		if (ordinal >= d.asked+spare || slices.Contains(emptied, ordinal)) && (d.known(node) || d.named(node)) {
			leaving = append(leaving, node)
		}
	}
	d.desired = d.State.Desired
	if err := d.checkDrain(leaving); err != nil && !errors.Is(err, shardmap.ErrDrainStuck) {
		return spare + 1
	}
	return spare
}

// leaves reports whether a node is drained, or gone.
func (d *decision) leaves(ordinal int) bool {
	desired := d.State.Desired[d.NodeName(ordinal)]
	return desired == shardmap.Draining || desired == shardmap.Gone
}

// replaceVolumes replaces volumes that are not as they are asked for, one at a time: a node is
// emptied, its claim is deleted, and its pod, so that both are made anew; the node comes back
// empty, and the next one is begun when it is filled again.
func (d *decision) replaceVolumes() {
	outdated := d.outdatedVolumes()
	if len(outdated) == 0 && !d.ClaimTemplate.Outdated {
		return
	}
	switch template := d.ClaimTemplate; {
	case template.Problem != "":
		d.plan.VolumesRefused = template.Problem
		return
	case template.Ending:
		d.wait(ReasonReplacingVolume, "", "the StatefulSet is being made anew, for claims of another storage class")
		return
	case template.Outdated:
		return // see remakeSet
	}
	begun := d.begunVolumes(outdated)
	for _, ordinal := range begun {
		d.replaceEmptied(ordinal, len(outdated))
	}
	if len(begun) > 0 {
		return
	}
	if d.Closed {
		d.plan.VolumesDeferred = len(outdated)
		return
	}
	node, why := d.NodeName(outdated[0]), ""
	switch {
	case d.State.Map != nil:
		if why = d.unwell(outdated[:1], d.Want.Count); why == "" && d.shardsMove() {
			why = "shards are being moved"
		}
	case d.live(node): // the first map may name it at any moment
		why = "the cluster is not made yet"
	}
	if why == "" {
		why = d.unknownContents(outdated[0])
	}
	if why != "" {
		d.waitForVolume(node, len(outdated), why)
		return
	}
	d.drain([]string{node}, ReasonReplacingVolume)
}

// remakeSet has the StatefulSet made anew for other claims, when nothing else is to be done: its
// pods are then as its template says, and stay.
func (d *decision) remakeSet() {
	template := d.ClaimTemplate
	if template.Outdated && !template.Ending && template.Problem == "" && len(d.plan.Actions) == 0 && d.plan.Outdated == 0 {
		d.do(Action{Kind: RemakeSet, Reason: ReasonReplacingVolume})
	}
}

// replaceEmptied deletes the claim of a node that is being emptied, once nothing is on it.
// What comes after that is replace's.
func (d *decision) replaceEmptied(ordinal, outdated int) {
	node, claim := d.NodeName(ordinal), d.claim(ordinal)
	if claim.Terminating {
		return
	}
	why := d.restartBlocker(ordinal)
	switch emptyForMs, counted := d.EmptyForMs[node]; {
	case d.named(node):
		why = fmt.Sprintf("%d shards are still on it", len(d.State.Map.MembersOn(node)))
	case !counted || emptyForMs < EmptyForMs:
		why = "it is empty, and has to stay so for a moment"
	case d.Closed:
		d.plan.VolumesDeferred = outdated
		return
	case d.Hold != "":
		why = d.Hold
	}
	if why == "" {
		why = d.unknownContents(ordinal)
	}
	if pod := d.pod(ordinal); why == "" && pod != nil && pod.Terminating {
		why = "its pod is ending"
	}
	if why != "" {
		d.waitForVolume(node, outdated, why)
		return
	}
	d.deleteClaim(claim, ReasonReplacingVolume)
}

// unknownContents returns why nobody can say that nothing of value is on the volume of a node that
// no row names; "": it can be said. A cluster that is made again finds the volumes of the one
// before, and its store knows of their data only when the nodes have come up.
func (d *decision) unknownContents(ordinal int) string {
	switch claim := d.claim(ordinal); {
	case !claim.Bound:
		return ""
	case d.State.Map == nil:
		return "the cluster is not made yet, and there may be data on it"
	case !d.known(d.NodeName(ordinal)):
		return "its node has never joined, so there may be data on it that nobody knows of; delete its claim to give that up"
	}
	return ""
}

func (d *decision) waitForVolume(node string, outdated int, why string) {
	d.wait(ReasonReplacingVolume, node, fmt.Sprintf("its volume is to be replaced by one of another storage class, the first of %d: %s", outdated, why))
}

// unwell returns what has to come right with the other of some nodes before one is emptied for
// another volume; "": nothing.
func (d *decision) unwell(emptied []int, count int) string {
	for ordinal := range count {
		if slices.Contains(emptied, ordinal) {
			continue
		}
		node, claim, pod := d.NodeName(ordinal), d.claim(ordinal), d.pod(ordinal)
		switch {
		case ordinal >= d.asked && pod != nil && pod.Machine == "":
			return node + " is to take over its shards meanwhile, as the other nodes cannot, and no machine has room for it: add one"
		case !d.ready(ordinal):
			return node + " is not ready"
		case claim != nil && claim.Terminating:
			return "the volume claim of " + node + " is being deleted"
		}
	}
	return d.restartBlocker(emptied[0])
}
