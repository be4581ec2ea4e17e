package rollout

import (
	"fmt"
	"slices"
)

// restart restarts one pod that was made from an older template, if any may be.
func (d *decision) restart() {
	if d.plan.Outdated == d.plan.Deferred {
		return
	}
	for s, pod := range d.pods {
		if pod.Terminating && s.ordinal < s.group.Replicas {
			d.wait(ReasonUpdating, s.node(), "its pod is ending")
			return
		}
	}
	if d.acts() {
		return // one thing after the other: what is seen may not be so any more
	}
	for _, s := range slices.Backward(d.told()) {
		if pod := s.pod(); pod != nil && pod.Outdated && d.broken(s, pod) {
			d.restartPod(s, pod)
			return
		}
	}
	for _, ready := range []bool{false, true} {
		for _, s := range slices.Backward(d.told()) {
			pod := s.pod()
			if pod == nil || !pod.Outdated || pod.Ready != ready || d.defers(s, pod) {
				continue
			}
			if why := d.risk(s); why != "" {
				d.wait(ReasonUpdating, s.node(), why)
				continue
			}
			d.restartPod(s, pod)
			return
		}
	}
}

// defers reports whether the restart of a pod waits for a maintenance window. One that does
// nothing does not wait: the new template may be what mends it.
func (d *decision) defers(s slot, pod *Pod) bool { return d.Closed && !pod.Asked && !d.broken(s, pod) }

// risk reports why a pod that runs may not be restarted now; "": it may.
func (d *decision) risk(s slot) string {
	if claim := s.claim(); claim != nil && claim.Terminating {
		return "its volume claim is being deleted, and would go with the pod"
	}
	if d.Hold != "" {
		return d.Hold
	}
	if why := d.restartBlocker(s); why != "" {
		return why
	}
	if shards, why := d.needed(s.node(), true); len(shards) > 0 {
		return fmt.Sprintf("%d of its shards need it, %s", len(shards), why)
	}
	return ""
}

func (d *decision) restartPod(s slot, pod *Pod) {
	d.do(Action{Kind: DeletePod, Reason: ReasonUpdating, Node: s.node(), UID: pod.UID})
}

// broken reports whether a pod does nothing that a restart could take away.
func (d *decision) broken(s slot, pod *Pod) bool {
	if claim := s.claim(); pod.Ready || claim != nil && claim.Terminating {
		return false
	}
	if !pod.Running {
		return true
	}
	node := s.node()
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
func (d *decision) restartBlocker(restarted slot) string {
	switch {
	case d.StoreErr != nil:
		return "etcd does not answer"
	case d.Shards == nil && d.State.Map != nil:
		return "no router answers"
	}
	for _, s := range d.told() {
		node, pod := s.node(), s.pod()
		switch {
		case s == restarted:
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
