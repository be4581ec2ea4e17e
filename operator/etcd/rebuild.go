package etcd

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rebuiltMembers is how many members a new etcd begins with that takes the place of a lost
// one: there may be no machines for more. It grows when it runs.
const rebuiltMembers = 1

// size is how many pods there have to be for the members that are known.
func (f *Facts) size() int {
	size := 0
	for _, k := range f.Known {
		size = max(size, k.Ordinal+1)
	}
	if size == 0 && f.Replicas == 0 {
		return f.Wanted
	}
	return size
}

// goneForGood reports whether the data of a member does not come back: its claim is not there
// any more, or cannot be mounted by any machine. A machine that only says nothing may come
// back.
func (f *Facts) goneForGood(k Known) bool {
	claim, pod := f.claim(k.Ordinal), f.pod(k.Ordinal)
	switch {
	case claim == nil, k.ClaimUID != "" && claim.UID != k.ClaimUID:
		return true
	case claim.Lost, claim.Machine != "" && f.machineAbsent(claim.Machine):
		return true
	}
	return claim.Terminating && (pod == nil || pod.Machine == "") // nobody can mount it again
}

// absentMs returns for how long all machines of members have been away that do not exist: the
// one that left last may be the first to join again.
func (f *Facts) absentMs() int64 {
	absent := f.UnavailableMs
	for _, k := range f.Known {
		claim := f.claim(k.Ordinal)
		if claim == nil || claim.Lost || claim.Machine == "" {
			continue
		}
		if _, exists := f.Machines[claim.Machine]; exists {
			continue
		}
		since := claim.MachineMissingSinceMs
		if since == 0 {
			since = f.NowMs
		}
		absent = min(absent, max(f.NowMs-since, 0))
	}
	return absent
}

// quorumGone reports whether no majority of the members can come back, whatever the one
// change was that may have been made after they were known; and which ones cannot.
func (f *Facts) quorumGone() (gone []int, lost bool) {
	var voters, learners []Known
	for _, k := range f.Known {
		if f.goneForGood(k) {
			gone = append(gone, k.Ordinal)
		}
		if k.Learner {
			learners = append(learners, k)
		} else {
			voters = append(voters, k)
		}
	}
	slices.Sort(gone)
	lost = len(voters) > 0 && f.noMajority(voters)
	for _, promoted := range learners {
		lost = lost && f.noMajority(append(slices.Clone(voters), promoted))
	}
	for i := range voters {
		if removed := slices.Delete(slices.Clone(voters), i, i+1); len(removed) > 0 {
			lost = lost && f.noMajority(removed)
		}
	}
	return gone, lost
}

// noMajority reports whether at most half of some voters can come back.
func (f *Facts) noMajority(voters []Known) bool {
	left := 0
	for _, k := range voters {
		if !f.goneForGood(k) {
			left++
		}
	}
	return 2*left <= len(voters)
}

// beginRebuild begins to put a new etcd in the place of one that has lost its majority for
// good, once that has been so for long and the nodes can give the shard map back. It reports
// whether something is, or is going to be, done.
func (d *decision) beginRebuild() bool {
	gone, lost := d.quorumGone()
	asked := d.Asked == d.Generation+1
	if !lost && !asked {
		if len(gone) > 0 {
			d.plan.Waiting = fmt.Sprintf("it has no majority; the data of %s is gone for good, and it waits for the others, which may come back", d.list(gone))
		}
		return false
	}
	why := "a person says that its members do not come back"
	if lost {
		why = fmt.Sprintf("it has lost its majority for good: the data of %s is gone", d.list(gone))
	}
	waited := d.UnavailableMs
	if !asked {
		waited = d.absentMs()
	}
	switch left := d.ReplaceAfterMs - waited; {
	case left > 0:
		d.plan.QuorumLost = fmt.Sprintf("%s; at %s a new etcd takes its place, which gets the shard map from the nodes",
			why, time.UnixMilli(d.NowMs+left).UTC().Format(time.RFC3339))
	case d.Unrescuable != "":
		d.plan.QuorumLost = fmt.Sprintf("%s; a new etcd takes its place as soon as the nodes can give it the shard map: %s", why, d.Unrescuable)
	default:
		d.plan.QuorumLost = why + "; a new etcd takes its place, which gets the shard map from the nodes"
		d.do(Action{Kind: SetRebuild, Phase: Clearing, Why: why})
	}
	d.plan.Waiting = d.plan.QuorumLost
	return len(d.plan.Actions) > 0
}

// list names members.
func (d *decision) list(ordinals []int) string {
	var names []string
	for _, ordinal := range ordinals {
		if ordinal < len(d.Names) {
			names = append(names, d.Names[ordinal])
		}
	}
	return strings.Join(names, ", ")
}

// clear takes away the pods and volumes of an etcd that is lost, so that none of its
// members meets the new one. If it answers after all, it stays.
func (d *decision) clear() {
	d.plan.Meet = d.fenced()
	if len(d.Members) > 0 {
		d.do(Action{Kind: SetRebuild, Phase: None, Why: "a majority of its members has come back"})
		return
	}
	d.plan.QuorumLost = "it has lost its majority for good; a new etcd takes its place: the pods and volumes of the old one go first"
	d.plan.Waiting = d.plan.QuorumLost
	if d.Replicas > 0 {
		d.do(Action{Kind: Scale, Replicas: 0, Why: "its pods go before a new etcd is made"})
	}
	for i := range d.Claims { // before the pods: a claim stays until its pod has gone, and nobody finds it
		if claim := &d.Claims[i]; !claim.Terminating {
			d.do(Action{Kind: DeleteClaim, Ordinal: claim.Ordinal, Claim: claim.Name, UID: claim.UID, Why: "it is of an etcd that is lost"})
		}
	}
	for i := range d.Pods {
		pod := &d.Pods[i]
		if force := pod.Machine != "" && d.machineGone(pod.Machine); force || !pod.Terminating {
			d.do(Action{Kind: DeletePod, Ordinal: pod.Ordinal, UID: pod.UID, Force: force, Why: "it is of an etcd that is lost"})
		}
	}
	if d.Replicas <= 0 && len(d.Claims) == 0 && len(d.Pods) == 0 {
		d.do(Action{Kind: SetRebuild, Phase: Making, Why: "nothing of the old etcd is left"})
	}
}

// makeNew makes the new etcd.
func (d *decision) makeNew() {
	d.plan.Meet = d.Names[:rebuiltMembers]
	d.plan.QuorumLost = "it had lost its majority for good; the new etcd in its place is starting"
	d.plan.Waiting = d.plan.QuorumLost
	if d.Replicas < rebuiltMembers {
		d.do(Action{Kind: Scale, Replicas: rebuiltMembers, Why: "a new etcd"})
		return
	}
	d.restartBroken()
}
