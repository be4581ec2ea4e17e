package rollout

import "github.com/tickmesh/tickmesh/api/shardmap"

// cleanUp ends what scaling in has left over: pods on machines that are gone, and what
// the store and Kubernetes still have of nodes without a pod.
func (d *decision) cleanUp() {
	for ordinal := d.Replicas; ordinal < d.ordinals(); ordinal++ {
		node := d.NodeName(ordinal)
		if d.live(node) || d.named(node) {
			continue
		}
		if pod := d.pod(ordinal); pod != nil {
			if pod.Machine != "" && d.machineGone(pod.Machine) {
				d.giveUp(ordinal)
			}
			continue
		}
		d.finish(ordinal)
	}
}

// finish ends a node that has no pod and is in no row.
func (d *decision) finish(ordinal int) {
	node, claim := d.NodeName(ordinal), d.claim(ordinal)
	desired := d.State.Desired[node]
	if ordinal < d.Want.Count && d.usable(ordinal) {
		return // it comes back as it was
	}
	keep := claim != nil && !claim.Terminating && !d.Want.DeleteClaims && ordinal >= d.Want.Count
	switch {
	case keep && desired == shardmap.Gone && !d.retired(node):
		d.setDesired(node, shardmap.Draining, ReasonCleaning)
	case keep:
	case desired != shardmap.Gone && d.known(node) && !d.retired(node):
		d.setDesired(node, shardmap.Gone, ReasonCleaning)
	case d.retireAll(node, ReasonCleaning):
	case claim != nil:
		d.deleteClaim(claim, ReasonCleaning)
	case desired != "":
		d.setDesired(node, "", ReasonCleaning)
	}
}

// retireAll retires the data folders of a node that are not yet. It says whether there
// were any.
func (d *decision) retireAll(node string, reason Reason) bool {
	any := false
	for _, incarnation := range d.State.Incarnations[node] {
		if !incarnation.Retired {
			d.do(Action{Kind: Retire, Reason: reason, Node: node, Incarnation: incarnation.ID})
			any = true
		}
	}
	return any
}

func (d *decision) deleteClaim(claim *Claim, reason Reason) {
	if !claim.Terminating {
		d.do(Action{Kind: DeleteClaim, Reason: reason, Node: d.NodeName(claim.Ordinal), Claim: claim.Name, UID: claim.UID})
	}
}

// giveUp retires a node and then deletes its pod by force: its machine cannot say that
// the process has ended, but an incarnation that is retired cannot come back.
func (d *decision) giveUp(ordinal int) {
	node := d.NodeName(ordinal)
	if d.retireAll(node, ReasonMachineLost) {
		return
	}
	pod := d.pod(ordinal)
	d.do(Action{Kind: DeletePod, Reason: ReasonMachineLost, Node: node, UID: pod.UID, Force: true})
}
