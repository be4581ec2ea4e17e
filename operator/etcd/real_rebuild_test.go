package etcd

import "testing"

// known returns members as the status would have them.
func (e *ensemble) known(members []Member) (known []Known) {
	for _, m := range members {
		for ordinal, name := range e.facts.Names {
			if claim := e.facts.claim(ordinal); m.Name == name && claim != nil && claim.MemberID == m.ID {
				known = append(known, Known{Ordinal: ordinal, ClaimUID: claim.UID, Learner: m.Learner})
			}
		}
	}
	return known
}

func (e *ensemble) setRebuild(phase Phase) {
	e.facts.Rebuild = phase
	if phase == Clearing {
		e.facts.Generation++
	}
	e.facts.Created, e.facts.Known = false, nil
}

// A real etcd that lost two of its three machines is made anew, as another cluster with
// other members.
func TestRealEtcdIsRebuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("etcd wants members connected for some seconds before it takes others")
	}
	t.Parallel()
	e := newEnsemble(t, 3)
	e.settle(3)
	before, err := e.admin.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for ordinal := 1; ordinal < 3; ordinal++ {
		_ = e.servers[ordinal].Close()
		delete(e.servers, ordinal)
	}
	delete(e.facts.Machines, "m1")
	delete(e.facts.Machines, "m2")
	e.settle(3)
	after, err := e.admin.View(t.Context())
	if err != nil || after.ClusterID == before.ClusterID || e.facts.Generation != 1 {
		t.Fatalf("%+v and then %+v, generation %d: %v", before, after, e.facts.Generation, err)
	}
	for _, m := range after.Members { // a member of the old one would be refused by them
		for _, was := range before.Members {
			if m.ID == was.ID {
				t.Errorf("member %x is in both", m.ID)
			}
		}
	}
}
