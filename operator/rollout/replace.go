package rollout

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// replace deletes volumes that are lost, once nothing of value is on them, so that the
// StatefulSet makes new ones.
func (d *decision) replace() {
	for _, s := range d.told() {
		loss, lost := d.loss(s)
		if !lost {
			if claim := s.claim(); claim != nil && claim.GivenUp && !claim.Terminating && !d.retired(s.node()) {
				d.markClaim(s, claim, false, ReasonReactivated) // its machine is back in time
			}
			continue
		}
		if d.State.Map != nil {
			loss.Named = len(d.State.Map.MembersOn(loss.Node))
			loss.Shards, _ = d.needed(loss.Node, false)
			loss.Unknown = d.Shards == nil && loss.Named > 0
		}
		if loss.Reason != ReasonReplacingVolume {
			d.plan.Losses = append(d.plan.Losses, loss)
		}
		switch {
		case len(loss.Shards) > 0 || loss.Unknown:
		case d.live(loss.Node):
			d.endLast(s, loss.Reason)
		default:
			d.replaceVolume(s, loss.Reason)
		}
	}
}

// endLast ends the pod of a node that runs on a volume whose claim is being deleted: it
// could never start again. Its shards are whole without it, and it is ended as one is that
// is restarted: alone, and while all others are ready. No shard moves then, and none is made
// to while it ends (see endsForGood), so none comes to need it.
func (d *decision) endLast(s slot, reason Reason) {
	claim, pod := s.claim(), s.pod()
	if claim == nil || !claim.Terminating || claim.Lost || pod == nil || pod.Terminating || d.machineGone(pod.Machine) {
		return
	}
	if d.State.Map == nil && (reason != ReasonReplacingVolume || d.EmptyForMs[s.node()] < EmptyForMs) {
		return // the first map may name it at any moment, and then it has the only data
	}
	why := d.restartBlocker(s)
	switch {
	case s.group.ClaimTemplate.Ending:
		why = "the StatefulSet is being made anew, and nobody would make its pod meanwhile"
	case d.acts():
		why = "other changes come first"
	case why == "" && d.State.Map != nil && d.shardsMove():
		why = "shards are being moved, and may need it in the end"
	}
	for other, pod := range d.pods {
		if pod.Terminating {
			why = other.node() + " is ending"
		}
	}
	if why != "" {
		d.wait(reason, s.node(), "its volume claim is being deleted, and it is replaced later: "+why)
		return
	}
	d.do(Action{Kind: DeletePod, Reason: reason, Node: s.node(), UID: pod.UID})
}

// shardsMove reports whether placement moves shards, or is about to.
func (d *decision) shardsMove() bool {
	return d.State.Map.Moving() > 0 || slices.ContainsFunc(shardmap.Plan(d.State, d.Limits), func(s shardmap.Step) bool {
		return s.Kind == shardmap.StepIntend
	})
}

// loss reports whether a node's volume is lost. While its process holds the lease nothing is
// taken from it.
func (d *decision) loss(s slot) (Loss, bool) {
	node, claim, pod := s.node(), s.claim(), s.pod()
	switch {
	case claim != nil && claim.GivenUp && d.retired(node) && !d.live(node):
		return Loss{Node: node, Reason: ReasonMachineLost, Machine: claim.Machine}, true // it came back, too late
	case claim != nil && !claim.Lost && claim.Terminating && !d.named(node) && d.State.Desired[node] == shardmap.Draining:
		return Loss{Node: node, Reason: ReasonReplacingVolume, Machine: claim.Machine}, true // nothing is on it
	case claim != nil && (claim.Lost || claim.Terminating):
		return Loss{Node: node, Reason: ReasonVolumeLost, Machine: claim.Machine}, true
	case claim != nil && claim.Machine != "" && d.machineGone(claim.Machine):
		return Loss{Node: node, Reason: ReasonMachineLost, Machine: claim.Machine}, true
	case pod != nil && pod.Machine != "" && d.machineGone(pod.Machine) && !d.live(node):
		// The volume is not bound to the machine, or went before the pod.
		return Loss{Node: node, Reason: ReasonMachineLost, Machine: pod.Machine}, true
	}
	return Loss{}, false
}

// replaceVolume retires an incarnation, then deletes its claim and its pod. The claim goes
// before the pod: it stays as terminating until its pod has gone, so that no new pod
// finds it.
func (d *decision) replaceVolume(s slot, reason Reason) {
	node, claim, pod := s.node(), s.claim(), s.pod()
	bound := claim != nil && (claim.Lost || claim.GivenUp || claim.Terminating || claim.Machine != "" && d.machineGone(claim.Machine))
	if !bound && !d.retired(node) {
		return // another machine can mount the volume: Kubernetes moves the pod
	}
	if bound {
		if d.giveUp(s, reason) {
			return
		}
		d.deleteClaim(s, claim, reason)
	}
	if pod != nil && pod.Machine != "" && (bound || d.machineGone(pod.Machine)) {
		force := d.machineGone(pod.Machine)
		if force || !pod.Terminating {
			d.do(Action{Kind: DeletePod, Reason: reason, Node: node, UID: pod.UID, Force: force})
		}
	}
}
