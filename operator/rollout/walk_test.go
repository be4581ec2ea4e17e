package rollout

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// decide decides, and holds the plan against what no plan may do.
func (w *world) decide() Plan {
	f := w.facts()
	plan := Decide(f)
	running := 0
	for _, a := range plan.Actions {
		switch a.Kind {
		case DeletePod:
			running += w.checkDeletePod(a)
		case DeleteClaim:
			w.checkDeleteClaim(a)
		case Scale:
			w.checkScale(a)
		case RemoveSet:
			w.checkRemoveSet(a)
		case Retire:
			w.checkRetire(a)
		case Desire:
			w.checkDesire(a)
		}
	}
	if running > 1 {
		w.t.Fatalf("%d pods that run are deleted at once: %+v", running, plan.Actions)
	}
	return plan
}

// checkDeletePod returns 1 when the process runs.
func (w *world) checkDeletePod(a Action) int {
	ordinal := numberOf(a.Node)
	if !w.running(ordinal) {
		if a.Reason == ReasonUpdating && w.pods[ordinal].revision == w.revision {
			w.t.Fatalf("restarts a new pod: %+v", a)
		}
		return 0
	}
	claim := w.claims[ordinal]
	doomed := (a.Reason == ReasonVolumeLost || a.Reason == ReasonReplacingVolume) && claim != nil && claim.terminating
	if a.Reason == ReasonReplacingVolume && w.holds(ordinal) {
		w.t.Fatalf("ends %s for another volume, and it has shards", a.Node)
	}
	if a.Reason != ReasonUpdating && !doomed {
		w.t.Fatalf("deletes a pod that runs: %+v", a)
	}
	for _, other := range w.told() {
		pod := w.pods[other]
		holds := w.shardMap != nil && len(w.shardMap.MembersOn(node(other))) > 0
		if other != ordinal && holds && (pod == nil || pod.terminating || !w.running(other) || !pod.caughtUp) {
			w.t.Fatalf("restarts %s while %s is not well", a.Node, node(other))
		}
	}
	if w.shardMap == nil {
		return 1
	}
	settings, holders := w.shardMap.Settings, len(w.asked())
	for _, ordinal := range w.asked() {
		if w.want.Drained[node(ordinal)] && w.desired[node(ordinal)] == shardmap.Draining {
			holders--
		}
	}
	for shard, row := range w.shardMap.Rows {
		concerned := slices.ContainsFunc(row.Members, func(m shardmap.Member) bool { return m.Node == a.Node && m.Role.Votes() })
		if !concerned || w.whole(shard, a.Node) {
			continue
		}
		if doomed || settings.Replication > 1 && holders > 2 {
			w.t.Fatalf("shard %d needs %s, which is restarted: %+v", shard, a.Node, row)
		}
		if !w.whole(shard, "") {
			w.t.Fatalf("%s is restarted while shard %d is not whole: %+v", a.Node, shard, row)
		}
	}
	return 1
}

func (w *world) checkDeleteClaim(a Action) {
	ordinal := numberOf(a.Node)
	claim := w.claims[ordinal]
	if a.Reason == ReasonReplacingVolume {
		w.checkReplaceVolume(ordinal)
		return
	}
	if w.running(ordinal) {
		w.t.Fatalf("deletes the volume of a process that runs: %+v", a)
	}
	if claim.incarnation != "" && !w.isRetired(a.Node, claim.incarnation) {
		w.t.Fatalf("deletes a volume that may come back: %+v", a)
	}
	for shard, row := range w.shardMapRows() {
		if slices.ContainsFunc(row.Members, func(m shardmap.Member) bool { return m.Incarnation == claim.incarnation }) && !w.whole(shard, a.Node) {
			w.t.Fatalf("deletes a volume that shard %d needs: %+v", shard, row)
		}
	}
	gone := !w.up(claim.machine) || claim.lost || claim.givenUp || claim.terminating
	if !gone && !w.isAsked(ordinal) && !w.want.DeleteClaims {
		w.t.Fatalf("deletes a volume that is to be kept: %+v", a)
	}
}

// holds reports whether a shard has or is to have a replica on a node.
func (w *world) holds(ordinal int) bool {
	return w.shardMap != nil && len(w.shardMap.MembersOn(node(ordinal))) > 0
}

// checkReplaceVolume fails when a volume may not be replaced now by one of another class.
func (w *world) checkReplaceVolume(ordinal int) {
	set := w.set(ordinal)
	if !w.isOutdated(ordinal) || !set.makesAsked() || set.ending {
		w.t.Fatalf("replaces the volume of %s, which would be as it is\n%s", node(ordinal), w)
	}
	if w.desired[node(ordinal)] != shardmap.Draining || w.holds(ordinal) || w.closed {
		w.t.Fatalf("replaces the volume of %s, which is not empty, or at a wrong time\n%s", node(ordinal), w)
	}
	for _, other := range w.told() {
		if claim := w.claims[other]; other != ordinal && claim != nil && w.holds(other) && !w.running(other) {
			w.t.Fatalf("replaces the volume of %s while %s is down\n%s", node(ordinal), node(other), w)
		}
	}
}

// checkClaimGoes fails when the only complete copy of a shard goes with a volume. A copy
// on a machine that is off counts: it comes back.
func (w *world) checkClaimGoes(ordinal int) {
	kept := map[string]bool{}
	for other, claim := range w.claims {
		if other != ordinal && !claim.lost && !w.machines[claim.machine].gone() {
			kept[claim.incarnation] = claim.incarnation != ""
		}
	}
	for shard, row := range w.shardMapRows() {
		if w.complete(shard, map[string]bool{w.claims[ordinal].incarnation: true}) && !w.complete(shard, kept) {
			w.t.Fatalf("the last copy of shard %d goes with the volume of %s: %+v\n%s", shard, node(ordinal), row, w)
		}
	}
}

// complete reports whether a shard has a complete copy on one of some data folders.
func (w *world) complete(shard int, incarnations map[string]bool) bool {
	return slices.ContainsFunc(w.shardMap.Rows[shard].Members, func(m shardmap.Member) bool {
		return m.Role == shardmap.Full && incarnations[m.Incarnation] && !w.lagging[lagKey(shard, m)]
	})
}

func (w *world) shardMapRows() []shardmap.Row {
	if w.shardMap == nil {
		return nil
	}
	return w.shardMap.Rows
}

func (w *world) checkScale(a Action) {
	group := slices.Index(setNames, a.Group)
	set := w.sets[group]
	if a.Replicas >= set.replicas {
		return
	}
	top := node(group*groupSpan + set.replicas - 1)
	if a.Replicas != set.replicas-1 || set.replicas-1 < set.count {
		w.t.Fatalf("scales %s from %d to %d, wanted are %d", a.Group, set.replicas, a.Replicas, set.count)
	}
	if w.desired[top] != shardmap.Draining && w.desired[top] != shardmap.Gone {
		w.t.Fatalf("%s goes, and was not drained", top)
	}
	if w.shardMap != nil && len(w.shardMap.MembersOn(top)) > 0 {
		w.t.Fatalf("%s goes with %d shards", top, len(w.shardMap.MembersOn(top)))
	}
}

// checkRemoveSet fails when a StatefulSet goes that is wanted, or with pods.
func (w *world) checkRemoveSet(a Action) {
	group := slices.Index(setNames, a.Group)
	set := w.sets[group]
	pods := slices.ContainsFunc(slices.Collect(maps.Keys(w.pods)), func(number int) bool { return number/groupSpan == group })
	if !set.leaves || set.count > 0 || set.replicas != 0 || pods {
		w.t.Fatalf("removes the StatefulSet %s: %+v\n%s", a.Group, *set, w)
	}
}

func (w *world) checkRetire(a Action) {
	ordinal := numberOf(a.Node)
	for shard, row := range w.shardMapRows() {
		if slices.ContainsFunc(row.Members, func(m shardmap.Member) bool { return m.Incarnation == a.Incarnation }) {
			if !w.whole(shard, a.Node) {
				w.t.Fatalf("retires a copy that shard %d needs: %+v", shard, row)
			}
			if claim := w.claims[ordinal]; claim != nil && !claim.lost && !claim.givenUp && !claim.terminating {
				w.t.Fatalf("retires a member of shard %d whose volume is there: %+v", shard, row)
			}
		}
	}
}

func (w *world) checkDesire(a Action) {
	ordinal := numberOf(a.Node)
	wanted := w.isAsked(ordinal) && !w.want.Drained[a.Node]
	switch a.Desired {
	case shardmap.Active:
		if !wanted && !w.spare(ordinal) {
			w.t.Fatalf("wants %s, which is not wanted", a.Node)
		}
	case shardmap.Draining:
		if wanted && !w.begins(ordinal) {
			w.t.Fatalf("drains %s, which is wanted\n%s", a.Node, w)
		}
	default:
		if w.running(ordinal) {
			w.t.Fatalf("gives up %s, which runs: %+v", a.Node, a)
		}
	}
}

// outdated reports whether a node asked for has a volume of another class.
func (w *world) outdated() bool {
	return slices.ContainsFunc(w.asked(), w.isOutdated)
}

// outdatedIn is outdated for one group.
func (w *world) outdatedIn(set *setModel) bool {
	return slices.ContainsFunc(w.asked(), func(number int) bool { return w.set(number) == set && w.isOutdated(number) })
}

// spare reports whether a node may be there for as long as volumes of its group are replaced.
func (w *world) spare(ordinal int) bool {
	set := w.set(ordinal)
	return !w.isAsked(ordinal) && ordinal%groupSpan < set.count+2 && w.outdatedIn(set)
}

// begins reports whether a node may be emptied now for a volume of another class: no other is. One that has its volume already, before
// there is a map, is not being emptied: it is put to use.
func (w *world) begins(ordinal int) bool {
	for _, other := range w.asked() {
		claim, set := w.claims[other], w.set(other)
		replaceable := set.makesAsked() // else it is only drained by its name
		if other != ordinal && w.isOutdated(other) && replaceable && (w.shardMap != nil || claim.machine == "") && w.desired[node(other)] == shardmap.Draining {
			return false
		}
	}
	set := w.set(ordinal)
	return w.isOutdated(ordinal) && set.makesAsked() && !set.ending && !w.closed
}

// operate decides and makes some of the actions: an operator can be killed between any
// two of them, and the world can change before they are made.
func (w *world) operate(disturb func()) {
	plan := w.decide()
	if rapid.Bool().Draw(w.t, "late") {
		w.decided = plan.Actions
		disturb()
		w.decided = nil
	}
	for _, a := range plan.Actions[:rapid.IntRange(0, len(plan.Actions)).Draw(w.t, "actions before it is killed")] {
		w.act(a)
	}
	if rapid.IntRange(0, 9).Draw(w.t, "another operator") == 0 {
		w.tracker = Tracker{}
	}
}

// disturb does what people and machines do.
func (w *world) disturb() {
	replication := w.limits.Create.Settings.Replication
	names := slices.Sorted(maps.Keys(w.machines))
	machine := rapid.SampledFrom(names).Draw(w.t, "machine")
	group := rapid.IntRange(0, len(w.sets)-1).Draw(w.t, "group")
	set := w.sets[group]
	ordinal := group*groupSpan + rapid.IntRange(0, 5).Draw(w.t, "ordinal")
	switch rapid.IntRange(0, 16).Draw(w.t, "event") {
	case 14, 15:
		set.class = rapid.IntRange(0, 1).Draw(w.t, "class")
	case 16:
		w.closed = !w.closed
	case 13:
		if w.claimEnding() {
			return
		}
		if claim := w.claims[ordinal]; claim != nil && w.isTold(ordinal) && w.running(ordinal) && !w.pods[ordinal].terminating && w.allWhole(node(ordinal)) && !w.intends(node(ordinal)) {
			claim.terminating = true // kubectl delete pvc
		}
	case 0:
		set.count, set.leaves = 0, false
		least := max(0, replication-len(w.asked()))
		if group == 0 {
			least = max(least, 1) // spec.nodes always has one
		}
		set.count = rapid.IntRange(least, max(5-len(w.asked()), least)).Draw(w.t, "count")
		set.leaves = group > 0 && set.count == 0 && rapid.Bool().Draw(w.t, "leaves")
	case 1:
		w.want.Drained[node(ordinal)] = true
	case 2:
		w.want.Drained = map[string]bool{}
	case 3:
		w.revision++
	case 4:
		w.want.DeleteClaims = !w.want.DeleteClaims
	case 5:
		if w.machines[machine].downSinceMs == 0 && !w.lastWith(machine) {
			w.machines[machine].downSinceMs = w.nowMs
		}
	case 6, 7:
		w.powerOn(machine)
	case 8:
		w.loseMachine(machine)
	case 9:
		w.loseVolume(ordinal)
	case 10:
		w.storeDown = !w.storeDown
	case 11:
		w.routersDown = !w.routersDown
	case 12:
		if w.claimEnding() {
			return
		}
		set.replicas = min(set.replicas, rapid.IntRange(0, 6).Draw(w.t, "somebody scales the StatefulSet")) // that there is, if any
	}
}

// claimEnding reports whether a volume is to go with its pod.
func (w *world) claimEnding() bool {
	for _, claim := range w.claims {
		if claim.terminating {
			return true
		}
	}
	return false
}

// lastWith reports whether a shard has its last complete copies on a machine and on nodes
// that end with their volumes, which cannot be called back. Without the machine the group
// could go on with what ends, as one of replication 2 does with its witness; what it commits
// then nobody could keep, as when two machines are lost at once.
func (w *world) lastWith(machine string) bool {
	ends, stays := map[string]bool{}, map[string]bool{}
	for ordinal, claim := range w.claims {
		switch {
		case w.endsForGood(ordinal):
			ends[claim.incarnation] = true
		case w.running(ordinal) && claim.machine != machine:
			stays[claim.incarnation] = true
		}
	}
	for shard := range w.shardMapRows() {
		if w.complete(shard, ends) && !w.complete(shard, stays) {
			return true
		}
	}
	return false
}

// endsForGood reports whether a node that runs ends with its volume, or is about to.
func (w *world) endsForGood(ordinal int) bool {
	if !w.running(ordinal) || !w.claims[ordinal].terminating {
		return false
	}
	return w.pods[ordinal].terminating || slices.ContainsFunc(w.decided, func(a Action) bool {
		return a.Kind == DeletePod && a.UID == w.pods[ordinal].uid
	})
}

func (w *world) powerOn(name string) {
	w.machines[name].downSinceMs = 0
	for _, pod := range w.pods {
		if pod.machine == name {
			pod.caughtUp = false
		}
	}
}

// loseMachine removes a machine for ever, if no shard needs what is on it.
func (w *world) loseMachine(name string) {
	if w.claimEnding() {
		return // what is on it does not count any more
	}
	for ordinal, claim := range w.claims {
		if claim.machine == name && (!w.isTold(ordinal) || !w.allWhole(node(ordinal)) || w.intends(node(ordinal))) {
			return
		}
	}
	w.machines[name].removed = true
	w.machines[fmt.Sprintf("n%d", len(w.machines))] = &machineModel{}
}

// loseVolume loses a volume, if no shard needs what is on it.
func (w *world) loseVolume(ordinal int) {
	if w.claimEnding() {
		return
	}
	if claim := w.claims[ordinal]; claim != nil && w.isTold(ordinal) && w.allWhole(node(ordinal)) && !w.intends(node(ordinal)) {
		claim.lost = true
	}
}

func (w *world) intends(node string) bool {
	for _, row := range w.shardMapRows() {
		if slices.ContainsFunc(row.Intended, func(m shardmap.Member) bool { return m.Node == node }) {
			return true
		}
	}
	return false
}

// Whatever people and machines do, and wherever the operator is killed: no plan does
// harm, and when all that stops, the cluster becomes what was asked for last.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replication := rapid.IntRange(1, 3).Draw(t, "replication")
		walk(t, []int{rapid.IntRange(replication, 5).Draw(t, "count")}, replication)
	})
}

// It is so with several groups of nodes, which come and go.
func TestWalkOfGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replication := rapid.IntRange(1, 3).Draw(t, "replication")
		first, second := rapid.IntRange(1, 3).Draw(t, "count"), rapid.IntRange(0, 2).Draw(t, "count of another group")
		walk(t, []int{first, second, max(replication-first-second, 0)}, replication)
	})
}

func walk(t *rapid.T, counts []int, replication int) {
	w := newWorld(t, counts, 9, shardmap.Settings{Shards: 3, Replication: replication})
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		w.nowMs += int64(rapid.SampledFrom([]int{100, 1_000, 6_000, 30_000}).Draw(t, "pass ms"))
		switch rapid.IntRange(0, 5).Draw(t, "turn") {
		case 0:
			w.disturb()
		case 1, 2:
			w.operate(w.disturb)
		case 3:
			w.kubernetes(false)
		case 4:
			w.kubernetes(true)
		case 5:
			w.mesh(rapid.Bool().Draw(t, "all"))
		}
	}
	w.checkSettled(w.settle())
}
