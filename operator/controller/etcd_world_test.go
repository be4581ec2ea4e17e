package controller_test

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// fakeEtcd is an etcd whose members are healthy when their pods run with their volumes. It
// answers while most of its voters are.
type fakeEtcd struct {
	token   string // of the cluster that was made last
	members []etcd.Member
	claims  map[uint64]string // UID of the claim with the data of a member
	down    bool
	lastID  uint64
	made    int // clusters
}

func (e *fakeEtcd) View(context.Context) (etcd.View, error) {
	voters, healthy := 0, 0
	for _, m := range e.members {
		if !m.Learner {
			voters++
			if m.Healthy {
				healthy++
			}
		}
	}
	if e.down || 2*healthy <= voters {
		return etcd.View{}, etcd.ErrUnavailable
	}
	return etcd.View{ClusterID: "c" + e.token, Members: slices.Clone(e.members)}, nil
}

func (e *fakeEtcd) Add(_ context.Context, url string) error {
	e.lastID++
	e.members = append(e.members, etcd.Member{ID: e.lastID, PeerURL: url, Learner: true})
	return nil
}

func (e *fakeEtcd) Remove(_ context.Context, id uint64) error {
	e.members = slices.DeleteFunc(e.members, func(m etcd.Member) bool { return m.ID == id })
	return nil
}

func (e *fakeEtcd) Promote(_ context.Context, id uint64) error {
	for i := range e.members {
		if e.members[i].ID == id {
			e.members[i].Learner = false
		}
	}
	return nil
}

func (e *fakeEtcd) Close() error { return nil }

// runEtcd lets the members run whose pods do.
func (w *world) runEtcd() {
	w.t.Helper()
	c := w.cluster()
	for ordinal := range int32(3) {
		name := build.PodName(c, build.ComponentEtcd, ordinal)
		pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
		runs := w.found(w.api.Get(w.t.Context(), w.key(name), pod)) && pod.Spec.NodeName != "" && w.machines[pod.Spec.NodeName] && pod.DeletionTimestamp == nil &&
			w.found(w.api.Get(w.t.Context(), w.key(build.ClaimName(name)), claim)) && w.trustsPeers(pod)
		if runs {
			w.runMember(name, build.EtcdURL(c, name, build.PortEtcdPeer), string(claim.UID))
		} else {
			w.etcd.setHealthy(build.EtcdURL(c, name, build.PortEtcdPeer), "")
		}
	}
}

// setHealthy notes that the member at a URL runs with a claim; "": it does not run.
func (e *fakeEtcd) setHealthy(url, claim string) (known bool) {
	for i := range e.members {
		if m := &e.members[i]; m.PeerURL == url {
			m.Healthy = claim != "" && e.claims[m.ID] == claim
			known = known || m.Healthy
		}
	}
	return known
}

// runMember starts a member: with the data of its claim, or as the ConfigMap says.
func (w *world) runMember(name, url, claim string) {
	w.t.Helper()
	e := &w.etcd
	if e.setHealthy(url, claim) {
		return
	}
	for _, data := range e.claims {
		if data == claim {
			return // it has the data of a member that there is not any more
		}
	}
	config := &corev1.ConfigMap{}
	w.must(w.api.Get(w.t.Context(), w.key("demo-etcd"), config))
	text := config.Data["etcd.yaml"]
	if strings.Contains(text, etcd.Nobody+"=") || !strings.Contains(text, name+"=") {
		return
	}
	if e.claims == nil {
		e.claims = map[uint64]string{}
	}
	if strings.Contains(text, "initial-state: new") {
		token := strings.Split(text, "initial-token: ")[1]
		if lone := strings.Count(text, "=http") == 1; token != e.token || lone {
			e.token, e.members = token, nil
			e.made++
		}
		e.lastID++
		e.members = append(e.members, etcd.Member{ID: e.lastID, Name: name, PeerURL: url, Healthy: true})
		e.claims[e.lastID] = claim
		return
	}
	for i := range e.members {
		if m := &e.members[i]; m.PeerURL == url && m.Name == "" {
			m.Name, m.Healthy = name, true
			e.claims[m.ID] = claim
		}
	}
}

// trustsPeers reports whether a member takes the certificate that all members show now: it reads
// its authorities when it starts, and never again.
func (w *world) trustsPeers(pod *corev1.Pod) bool {
	w.t.Helper()
	secret := &corev1.Secret{}
	if !w.found(w.api.Get(w.t.Context(), w.key("demo-etcd-tls"), secret)) {
		return true // without TLS
	}
	leaf, err := pki.ReadLeaf(secret)
	w.must(err)
	if w.etcdTrust[pod.UID] == nil {
		w.etcdTrust[pod.UID] = leaf.Bundle
	}
	return slices.ContainsFunc(w.etcdTrust[pod.UID], func(a *x509.Certificate) bool { return leaf.Certificate.CheckSignatureFrom(a) == nil })
}
