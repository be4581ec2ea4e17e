package etcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// three is an etcd of three members that does not answer, with all of its machines and
// volumes there.
func three() Facts {
	all, urls := names()
	f := Facts{
		NowMs: 10_000_000, ReplaceAfterMs: 60_000, UnavailableMs: 60_000, Wanted: 3, Replicas: 3, Created: true, Names: all, PeerURLs: urls,
		Machines: map[string]Machine{"m0": {}, "m1": {}, "m2": {}},
	}
	for ordinal := range 3 {
		machine, uid := fmt.Sprintf("m%d", ordinal), fmt.Sprintf("c%d", ordinal)
		f.Known = append(f.Known, Known{Ordinal: ordinal, ClaimUID: uid})
		f.Pods = append(f.Pods, Pod{Ordinal: ordinal, UID: fmt.Sprintf("p%d", ordinal), Machine: machine, Running: true})
		f.Claims = append(f.Claims, Claim{Ordinal: ordinal, Name: "data-" + uid, UID: uid, Machine: machine, MemberID: uint64(ordinal + 1)})
	}
	return f
}

// A new etcd takes the place of one of several only when no majority of it can come back,
// or when a person says so; never when a majority still could.
func TestBeginsRebuild(t *testing.T) {
	remove := func(machines ...string) func(*Facts) {
		return func(f *Facts) {
			for _, name := range machines {
				delete(f.Machines, name)
				f.Claims[name[1]-'0'].MachineMissingSinceMs = 1 // for long
			}
		}
	}
	both := func(changes ...func(*Facts)) func(*Facts) {
		return func(f *Facts) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	silent := func(f *Facts) {
		f.Machines["m1"], f.Machines["m2"] = Machine{NotReadySinceMs: 1}, Machine{NotReadySinceMs: 1}
	}
	for _, c := range []struct {
		name   string
		change func(*Facts)
		begins bool
		says   string // in the text about the majority, or about what is waited for
	}{
		{"it only does not answer", func(*Facts) {}, false, "does not answer"},
		{"two machines say nothing for long", silent, false, "does not answer"},
		{"two machines say nothing, and a person says that they do not come back", both(silent, func(f *Facts) { f.Asked = 1 }), true, "a person says"},
		{"what a person said was about another time", both(silent, func(f *Facts) { f.Asked, f.Generation = 1, 1 }), false, "does not answer"},
		{"a person asks too early", both(silent, func(f *Facts) { f.Asked, f.UnavailableMs = 1, 59_999 }), false, "a new etcd takes its place"},
		{"one machine is gone", remove("m1"), false, "the data of e1 is gone"},
		{"one machine is gone, another says nothing", both(silent, remove("m1")), false, "the data of e1 is gone"},
		{"two machines are gone", remove("m1", "m2"), true, "the data of e1, e2 is gone"},
		{"all machines are gone", remove("m0", "m1", "m2"), true, "e0, e1, e2"},
		{"two machines are gone since a moment", both(remove("m1", "m2"), func(f *Facts) { f.UnavailableMs = 10_000 }), false, "at 1970-01-01T02:47:30Z a new etcd"},
		{"two machines have just left", func(f *Facts) {
			delete(f.Machines, "m1")
			delete(f.Machines, "m2")
		}, false, "at 1970-01-01T02:47:40Z a new etcd"},
		{"two machines are out of service", func(f *Facts) {
			f.Machines["m0"], f.Machines["m1"] = Machine{OutOfService: true}, Machine{NotReadySinceMs: 1, OutOfService: true}
		}, true, "e0, e1"},
		{"two volumes are lost", func(f *Facts) { f.Claims[0].Lost, f.Claims[2].Lost = true, true }, true, "e0, e2"},
		{"two claims are deleted", func(f *Facts) { f.Claims = f.Claims[:1] }, true, "e1, e2"},
		{"two claims are new", func(f *Facts) { f.Claims[1].UID, f.Claims[2].UID = "x", "y" }, true, "e1, e2"},
		{"one claim is new, a machine is gone", both(remove("m0"), func(f *Facts) { f.Claims[1].UID = "x" }), true, "e0, e1"},
		{"two claims are being deleted, and their pods run", func(f *Facts) { f.Claims[1].Terminating, f.Claims[2].Terminating = true, true }, false, "does not answer"},
		{"two claims are being deleted, and nobody uses them", func(f *Facts) {
			f.Claims[1].Terminating, f.Claims[2].Terminating = true, true
			f.Pods = f.Pods[:1]
		}, true, "e1, e2"},
		{"the nodes cannot give the map", both(remove("m1", "m2"), func(f *Facts) { f.Unrescuable = "node-1 is not ready" }), false, "node-1 is not ready"},
		{"nobody knows who the members were", both(remove("m1", "m2"), func(f *Facts) { f.Known = nil }), false, "does not answer"},
		{"nobody knows, and a person says so", both(remove("m1", "m2"), func(f *Facts) { f.Known, f.Asked = nil, 1 }), true, "a person says"},
		{"a member may have got a vote that nobody saw", func(f *Facts) {
			f.Known[2].Learner = true
			f.Claims[1].UID = "x" // of two voters one is left, of three two are
		}, false, "the data of e1 is gone"},
		{"a member may have been removed that nobody saw", func(f *Facts) {
			f.Known = f.Known[:2]
			f.Claims[1].UID = "x"
		}, false, "the data of e1 is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := three()
			c.change(&f)
			plan := Decide(f)
			begins := slices.ContainsFunc(plan.Actions, func(a Action) bool { return a.Kind == SetRebuild && a.Phase == Clearing })
			if begins != c.begins || begins && len(plan.Actions) != 1 {
				t.Errorf("%+v", plan)
			}
			if !strings.Contains(plan.Waiting, c.says) || begins && plan.QuorumLost == "" {
				t.Errorf("it says %q, and %q; not %q", plan.Waiting, plan.QuorumLost, c.says)
			}
			if !slices.Contains(plan.Meet, Nobody) {
				t.Errorf("meets %v", plan.Meet)
			}
		})
	}
}

// The old etcd goes first, with pods and volumes; the new one begins with one member.
func TestRebuild(t *testing.T) {
	kinds := func(plan Plan) (kinds []string) {
		for _, a := range plan.Actions {
			kinds = append(kinds, fmt.Sprint(a.Kind, " ", a.Ordinal, " ", a.Replicas, " ", a.Force, " ", a.Phase))
		}
		return kinds
	}
	f := three()
	f.Rebuild, f.Known = Clearing, nil
	delete(f.Machines, "m1")
	f.Machines["m2"] = Machine{NotReadySinceMs: f.NowMs - 1}
	want := []string{
		"scale 0 0 false ", "delete claim 0 0 false ", "delete claim 1 0 false ", "delete claim 2 0 false ",
		"delete pod 0 0 false ", "delete pod 1 0 true ", "delete pod 2 0 false ",
	}
	if got := kinds(Decide(f)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	f.Replicas, f.Pods, f.Claims = 0, f.Pods[2:], f.Claims[2:]
	f.Pods[0].Terminating, f.Claims[0].Terminating = true, true
	if got := kinds(Decide(f)); len(got) > 0 {
		t.Errorf("it waits for the pod of a machine that may come back, and does %q", got)
	}
	f.Machines["m2"] = Machine{NotReadySinceMs: 1} // for long
	if got := kinds(Decide(f)); !slices.Equal(got, []string{"delete pod 2 0 true "}) {
		t.Errorf("%q", got)
	}
	f.Pods, f.Claims = nil, nil
	if got := kinds(Decide(f)); !slices.Equal(got, []string{"rebuild 0 0 false Making"}) {
		t.Errorf("%q", got)
	}
	f.Rebuild, f.Created = Making, false
	if got := kinds(Decide(f)); !slices.Equal(got, []string{"scale 0 1 false "}) {
		t.Errorf("%q", got)
	}
	f.Replicas = 1
	if plan := Decide(f); len(plan.Actions) > 0 || !slices.Equal(plan.Meet, f.Names[:1]) || plan.QuorumLost == "" {
		t.Errorf("%+v", plan)
	}
	f.Members = []Member{{ID: 9, Name: f.Names[0], PeerURL: f.PeerURLs[0], Healthy: true}}
	f.Pods = []Pod{{UID: "n", Machine: "m0", Running: true, Ready: true}}
	f.Claims = []Claim{{Name: "data", UID: "new", Machine: "m0", MemberID: 9}}
	if got := kinds(Decide(f)); !slices.Equal(got, []string{"add 1 0 false "}) {
		t.Errorf("it does not grow: %q", got)
	}
}

// An etcd that answers after all is kept.
func TestRebuildCalledOff(t *testing.T) {
	f := three()
	f.Rebuild = Clearing
	for ordinal := range 2 {
		f.Members = append(f.Members, Member{ID: uint64(ordinal + 1), Name: f.Names[ordinal], PeerURL: f.PeerURLs[ordinal], Healthy: true})
	}
	plan := Decide(f)
	if len(plan.Actions) != 1 || plan.Actions[0].Kind != SetRebuild || plan.Actions[0].Phase != None {
		t.Fatalf("%+v", plan)
	}
	f.Rebuild, f.Replicas = None, 0
	if plan = Decide(f); len(plan.Actions) != 1 || plan.Actions[0].Kind != Scale || plan.Actions[0].Replicas != 3 {
		t.Fatalf("its pods do not come back: %+v", plan)
	}
}
