package etcd

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// walk is a slow and obvious model of an etcd in Kubernetes: members with data, pods,
// claims and machines.
type walk struct {
	t        *rapid.T
	nowMs    int64
	wanted   int
	replicas int
	revision int
	created  bool
	noted    bool // the status has it
	lastID   uint64
	members  map[uint64]*memberModel
	pods     map[int]*podModel
	claims   map[int]*claimModel
	machines map[string]bool // up; those that are not in it are gone
	meet     []string
	// What the status has, beside noted.
	known      []Known
	generation int64
	rebuild    Phase
	silentLong bool  // it has not answered for long
	urgent     bool  // nobody gets a certificate before the members are restarted
	asked      int64 // what a person asks for
	rebuilt    int   // new etcds that took the place of one that was lost
}

type memberModel struct {
	ordinal int
	learner bool
	started bool
}

type podModel struct {
	uid, machine string
	revision     int
	terminating  bool
}

type claimModel struct {
	missingSinceMs int64 // as it is noted
	uid, machine   string
	data           uint64 // id of the member whose data is on it; 0: empty
	noted          uint64
	givenUp        bool
	terminating    bool
}

func names() (all, urls []string) {
	for ordinal := range 3 {
		all, urls = append(all, fmt.Sprintf("e%d", ordinal)), append(urls, fmt.Sprintf("http://e%d:2380", ordinal))
	}
	return all, urls
}

// runs returns the id of the member that the pod of an ordinal runs; 0: none.
func (w *walk) runs(ordinal int) uint64 {
	pod, claim := w.pods[ordinal], w.claims[ordinal]
	if pod == nil || claim == nil || pod.machine == "" || !w.machines[pod.machine] || claim.machine != pod.machine {
		return 0
	}
	if w.members[claim.data] == nil {
		return 0 // removed, or without data
	}
	return claim.data
}

// quorum reports whether most voters run.
func (w *walk) quorum() bool {
	voters, running := 0, 0
	for id, m := range w.members {
		if m.learner {
			continue
		}
		voters++
		if w.runs(m.ordinal) == id {
			running++
		}
	}
	return voters > 0 && 2*running > voters
}

func (w *walk) facts() Facts {
	f := Facts{NowMs: w.nowMs, ReplaceAfterMs: 60_000, Wanted: max(w.wanted, w.replicas), Replicas: w.replicas, Created: w.noted, Urgent: w.urgent, Machines: map[string]Machine{}}
	f.Known, f.Generation, f.Rebuild, f.Asked = w.known, w.generation, w.rebuild, w.asked
	f.Names, f.PeerURLs = names()
	if w.quorum() {
		for _, id := range slices.Sorted(maps.Keys(w.members)) {
			m := w.members[id]
			member := Member{ID: id, PeerURL: f.PeerURLs[m.ordinal], Learner: m.learner, Healthy: w.runs(m.ordinal) == id}
			if m.started {
				member.Name = f.Names[m.ordinal]
			}
			f.Members = append(f.Members, member)
		}
	} else if w.silentLong {
		f.UnavailableMs = f.ReplaceAfterMs
	}
	for ordinal, pod := range w.pods {
		runs := w.runs(ordinal) != 0
		f.Pods = append(f.Pods, Pod{
			Ordinal: ordinal, UID: pod.uid, Machine: pod.machine, Running: runs || pod.machine != "" && !w.machines[pod.machine], Ready: runs,
			Terminating: pod.terminating, Outdated: pod.revision != w.revision,
		})
	}
	for ordinal, claim := range w.claims {
		missing := claim.missingSinceMs
		if missing > 0 && w.silentLong {
			missing = w.nowMs - f.ReplaceAfterMs
		}
		f.Claims = append(f.Claims, Claim{
			MachineMissingSinceMs: missing,
			Ordinal:               ordinal, Name: "c", UID: claim.uid, Machine: claim.machine, MemberID: claim.noted, GivenUp: claim.givenUp, Terminating: claim.terminating,
		})
	}
	for name, up := range w.machines {
		machine := Machine{}
		if !up {
			machine.NotReadySinceMs = w.nowMs - 1_000 // it comes back soon
		}
		f.Machines[name] = machine
	}
	return f
}

func (w *walk) uid() string {
	w.lastID++
	return fmt.Sprint(w.lastID)
}

// decide decides, and holds the plan against what no plan may do.
func (w *walk) decide() Plan {
	plan := Decide(w.facts())
	if w.quorum() {
		w.noted = true
	}
	for _, a := range plan.Actions {
		switch a.Kind {
		case Remove:
			if w.runs(a.Ordinal) == a.MemberID {
				w.t.Fatalf("removes a member that runs: %+v", a)
			}
		case DeleteClaim:
			if claim := w.claims[a.Ordinal]; w.members[claim.data] != nil && w.rebuild != Clearing {
				w.t.Fatalf("deletes the data of a member: %+v", a)
			}
		case DeletePod:
			if w.rebuild == Clearing {
				continue
			}
			if w.runs(a.Ordinal) != 0 && w.pods[a.Ordinal].revision == w.revision {
				w.t.Fatalf("ends a member that runs for nothing: %+v", a)
			}
			w.checkRestart(a)
		case Scale:
			if a.Replicas < w.replicas && w.rebuild != Clearing {
				w.t.Fatalf("gets smaller: %+v", a)
			}
		case SetRebuild:
			w.checkRebuild(a)
		case Add, Promote, NoteMember, NoteMachine, MarkClaim:
		}
	}
	return plan
}

// checkRestart: a member that runs is ended only when all others run; when it is urgent, those
// whose machines are up.
func (w *walk) checkRestart(a Action) {
	id := w.runs(a.Ordinal)
	if id == 0 {
		return
	}
	voters, others := 0, 0
	for other, m := range w.members {
		if m.learner {
			continue
		}
		voters++
		claim := w.claims[m.ordinal]
		away := claim != nil && claim.machine != "" && !w.machines[claim.machine]
		if other != id && (w.runs(m.ordinal) == other || w.urgent && away) {
			others++
		}
	}
	if others != voters-1 {
		w.t.Fatalf("ends a member while %d of %d others run: %+v", others, voters-1, a)
	}
}

func (w *walk) act(a Action) {
	claim, pod := w.claims[a.Ordinal], w.pods[a.Ordinal]
	switch a.Kind {
	case SetRebuild:
		w.setRebuild(a.Phase)
	case Scale:
		w.replicas = a.Replicas
	case Add:
		for _, m := range w.members {
			if m.ordinal == a.Ordinal {
				return // the URL is taken
			}
		}
		if w.quorum() {
			w.lastID++
			w.members[w.lastID] = &memberModel{ordinal: a.Ordinal, learner: true}
		}
	case Remove:
		if w.quorum() {
			delete(w.members, a.MemberID)
		}
	case Promote:
		if m := w.members[a.MemberID]; m != nil && w.quorum() && w.runs(m.ordinal) == a.MemberID {
			m.learner = false
		}
	case NoteMember:
		if claim != nil && claim.uid == a.UID {
			claim.noted = a.MemberID
		}
	case NoteMachine:
		if claim != nil && claim.uid == a.UID {
			claim.missingSinceMs = a.SinceMs
		}
	case MarkClaim:
		if claim != nil && claim.uid == a.UID {
			claim.givenUp = a.GivenUp
		}
	case DeleteClaim:
		if claim != nil && claim.uid == a.UID {
			claim.terminating = true
		}
	case DeletePod:
		if pod != nil && pod.uid == a.UID {
			pod.terminating = true
			if a.Force {
				delete(w.pods, a.Ordinal)
			}
		}
	}
}

// kubernetes makes pods and claims, and lets members start.
func (w *walk) kubernetes() {
	for ordinal := range 3 {
		if pod := w.pods[ordinal]; pod != nil && ordinal >= w.replicas {
			pod.terminating = true
		}
		if pod := w.pods[ordinal]; pod != nil && pod.terminating && (pod.machine == "" || w.machines[pod.machine]) {
			delete(w.pods, ordinal)
		}
		if claim := w.claims[ordinal]; claim != nil && claim.terminating && (w.pods[ordinal] == nil || w.pods[ordinal].machine == "") {
			delete(w.claims, ordinal)
		}
		if ordinal >= w.replicas {
			continue
		}
		if w.claims[ordinal] == nil {
			w.claims[ordinal] = &claimModel{uid: w.uid()}
		}
		claim := w.claims[ordinal]
		if w.pods[ordinal] == nil && !claim.terminating {
			w.pods[ordinal] = &podModel{uid: w.uid(), revision: w.revision}
		}
		if pod := w.pods[ordinal]; pod != nil && !claim.terminating && !pod.terminating {
			w.start(ordinal, pod, claim)
		}
	}
}

func (w *walk) start(ordinal int, pod *podModel, claim *claimModel) {
	if pod.machine == "" {
		pod.machine = w.schedule(claim)
	}
	if pod.machine == "" || !w.machines[pod.machine] {
		return
	}
	claim.machine = pod.machine
	if claim.data != 0 {
		return // with data the list counts for nothing
	}
	all, _ := names()
	if !w.created { // all of a new etcd meet
		w.created = true
		for other := range w.replicas {
			w.lastID++
			w.members[w.lastID] = &memberModel{ordinal: other, started: true}
		}
	}
	for id, m := range w.members {
		if m.ordinal != ordinal {
			continue
		}
		fresh := !w.noted && m.started || w.noted && !m.started
		complete := !slices.Contains(w.meet, Nobody) && slices.Contains(w.meet, all[ordinal]) && (!w.noted || len(w.meet) == len(w.members))
		if w.noted && m.started && complete && w.quorum() {
			w.t.Fatalf("e%d starts without the data of member %d: %v", ordinal, id, w.meet)
		}
		if fresh && complete {
			claim.data, m.started = id, true
		}
	}
}

func (w *walk) schedule(claim *claimModel) string {
	if claim.machine != "" {
		if w.machines[claim.machine] {
			return claim.machine
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		taken := false
		for _, other := range w.claims {
			taken = taken || other.machine == name
		}
		if w.machines[name] && !taken {
			return name
		}
	}
	return ""
}

// disturb does what people and machines do. A machine or a volume is lost only when the
// others can do without it.
func (w *walk) disturb() {
	names := slices.Sorted(maps.Keys(w.machines))
	machine := rapid.SampledFrom(names).Draw(w.t, "machine")
	ordinal := rapid.IntRange(0, 2).Draw(w.t, "ordinal")
	switch rapid.IntRange(0, 10).Draw(w.t, "event") {
	case 0:
		w.wanted = rapid.SampledFrom([]int{1, 3}).Draw(w.t, "wanted")
	case 1:
		w.revision++
	case 2:
		w.machines[machine] = false
	case 3, 4:
		w.machines[machine] = true
	case 5:
		if w.spare(func() { delete(w.machines, machine) }) {
			w.machines[fmt.Sprintf("n%s", w.uid())] = true
		}
	case 6: // somebody deletes a claim and its pod
		if w.noted && w.pods[ordinal] != nil && w.claims[ordinal] != nil {
			pod := w.pods[ordinal]
			w.spare(func() {
				if pod.machine == "" || w.machines[pod.machine] {
					delete(w.pods, ordinal)
					delete(w.claims, ordinal)
				}
			})
		}
	case 7, 8: // a loss that the others cannot do without, perhaps
		if w.replicas > 1 && w.noted && w.rebuild == None {
			delete(w.machines, machine)
			w.machines[fmt.Sprintf("n%s", w.uid())] = true
		}
	case 9:
		w.silentLong = !w.quorum()
	case 10:
		w.urgent = !w.urgent
	}
}

// spare makes a loss if all voters are well before, so that the others can do without
// what is lost, and it is not the only one.
func (w *walk) spare(lose func()) bool {
	voters := 0
	for id, m := range w.members {
		if m.learner || w.runs(m.ordinal) != id {
			return false
		}
		voters++
	}
	if voters < 3 {
		return false
	}
	lose()
	return true
}

// Whatever happens, and wherever the operator is killed: no plan does harm, no member
// starts without its data, and in the end there are as many members as were wanted.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { walkOnce(t) })
}

func walkOnce(t *rapid.T) *walk {
	w := &walk{
		t: t, nowMs: 1_000_000, wanted: rapid.SampledFrom([]int{1, 3}).Draw(t, "wanted"), replicas: -1, members: map[uint64]*memberModel{},
		pods: map[int]*podModel{}, claims: map[int]*claimModel{}, machines: map[string]bool{"a": true, "b": true, "c": true, "d": true},
	}
	for range rapid.IntRange(0, 80).Draw(t, "steps") {
		switch rapid.IntRange(0, 3).Draw(t, "turn") {
		case 0:
			w.disturb()
		case 1, 2:
			w.pass(w.decide(), rapid.IntRange(0, 3).Draw(t, "actions"))
		case 3:
			w.kubernetes()
		}
	}
	w.settle()
	return w
}

// settle lets everything go on until nothing changes any more, and checks the end.
func (w *walk) settle() {
	for name := range w.machines {
		w.machines[name] = true
	}
	for round := 0; ; round++ {
		plan := w.decide()
		w.pass(plan, len(plan.Actions)+1)
		w.kubernetes()
		if w.silentLong = !w.quorum(); w.silentLong && round > 100 {
			w.asked = w.generation + 1 // nobody else can know
		}
		if len(plan.Actions) == 0 && plan.Waiting == "" && w.quorum() {
			break
		}
		if round > 300 {
			w.t.Fatalf("it does not come to an end: %+v\n%+v", plan, w.facts())
		}
	}
	want := max(w.wanted, w.replicas)
	if len(w.members) != want {
		w.t.Fatalf("%d members in the end, wanted are %d: %+v\n%+v", len(w.members), want, Decide(w.facts()), w.facts())
	}
	for id, m := range w.members {
		if m.learner || w.runs(m.ordinal) != id || w.pods[m.ordinal].revision != w.revision {
			w.t.Fatalf("member %d is not well in the end: %+v\n%+v\n%+v", id, m, Decide(w.facts()), w.facts())
		}
	}
}
