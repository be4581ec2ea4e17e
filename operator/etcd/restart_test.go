package etcd

import (
	"fmt"
	"testing"
)

// threeMembers returns the facts of an etcd of three members, each on a machine of its own, whose
// pods are of an older template.
func threeMembers() Facts {
	f := Facts{NowMs: 1_000_000, ReplaceAfterMs: 600_000, Wanted: 3, Replicas: 3, Created: true, Machines: map[string]Machine{}}
	f.Names, f.PeerURLs = names()
	for ordinal := range 3 {
		machine, id := fmt.Sprintf("m%d", ordinal), uint64(ordinal+1)
		f.Machines[machine] = Machine{}
		f.Members = append(f.Members, Member{ID: id, Name: f.Names[ordinal], PeerURL: f.PeerURLs[ordinal], Healthy: true})
		f.Pods = append(f.Pods, Pod{Ordinal: ordinal, UID: machine, Machine: machine, Running: true, Ready: true, Outdated: true})
		f.Claims = append(f.Claims, Claim{Ordinal: ordinal, Name: machine, UID: machine, Machine: machine, MemberID: id})
	}
	return f
}

// Which member is restarted for its template, while one does not answer.
func TestRestartBesideASilentMember(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *Facts)
		want   int // ordinal; -1: none
		urgent bool
	}{
		"all are well": {func(*Facts) {}, 2, false},
		"one does not answer, and its machine does": {func(f *Facts) {
			f.Members[0].Healthy, f.Pods[0].Ready = false, false
		}, 0, false},
		"one does not answer, and is of the present template": {func(f *Facts) {
			f.Members[0].Healthy, f.Pods[0].Ready, f.Pods[0].Outdated = false, false, false
		}, -1, false},
		"one is silent with its machine": {silenced(0), -1, false},
		"one is silent with its machine, and it is urgent": {func(f *Facts) {
			silenced(0)(f)
			f.Urgent = true
		}, 2, true},
		"the others are of the present template": {func(f *Facts) {
			silenced(0)(f)
			f.Urgent, f.Pods[1].Outdated, f.Pods[2].Outdated = true, false, false
		}, -1, false},
		"another one is starting, and it is urgent": {func(f *Facts) {
			silenced(0)(f)
			f.Urgent, f.Pods[2].Outdated, f.Pods[2].Ready = true, false, false
		}, -1, false},
	} {
		f := threeMembers()
		test.change(&f)
		plan, restarted := Decide(f), -1
		for _, a := range plan.Actions {
			if a.Kind != DeletePod || a.Force || a.Urgent != test.urgent || restarted >= 0 {
				t.Errorf("%s: %+v", name, plan.Actions)
			}
			restarted = a.Ordinal
		}
		if restarted != test.want || (restarted < 0) != (plan.Waiting != "") {
			t.Errorf("%s: restarts %d, expected %d: %+v", name, restarted, test.want, plan)
		}
	}
}

// silenced makes the machine of a member say nothing.
func silenced(ordinal int) func(f *Facts) {
	return func(f *Facts) {
		f.Machines[f.Pods[ordinal].Machine] = Machine{NotReadySinceMs: f.NowMs - 1}
		f.Members[ordinal].Healthy, f.Pods[ordinal].Ready = false, false
	}
}

// While no maintenance window is open, members wait that run and that nobody asks for.
func TestRestartOutsideTheWindow(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(f *Facts)
		want     int // ordinal; -1: none
		deferred int
	}{
		"all are well":             {func(*Facts) {}, -1, 3},
		"a person asks for one":    {func(f *Facts) { f.Pods[1].Asked = true }, 1, 1},
		"one does not run":         {func(f *Facts) { f.Members[0].Healthy, f.Pods[0].Running, f.Pods[0].Ready = false, false, false }, 0, 0},
		"one is halfway":           {func(f *Facts) { f.Pods[2].Outdated = false }, -1, 2},
		"the window is open again": {func(f *Facts) { f.Closed = false }, 2, 0},
	} {
		f := threeMembers()
		f.Closed = true
		test.change(&f)
		plan, restarted := Decide(f), -1
		for _, a := range plan.Actions {
			restarted = a.Ordinal
		}
		if restarted != test.want || plan.Deferred != test.deferred || plan.Waiting != "" {
			t.Errorf("%s: restarts %d, expected %d: %+v", name, restarted, test.want, plan)
		}
	}
}
