package rollout

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// world is a slow and obvious model of Kubernetes, placement and groups below the
// operator. Nothing in it knows how decisions are made.
type world struct {
	t        *rapid.T
	nowMs    int64
	want     Want
	sets     []*setModel
	closed   bool // no maintenance window is open
	revision int  // of the template
	uids     int
	pods     map[int]*podModel // by numbers, see node
	claims   map[int]*claimModel
	machines map[string]*machineModel

	shardMap     *shardmap.Map
	desired      map[string]shardmap.Desired
	incarnations map[string][]shardmap.Incarnation
	storeDown    bool
	routersDown  bool
	// lagging has the full voters that miss something committed, as shard/incarnation.
	lagging  map[string]bool
	limits   shardmap.Limits
	tracker  Tracker
	planning shardmap.Tracker
	decided  []Action // those that are about to be made
}

type podModel struct {
	uid         string
	machine     string
	revision    int
	terminating bool
	caughtUp    bool
	ended       bool // its process was told to end, or its machine was off since
}

type claimModel struct {
	uid         string
	machine     string // empty: not bound yet
	incarnation string // of the data folder; empty: none yet
	lost        bool
	givenUp     bool
	terminating bool
	class       int
}

type machineModel struct {
	downSinceMs int64 // 0: it is up
	removed     bool  // it does not exist for Kubernetes any more
}

// gone reports whether a machine, nil when there is none, is removed for ever.
func (m *machineModel) gone() bool { return m == nil || m.removed }

func newWorld(t *rapid.T, counts []int, machines int, settings shardmap.Settings) *world {
	w := &world{
		t: t, nowMs: 1_000_000, want: Want{Drained: map[string]bool{}},
		pods: map[int]*podModel{}, claims: map[int]*claimModel{}, machines: map[string]*machineModel{},
		desired: map[string]shardmap.Desired{}, incarnations: map[string][]shardmap.Incarnation{}, lagging: map[string]bool{},
		limits: shardmap.DefaultLimits(),
	}
	initial := 0
	for _, count := range counts {
		w.sets = append(w.sets, &setModel{count: count, replicas: -1})
		initial += count
	}
	w.limits.ReplaceAfterMs, w.limits.RetargetAfterMs = 60_000, 20_000
	w.limits.Create = shardmap.Creation{Cluster: "demo", ID: fmt.Sprintf("%032x", 99), Settings: settings, InitialNodes: initial}
	for i := range machines {
		w.machines[fmt.Sprintf("m%d", i)] = &machineModel{}
	}
	return w
}

func (w *world) uid() string {
	w.uids++
	return fmt.Sprintf("%032x", w.uids)
}

func (w *world) up(machine string) bool {
	m := w.machines[machine]
	return m != nil && m.downSinceMs == 0 && !m.removed
}

// running reports whether the process of a pod runs.
func (w *world) running(ordinal int) bool {
	pod, claim := w.pods[ordinal], w.claims[ordinal]
	return pod != nil && pod.machine != "" && w.up(pod.machine) && !pod.ended && claim != nil && !claim.lost &&
		claim.machine == pod.machine && claim.incarnation != "" && !w.isRetired(node(ordinal), claim.incarnation)
}

func (w *world) isRetired(node, incarnation string) bool {
	return slices.Contains(w.incarnations[node], shardmap.Incarnation{ID: incarnation, Retired: true})
}

// liveMember reports whether a member's process runs on its own data folder.
func (w *world) liveMember(m shardmap.Member) bool {
	for ordinal := range w.pods {
		if node(ordinal) == m.Node {
			return w.running(ordinal) && w.claims[ordinal].incarnation == m.Incarnation
		}
	}
	return false
}

func lagKey(shard int, m shardmap.Member) string {
	return fmt.Sprintf("%d/%s/%d", shard, m.Incarnation, m.RaftID)
}

// whole reports whether a shard has a majority and a complete live copy without a node.
func (w *world) whole(shard int, without string) bool {
	row := w.shardMap.Rows[shard]
	voters, live, complete := 0, 0, false
	for _, m := range row.Members {
		if !m.Role.Votes() {
			continue
		}
		voters++
		if m.Node != without && w.liveMember(m) {
			live++
			complete = complete || m.Role == shardmap.Full && !w.lagging[lagKey(shard, m)]
		}
	}
	return complete && 2*live > voters
}

// allWhole reports whether nothing is lost when a node is.
func (w *world) allWhole(without string) bool {
	if w.shardMap == nil {
		return true
	}
	for shard := range w.shardMap.Rows {
		if !w.whole(shard, without) {
			return false
		}
	}
	return true
}

func (w *world) view() shardmap.View {
	view := shardmap.View{
		Map: w.shardMap, Nodes: map[string]shardmap.NodeInfo{}, Desired: maps.Clone(w.desired),
		Incarnations: maps.Clone(w.incarnations),
	}
	for ordinal := range w.pods {
		if w.running(ordinal) {
			id := node(ordinal)
			view.Nodes[id] = shardmap.NodeInfo{ID: id, Incarnation: w.claims[ordinal].incarnation, RPCAddress: id + ":1"}
		}
	}
	if w.storeDown {
		view.Err = shardmap.ErrUnavailable
	}
	return view
}

// facts are what the operator sees.
func (w *world) facts() Facts {
	view := w.view()
	state, emptyForMs := w.tracker.Observe(view, w.nowMs)
	f := Facts{
		NowMs: w.nowMs, State: state, EmptyForMs: emptyForMs, StoreErr: view.Err, Limits: w.limits,
		Want:     Want{Drained: maps.Clone(w.want.Drained), DeleteClaims: w.want.DeleteClaims},
		Machines: map[string]Machine{}, Closed: w.closed,
	}
	for group, set := range w.sets {
		f.Groups = append(f.Groups, Group{
			Name: setNames[group], Count: set.count, Leaves: set.leaves, Replicas: set.replicas,
			ClaimTemplate: ClaimTemplate{Outdated: set.replicas >= 0 && set.setClass != set.class && !set.leaves, Ending: set.ending},
		})
	}
	for ordinal, pod := range w.pods {
		g := &f.Groups[ordinal/groupSpan]
		ready := w.running(ordinal) && pod.caughtUp
		stale := pod.machine != "" && !w.up(pod.machine) // Kubernetes has heard nothing since
		g.Pods = append(g.Pods, Pod{
			Ordinal: ordinal % groupSpan, UID: pod.uid, Machine: pod.machine, Running: w.running(ordinal) || stale, Ready: ready,
			Terminating: pod.terminating, Outdated: pod.revision != w.revision,
		})
	}
	for ordinal, claim := range w.claims {
		g := &f.Groups[ordinal/groupSpan]
		g.Claims = append(g.Claims, Claim{
			Ordinal: ordinal % groupSpan, Name: "data-" + node(ordinal), UID: claim.uid, Machine: claim.machine, Lost: claim.lost, GivenUp: claim.givenUp, Terminating: claim.terminating, Outdated: w.isOutdated(ordinal), Bound: claim.machine != "",
		})
	}
	for name, machine := range w.machines {
		if !machine.removed {
			f.Machines[name] = Machine{NotReadySinceMs: machine.downSinceMs}
		}
	}
	if w.shardMap != nil && !w.routersDown && !w.storeDown {
		for shard := range w.shardMap.Rows {
			f.Shards = append(f.Shards, w.report(shard))
		}
	}
	return f
}

// report is what the leader of a shard says; nothing without one.
func (w *world) report(shard int) Shard {
	row := w.shardMap.Rows[shard]
	s := Shard{CommitIndex: 1000, Bytes: 10}
	for _, m := range row.Members {
		replica := Replica{Member: m, Active: w.liveMember(m), MatchIndex: 1000}
		if w.lagging[lagKey(shard, m)] {
			replica.MatchIndex = 0
		}
		s.Members = append(s.Members, replica)
		if s.Leader == "" && m.Role == shardmap.Full && w.whole(shard, "") && w.liveMember(m) && !w.lagging[lagKey(shard, m)] {
			s.Leader = m.Node
		}
	}
	if s.Leader == "" {
		for i := range s.Members {
			s.Members[i].Active = false
		}
	}
	return s
}

// act makes one action on the world as it is by now.
func (w *world) act(a Action) {
	ordinal := 0
	var set *setModel
	if a.Group != "" {
		set = w.sets[slices.Index(setNames, a.Group)]
	} else {
		ordinal = numberOf(a.Node)
	}
	switch a.Kind {
	case Scale:
		if set.replicas < 0 {
			set.setClass = set.class // it is made
		}
		set.replicas = a.Replicas
	case RemakeSet:
		set.ending = true
	case RemoveSet:
		set.replicas, set.ending = -1, false // its pods would go, too
	case Desire:
		if w.storeDown {
			return
		}
		if a.Desired == "" {
			delete(w.desired, a.Node)
		} else {
			w.desired[a.Node] = a.Desired
		}
	case Retire:
		claim := w.claims[ordinal]
		if w.storeDown || w.running(ordinal) && claim.incarnation == a.Incarnation {
			return // refused: it is registered
		}
		known := slices.Clone(w.incarnations[a.Node])
		known[slices.IndexFunc(known, func(i shardmap.Incarnation) bool { return i.ID == a.Incarnation })].Retired = true
		w.incarnations[a.Node] = known
	case DeletePod:
		if claim := w.claims[ordinal]; a.Reason == ReasonUpdating && claim != nil && claim.terminating {
			return // looked at again right before
		}
		if pod := w.pods[ordinal]; pod != nil && pod.uid == a.UID {
			pod.terminating = true
			if a.Force {
				delete(w.pods, ordinal)
			}
		}
	case MarkClaim:
		if claim := w.claims[ordinal]; claim != nil && claim.uid == a.UID {
			claim.givenUp = a.GivenUp
		}
	case DeleteClaim:
		if claim := w.claims[ordinal]; claim != nil && claim.uid == a.UID {
			claim.terminating = true
		}
	}
}

// kubernetes does what the controllers and kubelets do; with all unset only some of it.
func (w *world) kubernetes(all bool) {
	some := func() bool { return all || rapid.Bool().Draw(w.t, "does") }
	for _, set := range w.sets {
		if set.ending && some() {
			set.ending, set.replicas = false, -1
		}
	}
	alone := func(number int) bool { return w.set(number).ending || w.set(number).replicas < 0 } // no StatefulSet sees to the pods
	for _, ordinal := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[ordinal]
		if pod.machine != "" && !w.up(pod.machine) {
			pod.caughtUp = false
		}
		if !alone(ordinal) && !w.isTold(ordinal) && some() {
			pod.terminating = true
		}
		if pod.terminating && (pod.machine == "" || w.up(pod.machine)) && some() {
			delete(w.pods, ordinal)
		}
	}
	for _, ordinal := range slices.Sorted(maps.Keys(w.claims)) {
		if pod := w.pods[ordinal]; w.claims[ordinal].terminating && (pod == nil || pod.machine == "") {
			w.checkClaimGoes(ordinal)
			delete(w.claims, ordinal)
		}
	}
	for _, ordinal := range w.told() {
		if alone(ordinal) || !some() {
			continue
		}
		if w.claims[ordinal] == nil {
			w.claims[ordinal] = &claimModel{uid: w.uid(), class: w.set(ordinal).setClass}
		}
		if w.pods[ordinal] == nil && !w.claims[ordinal].terminating {
			w.pods[ordinal] = &podModel{uid: w.uid(), revision: w.revision}
		}
	}
	for _, ordinal := range slices.Sorted(maps.Keys(w.pods)) {
		if some() {
			w.startPod(ordinal)
		}
	}
}

// startPod schedules a pod, and lets its process start and catch up.
func (w *world) startPod(ordinal int) {
	pod, claim := w.pods[ordinal], w.claims[ordinal]
	if w.running(ordinal) {
		pod.caughtUp = true
	}
	if claim == nil || claim.terminating || claim.lost || pod.terminating {
		return
	}
	if pod.machine == "" {
		pod.machine = w.schedule(claim)
	}
	if pod.machine == "" || !w.up(pod.machine) {
		return
	}
	claim.machine = pod.machine
	if w.storeDown && claim.incarnation == "" {
		return
	}
	if claim.incarnation == "" {
		claim.incarnation = w.uid()
	}
	if !w.isRetired(node(ordinal), claim.incarnation) && !w.storeDown {
		w.incarnations[node(ordinal)] = shardmap.Newest(w.incarnations[node(ordinal)], claim.incarnation)
	}
	pod.caughtUp = w.running(ordinal)
}

func (w *world) schedule(claim *claimModel) string {
	if claim.machine != "" {
		if w.up(claim.machine) {
			return claim.machine
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		taken := false
		for _, pod := range w.pods {
			taken = taken || pod.machine == name
		}
		for _, other := range w.claims {
			taken = taken || other.machine == name
		}
		if w.up(name) && !taken {
			return name
		}
	}
	return ""
}

// mesh lets placement plan a step, and groups go on.
func (w *world) mesh(all bool) bool {
	if w.storeDown {
		return false
	}
	busy := false
	w.limits.Create.InitialNodes = 0 // as the routers are told
	for _, ordinal := range w.asked() {
		if !w.want.Drained[node(ordinal)] {
			w.limits.Create.InitialNodes++
		}
	}
	state := w.planning.Observe(w.view(), w.nowMs)
	if steps := shardmap.Plan(state, w.limits); len(steps) > 0 {
		w.placementStep(steps[0])
		busy = true
	}
	if w.shardMap == nil {
		return busy
	}
	for shard := range w.shardMap.Rows {
		if w.whole(shard, "") && (all || rapid.Bool().Draw(w.t, "group")) {
			busy = w.group(shard) || busy
		}
	}
	return busy
}

func (w *world) placementStep(s shardmap.Step) {
	if s.Kind == shardmap.StepRetire {
		known := slices.Clone(w.incarnations[s.Node])
		known[slices.IndexFunc(known, func(i shardmap.Incarnation) bool { return i.ID == s.Incarnation })].Retired = true
		w.incarnations[s.Node] = known
		return
	}
	next, err := s.Apply(w.shardMap)
	if err != nil {
		w.t.Fatal(err)
	}
	w.shardMap = &next
}

// group commits something, lets live copies catch up, and moves on to what is intended.
func (w *world) group(shard int) bool {
	row := w.shardMap.Rows[shard]
	for _, m := range row.Members {
		if m.Role != shardmap.Full {
			continue
		}
		if w.liveMember(m) {
			delete(w.lagging, lagKey(shard, m))
		} else {
			w.lagging[lagKey(shard, m)] = true
		}
	}
	if row.Intended == nil || slices.ContainsFunc(row.Intended, func(m shardmap.Member) bool {
		return !slices.ContainsFunc(row.Members, m.SameReplica) && !w.liveMember(m)
	}) {
		return false
	}
	voters, live := 0, 0
	for _, m := range row.Intended {
		if m.Role.Votes() {
			voters++
			if w.liveMember(m) {
				live++
			}
		}
	}
	if 2*live <= voters {
		return false // the change could not be committed
	}
	next, changed := row.Published(row.Intended)
	if changed {
		m := w.shardMap.WithRow(uint16(shard), next)
		w.shardMap = &m
	}
	return changed
}
