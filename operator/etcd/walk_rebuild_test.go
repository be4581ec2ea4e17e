package etcd

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The walks come across what they are to show: a new etcd that takes the place of a lost
// one by itself, and one that a person asks for.
func TestWalksRebuild(t *testing.T) {
	byItself, asked := 0, 0
	for seed := range 2000 {
		w := rapid.Custom(walkOnce).Example(seed)
		switch {
		case w.rebuilt > 0 && w.asked == 0:
			byItself++
		case w.asked > 0:
			asked++
		}
	}
	t.Logf("%d by themselves, %d asked for", byItself, asked)
	if byItself < 5 || asked < 5 {
		t.Fatal("too few")
	}
}

// pass makes the actions of a plan, as far as the operator comes before it is killed, and
// writes the status, if it comes so far.
func (w *walk) pass(plan Plan, actions int) {
	w.meet = plan.Meet
	answered := w.quorum()
	known := w.knownNow()
	for _, a := range plan.Actions[:min(actions, len(plan.Actions))] {
		if a.Kind == Add || a.Kind == Remove || a.Kind == Promote {
			w.known = known // before the members change
		}
		w.act(a)
	}
	if actions <= len(plan.Actions) || !answered {
		return
	}
	if w.known, w.noted = known, true; w.rebuild == Making {
		w.rebuild = None
	}
}

// knownNow returns the members as the status has them when etcd answers.
func (w *walk) knownNow() (known []Known) {
	for _, id := range slices.Sorted(maps.Keys(w.members)) {
		m := w.members[id]
		if !m.started {
			continue
		}
		k := Known{Ordinal: m.ordinal, Learner: m.learner}
		if claim := w.claims[m.ordinal]; claim != nil && claim.noted == id {
			k.ClaimUID = claim.uid
		}
		for _, before := range w.known {
			if k.ClaimUID == "" && before.Ordinal == m.ordinal && w.ofMember(before.ClaimUID, id) {
				k.ClaimUID = before.ClaimUID
			}
		}
		known = append(known, k)
	}
	return known
}

// ofMember reports whether a claim has the data of a member.
func (w *walk) ofMember(uid string, id uint64) bool {
	for _, claim := range w.claims {
		if claim.uid == uid {
			return claim.data == id
		}
	}
	return false
}

// checkRebuild: a new etcd takes the place of one only when no majority can come back, or
// when a person says so, and is made only when nothing of the old one is left.
func (w *walk) checkRebuild(a Action) {
	switch a.Phase {
	case Clearing:
		voters, left := 0, 0
		for id, m := range w.members {
			if m.learner {
				continue
			}
			voters++
			claim := w.claims[m.ordinal]
			if _, there := w.machines[machineOf(claim)]; there && claim.data == id {
				left++
			}
		}
		if 2*left > voters && w.asked != w.generation+1 {
			w.t.Fatalf("a new etcd is made though %d of %d voters can come back: %+v", left, voters, w.facts())
		}
	case Making:
		if len(w.pods) > 0 || len(w.claims) > 0 {
			w.t.Fatalf("a new etcd is made while something of the old one is there: %+v", w.facts())
		}
	case None:
	}
}

func machineOf(claim *claimModel) string {
	if claim == nil {
		return ""
	}
	return claim.machine
}

func (w *walk) setRebuild(phase Phase) {
	w.rebuild = phase
	switch phase {
	case Clearing:
		w.generation++
		w.known, w.noted = nil, false
	case Making:
		w.known, w.noted, w.created = nil, false, false
		w.members = map[uint64]*memberModel{}
		w.rebuilt++
	case None:
		w.noted = true
	}
}
