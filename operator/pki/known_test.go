package pki_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// Of what a pod shows only that counts which the cluster's authorities have signed under its name;
// an authority that was slipped in is not kept.
func TestKnown(t *testing.T) {
	first, foreign := authority(t), authority(t)
	name := certificate.Name{Cluster: "demo", Role: certificate.RoleNode, ID: "demo-node-0"}
	identity := certificate.Identity{CommonName: "demo-node-0", Hosts: []string{"a"}, Name: name}
	issue := func(a *pki.CA, i certificate.Identity) *pki.Leaf {
		t.Helper()
		l, err := a.Issue(pki.Defaults(), pki.Holder{Identity: i, Key: newKey()}, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if l.Key != nil {
			t.Fatal("the key of a holder who keeps it is there")
		}
		pod := &corev1.Pod{}
		l.Annotate(pod)
		if l, err = pki.ReadAnnotated(pod); err != nil {
			t.Fatal(err)
		}
		return l
	}
	own := issue(first, identity)
	other := identity
	other.Name.ID = "demo-node-1"
	slipped := *own
	slipped.Bundle = append(slipped.Bundle, foreign.Signer.Certificate)
	lost := pki.State{Leaves: map[string]*pki.Leaf{"router": leaf(t, first, certificate.Identity{CommonName: "router", Hosts: []string{"r"}})}}
	for text, state := range map[string]pki.State{"with the authority": {CA: first}, "when it is lost": lost} {
		if got := state.Known(own, name); got == nil || !got.ChangedAt.Equal(epoch) || len(got.Bundle) != 1 {
			t.Errorf("%s: its own is %+v", text, got)
		}
		if state.Known(issue(foreign, identity), name) != nil || state.Known(issue(first, other), name) != nil {
			t.Errorf("%s: what is of another authority, or another name, counts", text)
		}
		if got := state.Known(&slipped, name); got == nil || len(got.Bundle) != 1 || !got.ChangedAt.IsZero() {
			t.Errorf("%s: an authority that was slipped in is kept: %+v", text, got)
		}
	}
	if _, err := pki.ReadAnnotated(&corev1.Pod{}); err == nil {
		t.Error("a pod without annotations has a certificate")
	}
}
