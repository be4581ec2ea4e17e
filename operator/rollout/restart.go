package rollout

import "fmt"

// restart restarts one pod that was made from an older template, if any may be.
func (d *decision) restart() {
	if d.plan.Outdated == d.plan.Deferred {
		return
	}
	for i := range d.Pods {
		if d.Pods[i].Terminating && d.Pods[i].Ordinal < d.Replicas {
			d.wait(ReasonUpdating, d.NodeName(d.Pods[i].Ordinal), "its pod is ending")
			return
		}
	}
	if len(d.plan.Actions) > 0 {
		return // one thing after the other: what is seen may not be so any more
	}
	for ordinal := d.Replicas - 1; ordinal >= 0; ordinal-- {
		if pod := d.pod(ordinal); pod != nil && pod.Outdated && d.broken(pod) {
			d.restartPod(pod)
			return
		}
	}
	for _, ready := range []bool{false, true} {
		for ordinal := d.Replicas - 1; ordinal >= 0; ordinal-- {
			pod := d.pod(ordinal)
			if pod == nil || !pod.Outdated || pod.Ready != ready || d.defers(pod) {
				continue
			}
			if why := d.risk(pod); why != "" {
				d.wait(ReasonUpdating, d.NodeName(ordinal), why)
				continue
			}
			d.restartPod(pod)
			return
		}
	}
}

// defers reports whether the restart of a pod waits for a maintenance window. One that does
// nothing does not wait: the new template may be what mends it.
func (d *decision) defers(pod *Pod) bool { return d.Closed && !pod.Asked && !d.broken(pod) }

// risk reports why a pod that runs may not be restarted now; "": it may.
func (d *decision) risk(pod *Pod) string {
	if claim := d.claim(pod.Ordinal); claim != nil && claim.Terminating {
		return "its volume claim is being deleted, and would go with the pod"
	}
	if d.Hold != "" {
		return d.Hold
	}
	if why := d.restartBlocker(pod.Ordinal); why != "" {
		return why
	}
	if shards, why := d.needed(d.NodeName(pod.Ordinal), true); len(shards) > 0 {
		return fmt.Sprintf("%d of its shards need it, %s", len(shards), why)
	}
	return ""
}

func (d *decision) restartPod(pod *Pod) {
	d.do(Action{Kind: DeletePod, Reason: ReasonUpdating, Node: d.NodeName(pod.Ordinal), UID: pod.UID})
}

// broken reports whether a pod does nothing that a restart could take away.
func (d *decision) broken(pod *Pod) bool {
	if claim := d.claim(pod.Ordinal); pod.Ready || claim != nil && claim.Terminating {
		return false
	}
	if !pod.Running {
		return true
	}
	node := d.NodeName(pod.Ordinal)
	if d.StoreErr != nil || d.Shards == nil || d.live(node) {
		return false
	}
	for shard := range d.Shards {
		for i := range d.Shards[shard].Members {
			if r := &d.Shards[shard].Members[i]; r.Node == node && r.Active {
				return false
			}
		}
	}
	return true
}

// restartBlocker returns what has to come right before a pod that runs may be restarted; "":
// nothing.
func (d *decision) restartBlocker(restarted int) string {
	switch {
	case d.StoreErr != nil:
		return "etcd does not answer"
	case d.Shards == nil && d.State.Map != nil:
		return "no router answers"
	}
	for ordinal := range d.Replicas {
		node, pod := d.NodeName(ordinal), d.pod(ordinal)
		switch {
		case ordinal == restarted:
		case pod != nil && pod.Ready && d.live(node):
			// Readiness tells that the process serves; what its copies lack, the leaders tell.
			if shards := d.lagging(node); len(shards) > 0 {
				return fmt.Sprintf("%d shards of %s have not caught up, the first is %d", len(shards), node, shards[0])
			}
		case pod != nil && !pod.Outdated && pod.Machine != "":
			return node + " is not ready after its restart"
		case d.named(node):
			return node + " is not ready"
		}
	}
	return ""
}
