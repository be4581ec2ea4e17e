package etcd

import (
	"fmt"
	"slices"
)

// ActionKind describes what an Action does.
type ActionKind string

// The kinds of Action.
const (
	Scale      ActionKind = "scale"       // set the StatefulSet's replicas
	Add        ActionKind = "add"         // a learner with PeerURL
	Remove     ActionKind = "remove"      // the member
	Promote    ActionKind = "promote"     // the learner, if it has caught up
	NoteMember ActionKind = "note member" // write on the claim whose data it has
	MarkClaim  ActionKind = "mark claim"  // write on the claim whether it is given up
	// NoteMachine writes on the claim since when its only machine does not exist.
	NoteMachine ActionKind = "note machine"
	DeleteClaim ActionKind = "delete claim" // with UID as the precondition
	DeletePod   ActionKind = "delete pod"   // with UID as the precondition
	// SetRebuild writes down, before anything else is done, what is being done: Phase, and
	// when that is Clearing another generation.
	SetRebuild ActionKind = "rebuild"
)

// Nobody is the name of a member that there never is.
const Nobody = "nobody"

// Action is one change. It can be made on its own, and made again.
type Action struct {
	Kind     ActionKind
	Why      string // for people
	Ordinal  int
	Replicas int    // of Scale
	MemberID uint64 // of Remove, Promote and NoteMember
	PeerURL  string // of Add
	Claim    string // of NoteMember, NoteMachine, MarkClaim and DeleteClaim: its name
	SinceMs  int64  // of NoteMachine; 0: it exists
	UID      string // of the claim, or of the pod
	GivenUp  bool   // of MarkClaim
	Force    bool   // of DeletePod: its machine cannot say that it has ended
	Urgent   bool   // of DeletePod: budgets do not count, which a silent member uses up
	Phase    Phase  // of SetRebuild
}

// Plan is what to do next.
type Plan struct {
	Actions []Action
	// Meet are the names of the members that one which starts without data is told of.
	Meet []string
	// Anew reports that what starts without data makes a new etcd: all that the old one knew is
	// lost.
	Anew bool
	// Deferred is how many pods wait for a maintenance window to be restarted.
	Deferred int
	// Waiting describes why nothing is done though something should be; "": nothing should.
	Waiting string
	// Lost are the ordinals of the members whose volume or machine is lost.
	Lost []int
	// QuorumLost records that it has lost its majority for good, or that a person says so, and
	// what is done about it; "": it has not.
	QuorumLost string
}

// Decide returns the plan. It is a pure function.
func Decide(f Facts) Plan {
	d := &decision{Facts: &f}
	d.decide()
	d.noteMachines()
	return d.plan
}

func (d *decision) decide() {
	f := d.Facts
	switch {
	case f.Rebuild == Clearing:
		d.clear()
	case f.Rebuild == Making && len(f.Members) == 0:
		d.makeNew()
	case f.Replicas < 0:
		d.plan.Meet = f.Names[:f.Wanted]
		d.do(Action{Kind: Scale, Replicas: f.Wanted, Why: "a new etcd"})
	case f.Replicas < f.size():
		d.plan.Meet = d.fenced()
		d.do(Action{Kind: Scale, Replicas: f.size(), Why: "it had as many members"})
	case !f.Created && len(f.Members) == 0:
		// It is being made: by its StatefulSet, which nobody changes meanwhile.
		d.plan.Meet = f.Names[:min(f.Replicas, len(f.Names))]
		d.plan.Waiting = "it is being made"
		d.restartBroken()
	case len(f.Members) == 0:
		d.plan.Meet = d.fenced()
		d.plan.Waiting = "it does not answer, or has no majority"
		d.plan.Lost = d.lost()
		if !d.beginAnew() && !d.beginRebuild() {
			d.restartBroken()
		}
	default:
		d.keep()
	}
}

type decision struct {
	*Facts
	plan Plan
}

func (d *decision) do(a Action) { d.plan.Actions = append(d.plan.Actions, a) }

// beginAnew makes the only member of an etcd begin without data, when its data is lost for
// good. It reports whether that is so. A machine that only says nothing may come back with it,
// and so may those of several members.
func (d *decision) beginAnew() bool {
	claim, pod := d.claim(0), d.pod(0)
	if d.Replicas != 1 || claim == nil {
		return false
	}
	gone := d.volumeGone(claim)
	switch {
	case claim.Terminating:
		d.plan.Waiting = "its volume is being deleted, and with it all that it knew"
	case gone:
		d.plan.Waiting = "its only volume is lost; it begins anew"
		d.do(Action{Kind: DeleteClaim, Claim: claim.Name, UID: claim.UID, Why: d.plan.Waiting})
	case claim.MemberID == 0:
		// No member ever ran on it, so it is new. If one did after all, it goes on with
		// what it has and reads neither this list nor that it is to begin.
		d.plan.Anew, d.plan.Meet = true, d.Names[:1]
		d.plan.Waiting = "its only volume was lost; it begins anew"
		return false
	default:
		return false
	}
	if force := pod != nil && pod.Machine != "" && d.machineAbsent(pod.Machine); pod != nil && pod.Machine != "" && (force || !pod.Terminating && !pod.Running) {
		d.do(Action{Kind: DeletePod, UID: pod.UID, Force: force, Why: d.plan.Waiting})
	}
	return true
}

// noteMachines writes down which volumes of an etcd that does not answer are bound to a machine
// that does not exist, and takes that back when it does.
func (d *decision) noteMachines() {
	for i := range d.Claims {
		claim := &d.Claims[i]
		_, exists := d.Machines[claim.Machine]
		missing := claim.Machine != "" && !exists
		if noted := claim.MachineMissingSinceMs > 0; missing == noted || missing && (len(d.Members) > 0 || d.Rebuild == Clearing || claim.Terminating) {
			continue
		}
		a := Action{Kind: NoteMachine, Ordinal: claim.Ordinal, Claim: claim.Name, UID: claim.UID}
		if missing {
			a.SinceMs = d.NowMs
		}
		d.do(a)
	}
}

// keep keeps an etcd that answers as it should be. The first thing that is to be done
// is done alone.
func (d *decision) keep() {
	d.plan.Meet = d.fenced()
	d.plan.Lost = d.lost()
	d.note()
	for _, step := range []func() bool{d.replaceLost, d.joinMissing, d.grow, d.restart} {
		if len(d.plan.Actions) > 0 || step() {
			return
		}
	}
	if !d.well() || !d.ready() {
		d.plan.Waiting = "not all of its members answer"
	}
}

// fenced returns a list that a member with data reads nothing from, and with which one
// without cannot start: etcd compares its length with the members that there are.
func (d *decision) fenced() []string {
	return append(slices.Clone(d.Names[:min(max(d.Replicas, 1), len(d.Names))]), Nobody)
}

// note writes on claims whose data they have.
func (d *decision) note() {
	for ordinal := range min(d.Replicas, len(d.Names)) {
		m, claim, pod := d.member(ordinal), d.claim(ordinal), d.pod(ordinal)
		if m == nil || claim == nil || pod == nil || claim.Terminating {
			continue
		}
		own := m.Name != "" && m.Healthy && pod.Running
		if own && claim.MemberID != m.ID {
			d.do(Action{Kind: NoteMember, Ordinal: ordinal, MemberID: m.ID, Claim: claim.Name, UID: claim.UID})
		}
		if own && claim.GivenUp {
			d.do(Action{Kind: MarkClaim, Ordinal: ordinal, Claim: claim.Name, UID: claim.UID, Why: "its machine is back in time"})
		}
	}
}

// lost returns the ordinals of members whose data is lost.
func (d *decision) lost() (lost []int) {
	for ordinal := range min(d.Replicas, len(d.Names)) {
		m, claim := d.member(ordinal), d.claim(ordinal)
		if claim == nil || m != nil && m.Healthy {
			continue
		}
		started := m != nil && m.Name != ""
		gone := claim.Machine != "" && d.machineGone(claim.Machine)
		switch {
		case claim.Lost, claim.GivenUp, claim.Terminating && d.Created, gone:
			lost = append(lost, ordinal)
		case m != nil && claim.MemberID != 0 && claim.MemberID != m.ID:
			lost = append(lost, ordinal) // its data is of a member that was removed
		case started && claim.MemberID == 0 && d.stopped(ordinal):
			lost = append(lost, ordinal) // the volume is new, the member is not
		}
	}
	return lost
}

func (d *decision) stopped(ordinal int) bool {
	pod := d.pod(ordinal)
	return pod == nil || !pod.Running
}

// replaceLost removes a member whose data is lost, and then its volume. It reports whether
// there is one.
func (d *decision) replaceLost() bool {
	if len(d.plan.Lost) == 0 {
		return false
	}
	ordinal := d.plan.Lost[0]
	m, claim, pod := d.member(ordinal), d.claim(ordinal), d.pod(ordinal)
	voters, healthy := d.others(ordinal)
	if 2*healthy <= voters {
		d.plan.Waiting = fmt.Sprintf("%s is lost, and the others have no majority without it", d.Names[ordinal])
		return true
	}
	why := d.Names[ordinal] + " has lost its volume or machine"
	switch {
	case !claim.GivenUp && !claim.Terminating:
		d.do(Action{Kind: MarkClaim, Ordinal: ordinal, Claim: claim.Name, UID: claim.UID, GivenUp: true, Why: why})
		return true
	case m != nil:
		d.do(Action{Kind: Remove, Ordinal: ordinal, MemberID: m.ID, Why: why})
		return true
	case !claim.Terminating:
		d.do(Action{Kind: DeleteClaim, Ordinal: ordinal, Claim: claim.Name, UID: claim.UID, Why: why})
	}
	d.plan.Waiting = why + ", which are being replaced"
	if pod == nil || pod.Machine == "" {
		return true
	}
	if force := d.machineGone(pod.Machine); force || !pod.Terminating {
		d.do(Action{Kind: DeletePod, Ordinal: ordinal, UID: pod.UID, Force: force, Why: why})
	}
	return true
}

// joinMissing brings one member in that has a pod and is none, or none with a vote. It
// reports whether there is one.
func (d *decision) joinMissing() bool {
	for ordinal := range min(d.Replicas, len(d.Names)) {
		m, claim := d.member(ordinal), d.claim(ordinal)
		if m != nil && !m.Learner && m.Name != "" {
			continue
		}
		if claim != nil && claim.Terminating {
			d.plan.Waiting = fmt.Sprintf("the old volume of %s is being deleted", d.Names[ordinal])
			return true
		}
		if m == nil {
			d.add(ordinal)
			return true
		}
		if m.Name == "" { // once it has started, it needs no list any more
			d.plan.Meet = d.meet(ordinal)
		}
		switch {
		case m.Learner && m.Healthy && (claim == nil || claim.MemberID != m.ID):
			d.plan.Waiting = d.Names[ordinal] + " gets a vote when it is known which volume has its data"
		case m.Learner && m.Healthy:
			d.do(Action{Kind: Promote, Ordinal: ordinal, MemberID: m.ID, Why: d.Names[ordinal] + " has caught up"})
		default:
			d.plan.Waiting = d.Names[ordinal] + " is joining"
		}
		return true
	}
	return false
}

// add adds a member that is to come to etcd's list.
func (d *decision) add(ordinal int) {
	voters, healthy := d.others(ordinal)
	if len(d.Members) != voters || healthy != voters {
		d.plan.Waiting = fmt.Sprintf("%s joins when all others are healthy", d.Names[ordinal])
		return
	}
	d.do(Action{Kind: Add, Ordinal: ordinal, PeerURL: d.PeerURLs[ordinal], Why: d.Names[ordinal] + " joins"})
}

// meet returns the names of all members, that of an ordinal among them.
func (d *decision) meet(joining int) (names []string) {
	for ordinal := range d.Names {
		if ordinal == joining || d.member(ordinal) != nil {
			names = append(names, d.Names[ordinal])
		}
	}
	return names
}

// grow makes room for one more member: etcd is told first, so that the pod can start. It
// reports whether it did.
func (d *decision) grow() bool {
	next := d.Replicas
	if next >= len(d.Names) {
		return false
	}
	m := d.member(next)
	switch {
	case m != nil && next >= d.Wanted:
		d.do(Action{Kind: Remove, Ordinal: next, MemberID: m.ID, Why: d.Names[next] + " is not wanted any more"})
	case m != nil:
		d.plan.Meet = d.meet(next)
		d.do(Action{Kind: Scale, Replicas: next + 1, Why: "more members are wanted"})
	case next >= d.Wanted:
		return false
	case d.claim(next) != nil:
		d.discard(next)
	case !d.well():
		d.plan.Waiting = "it grows when all its members are healthy"
	default:
		d.add(next)
	}
	return true
}

// discard deletes a volume that a member which is to come would find.
func (d *decision) discard(ordinal int) {
	claim := d.claim(ordinal)
	d.plan.Waiting = fmt.Sprintf("the old volume of %s is being deleted", d.Names[ordinal])
	if !claim.Terminating {
		d.do(Action{Kind: DeleteClaim, Ordinal: ordinal, Claim: claim.Name, UID: claim.UID, Why: d.plan.Waiting})
	}
}

// restart restarts one pod that was made from an older template. It reports whether one is
// to be.
func (d *decision) restart() bool {
	if d.restartBroken() {
		return true
	}
	outdated := false
	for ordinal := d.Replicas - 1; ordinal >= 0; ordinal-- {
		pod := d.pod(ordinal)
		if pod == nil || !pod.Outdated {
			continue
		}
		if d.Closed && !pod.Asked {
			d.plan.Deferred++
			continue
		}
		if outdated = true; d.mayRestart(ordinal) {
			d.do(Action{Kind: DeletePod, Ordinal: ordinal, UID: pod.UID, Urgent: d.Urgent && !d.ready(), Why: "its template has changed"})
			return true
		}
	}
	if outdated {
		d.plan.Waiting = "a member is restarted when all others are healthy"
	}
	return outdated
}

// mayRestart reports whether a member may be restarted: all others are healthy. It may be silent
// itself while its machine is not: its old template may be why.
func (d *decision) mayRestart(ordinal int) bool {
	if claim := d.claim(ordinal); claim == nil || claim.Terminating || d.pod(ordinal).Terminating || d.silent(ordinal) {
		return false
	}
	excused := func(other int) bool { return other == ordinal || d.Urgent && other >= 0 && d.silent(other) }
	for i := range d.Members {
		m := &d.Members[i]
		if (m.Learner || !m.Healthy) && !excused(slices.Index(d.Names, m.Name)) {
			return false
		}
	}
	for other := range d.Replicas {
		if pod := d.pod(other); (pod == nil || !pod.Ready || pod.Terminating) && !excused(other) {
			return false
		}
	}
	return true
}

// ready reports whether all pods are.
func (d *decision) ready() bool {
	for ordinal := range d.Replicas {
		if pod := d.pod(ordinal); pod == nil || !pod.Ready || pod.Terminating {
			return false
		}
	}
	return true
}

// restartBroken restarts a pod from an older template that does not run: nothing can be
// lost by it. It reports whether there is one.
func (d *decision) restartBroken() bool {
	for i := range d.Pods {
		pod := &d.Pods[i]
		claim := d.claim(pod.Ordinal)
		if pod.Outdated && !pod.Running && !pod.Terminating && (claim == nil || !claim.Terminating) {
			d.do(Action{Kind: DeletePod, Ordinal: pod.Ordinal, UID: pod.UID, Why: "it does not run, and its template has changed"})
			return true
		}
	}
	return false
}
