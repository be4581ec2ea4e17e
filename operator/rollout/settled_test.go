package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// settle lets everything go on until nothing changes any more.
func (w *world) settle() Plan {
	w.storeDown, w.routersDown, w.closed = false, false, false
	for name := range w.machines {
		if w.machines[name].downSinceMs > 0 {
			w.powerOn(name)
		}
	}
	for _, ordinal := range slices.Sorted(maps.Keys(w.claims)) {
		if w.claims[ordinal].terminating && w.allWhole(node(ordinal)) && !w.intends(node(ordinal)) && w.pods[ordinal] != nil {
			w.pods[ordinal].terminating = true // kubectl delete pod, as the status says
			break
		}
	}
	var plan Plan
	quiet := 0
	for round := 0; quiet < 9; round++ {
		if round > 3000 {
			w.t.Fatalf("it does not come to an end: %+v\n%s", plan, w)
		}
		w.nowMs += 10_000
		w.kubernetes(true)
		busy := w.mesh(true)
		plan = w.decide()
		for _, a := range plan.Actions {
			w.act(a)
		}
		quiet++
		if busy || len(plan.Actions) > 0 {
			quiet = 0
		}
	}
	return plan
}

func (w *world) String() string {
	text := fmt.Sprintf("want %+v desired %v\n", w.want, w.desired)
	for group, set := range w.sets {
		text += fmt.Sprintf("set %s %+v\n", setNames[group], *set)
	}
	for _, ordinal := range slices.Sorted(maps.Keys(w.pods)) {
		text += fmt.Sprintf("pod %s %+v running %v\n", node(ordinal), *w.pods[ordinal], w.running(ordinal))
	}
	for _, ordinal := range slices.Sorted(maps.Keys(w.claims)) {
		text += fmt.Sprintf("claim %s %+v\n", node(ordinal), *w.claims[ordinal])
	}
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		text += fmt.Sprintf("machine %s %+v\n", name, *w.machines[name])
	}
	for shard, row := range w.shardMapRows() {
		text += fmt.Sprintf("row %d %+v whole %v\n", shard, row, w.whole(shard, ""))
	}
	return text + fmt.Sprintf("incarnations %v\n", w.incarnations)
}

// checkSettled holds the end of a walk against what was asked for.
func (w *world) checkSettled(plan Plan) {
	refused, stuck := map[string]bool{}, map[string]bool{}
	scaleRefused, volumeRefused := false, false
	for _, r := range plan.Refusals {
		volumeRefused = volumeRefused || r.Volume
		if r.Begun {
			for _, node := range r.Nodes {
				scaleRefused = scaleRefused || !w.isAsked(numberOf(node))
				stuck[node] = true
			}
			continue
		}
		scaleRefused = scaleRefused || r.Scale
		for _, node := range r.Nodes {
			refused[node] = true
		}
	}
	if w.outdated() && !w.claimEnding() && !volumeRefused && len(w.want.Drained) == 0 && !scaleRefused {
		w.t.Fatalf("volumes are not replaced in the end: %+v\n%s", plan, w)
	}
	// Spare nodes stay while a claim that a person deleted cannot go, as its node has the only other copies.
	for group, set := range w.sets {
		spares := (volumeRefused || w.outdated() && w.claimEnding()) && set.replicas <= set.count+2
		if max(set.replicas, 0) != set.count && !spares && !(scaleRefused && set.replicas > set.count) {
			w.t.Fatalf("%d pods of %s in the end, wanted are %d: %+v\n%s", set.replicas, setNames[group], set.count, plan, w)
		}
		if set.leaves && set.replicas == 0 {
			w.t.Fatalf("%s is left over: %+v\n%s", setNames[group], plan, w)
		}
	}
	if w.shardMap == nil {
		if len(w.want.Drained) == 0 {
			w.t.Fatalf("no cluster was made\n%s", w)
		}
		return
	}
	for _, ordinal := range w.told() {
		pod := w.pods[ordinal]
		if claim := w.claims[ordinal]; claim != nil && claim.terminating && w.running(ordinal) {
			return // a person has to say that it may go
		}
		if pod == nil || pod.revision != w.revision || !w.running(ordinal) || !pod.caughtUp || pod.terminating {
			w.t.Fatalf("%s is not well in the end: %+v\n%s", node(ordinal), plan, w)
		}
		drained := (!w.isAsked(ordinal) && !w.spare(ordinal) || w.isAsked(ordinal) && w.want.Drained[node(ordinal)]) && !refused[node(ordinal)]
		if is := w.desired[node(ordinal)] == shardmap.Draining; is != drained {
			w.t.Fatalf("%s is drained: %v, should be: %v\n%s", node(ordinal), is, drained, w)
		}
		if drained && !stuck[node(ordinal)] && len(w.shardMap.MembersOn(node(ordinal))) > 0 {
			w.t.Fatalf("%s is not empty in the end\n%s", node(ordinal), w)
		}
	}
	for shard, row := range w.shardMapRows() {
		fulls := 0
		for _, m := range row.Members {
			if m.Role == shardmap.Full && w.liveMember(m) && !w.lagging[lagKey(shard, m)] {
				fulls++
			}
		}
		holders := 0
		for _, ordinal := range w.told() {
			if w.desired[node(ordinal)] != shardmap.Draining {
				holders++
			}
		}
		if fulls < min(w.shardMap.Settings.Replication, holders) {
			w.t.Fatalf("shard %d has %d copies in the end\n%s", shard, fulls, w)
		}
	}
	if len(plan.Losses) > 0 {
		for _, loss := range plan.Losses {
			if claim := w.claims[numberOf(loss.Node)]; !claim.terminating || !w.running(numberOf(loss.Node)) {
				w.t.Fatalf("lost in the end: %+v", plan)
			}
		}
		return // a person has to say that it may go
	}
	if plan.Outdated > 0 {
		w.t.Fatalf("in the end: %+v", plan)
	}
	for ordinal := range w.claims {
		if !w.isTold(ordinal) && w.want.DeleteClaims {
			w.t.Fatalf("the volume of %s is left over\n%s", node(ordinal), w)
		}
	}
	for name, desired := range w.desired {
		if !w.isTold(numberOf(name)) && (w.want.DeleteClaims || desired != shardmap.Draining) {
			w.t.Fatalf("%s is still said to be %s\n%s", name, desired, w)
		}
	}
}
