package rollout

import "github.com/tickmesh/tickmesh/api/shardmap"

// cleanUp ends what scaling in has left over: pods on machines that are gone, and what
// the store and Kubernetes still have of nodes without a pod.
func (d *decision) cleanUp() {
	for _, s := range d.slots() {
		node, pod := s.node(), s.pod()
		if s.ordinal < s.group.Replicas || d.live(node) || d.named(node) || s.ordinal < s.group.target && d.usable(s) {
			continue // it comes back as it was
		}
		switch {
		case pod == nil:
			d.finish(s)
		case pod.Machine == "" || !d.machineGone(pod.Machine):
		case !d.giveUp(s, ReasonMachineLost):
			// Its machine cannot say that the process has ended, but an incarnation that
			// is retired cannot come back.
			d.do(Action{Kind: DeletePod, Reason: ReasonMachineLost, Node: node, UID: pod.UID, Force: true})
		}
	}
}

// finish ends a node that has no pod and is in no row.
func (d *decision) finish(s slot) {
	node, claim := s.node(), s.claim()
	desired, retired := d.State.Desired[node], d.retired(node)
	given := claim != nil && claim.GivenUp
	keep := claim != nil && !claim.Terminating && !d.Want.DeleteClaims && s.ordinal >= s.group.target
	switch {
	case s.ordinal < s.group.target && given && !claim.Terminating && !retired && desired != shardmap.Gone:
		d.markClaim(s, claim, false, ReasonReactivated)
	case keep && d.known(node) && !retired && !given && desired != shardmap.Gone:
		if desired != shardmap.Draining {
			d.setDesired(node, shardmap.Draining, ReasonCleaning)
		}
	case desired != shardmap.Gone && d.known(node) && !retired && !keep && d.marked(claim):
		d.setDesired(node, shardmap.Gone, ReasonCleaning)
	case d.giveUp(s, ReasonCleaning):
	case claim != nil && !keep:
		d.deleteClaim(s, claim, ReasonCleaning)
	case desired != "":
		d.setDesired(node, "", ReasonCleaning)
	}
}
