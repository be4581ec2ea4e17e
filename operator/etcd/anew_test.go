package etcd

import (
	"slices"
	"testing"
)

// An etcd of one member begins anew only when its volume or machine is lost for good, and
// one of three never does.
func TestBeginsAnew(t *testing.T) {
	lone := func() Facts {
		all, urls := names()
		return Facts{
			NowMs: 10_000_000, ReplaceAfterMs: 60_000, Wanted: 1, Replicas: 1, Created: true, Names: all, PeerURLs: urls,
			Pods:     []Pod{{UID: "p", Machine: "a", Running: true}},
			Claims:   []Claim{{Name: "c", UID: "c", Machine: "a", MemberID: 7}},
			Machines: map[string]Machine{"a": {}},
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   []ActionKind
		anew   bool
	}{
		{name: "it does not answer", change: func(*Facts) {}},
		{name: "its machine says nothing for long", change: func(f *Facts) { f.Machines["a"] = Machine{NotReadySinceMs: 1} }},
		{name: "its machine has just left", change: func(f *Facts) { delete(f.Machines, "a") }, want: []ActionKind{NoteMachine}},
		{name: "its machine left a moment ago", change: func(f *Facts) {
			delete(f.Machines, "a")
			f.Claims[0].MachineMissingSinceMs = f.NowMs - 59_999
		}},
		{name: "its machine has joined again", change: func(f *Facts) { f.Claims[0].MachineMissingSinceMs = 1 }, want: []ActionKind{NoteMachine}},
		{name: "its machine does not exist any more", change: func(f *Facts) {
			delete(f.Machines, "a")
			f.Claims[0].MachineMissingSinceMs = f.NowMs - 60_000
		}, want: []ActionKind{DeleteClaim, DeletePod}},
		{name: "its machine is out of service", change: func(f *Facts) { f.Machines["a"] = Machine{NotReadySinceMs: 1, OutOfService: true} },
			want: []ActionKind{DeleteClaim, DeletePod}},
		{name: "its volume is lost", change: func(f *Facts) { f.Claims[0].Lost, f.Pods[0].Running = true, false }, want: []ActionKind{DeleteClaim, DeletePod}},
		{name: "its claim is being deleted", change: func(f *Facts) { f.Claims[0].Terminating, f.Pods[0].Running = true, false }, want: []ActionKind{DeletePod}},
		{name: "its claim is new", change: func(f *Facts) { f.Claims[0].MemberID, f.Pods[0].Running = 0, false }, anew: true},
		{name: "there is no claim yet", change: func(f *Facts) { f.Claims = nil }},
		{name: "it answers", change: func(f *Facts) {
			f.Claims[0].MemberID = 0
			f.Members = []Member{{ID: 7, Name: f.Names[0], PeerURL: f.PeerURLs[0], Healthy: true}}
		}, want: []ActionKind{NoteMember}},
		{name: "three, of which all volumes are new", change: func(f *Facts) {
			f.Replicas, f.Wanted, f.Pods, f.Claims = 3, 3, nil, nil
			for ordinal := range 3 {
				f.Claims = append(f.Claims, Claim{Ordinal: ordinal, Name: "c", UID: "c", Machine: "a"})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := lone()
			c.change(&f)
			plan := Decide(f)
			var got []ActionKind
			for _, a := range plan.Actions {
				got = append(got, a.Kind)
			}
			if !slices.Equal(got, c.want) || plan.Anew != c.anew {
				t.Errorf("%+v", plan)
			}
			if c.anew && !slices.Equal(plan.Meet, f.Names[:1]) || !c.anew && !slices.Contains(plan.Meet, Nobody) {
				t.Errorf("meets %v", plan.Meet)
			}
		})
	}
}
