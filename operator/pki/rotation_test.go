package pki_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// world is a cluster whose pods see Secrets late, and whose operator may stop after any
// write.
type world struct {
	settings pki.Settings
	holders  map[string]pki.Holder
	now      time.Time
	rotation string
	revoked  []*x509.Certificate
	// What the API server has: Secrets as they were written, by identity; "": the authority's.
	secrets map[string]*corev1.Secret
	// What the pod of each identity uses, and what was written since, oldest first.
	used  map[string]*pki.Leaf
	later map[string][]*pki.Leaf
	// The day on which two of them last made a connection.
	checked map[[2]*pki.Leaf]int64
}

func newWorld(now time.Time) *world {
	return &world{
		settings: pki.Defaults(), now: now, secrets: map[string]*corev1.Secret{}, used: map[string]*pki.Leaf{}, later: map[string][]*pki.Leaf{},
		checked: map[[2]*pki.Leaf]int64{},
		holders: map[string]pki.Holder{
			"node":   {Identity: certificate.Identity{CommonName: "node", Hosts: []string{"*.demo-node.ns.svc", "localhost", "127.0.0.1"}}},
			"router": {Identity: certificate.Identity{CommonName: "router", Hosts: []string{"demo-router.ns.svc"}}},
			"pod":    {Identity: podIdentity, Key: newKey()},
			"etcd":   {Identity: certificate.Identity{CommonName: "etcd", Hosts: []string{"*.demo-etcd.ns.svc"}}},
		},
	}
}

// podIdentity is that of a pod that keeps its key.
var podIdentity = certificate.Identity{CommonName: "pod", Hosts: []string{"pod-0.demo-node.ns.svc"}}

func newKey() *ecdsa.PublicKey {
	key, err := certificate.NewKey()
	if err != nil {
		panic(err) // no random source
	}
	return &key.PublicKey
}

func (w *world) state(t require) pki.State {
	state := pki.State{Leaves: map[string]*pki.Leaf{}}
	var err error
	for name, secret := range w.secrets {
		if name == "" {
			state.CA, err = pki.ReadCA(secret)
		} else {
			state.Leaves[name], err = pki.ReadLeaf(secret)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return state
}

type require interface{ Fatal(args ...any) }

// reconcile brings the Secrets on, with so many writes at most.
func (w *world) reconcile(t require, writesMax int) (writes int) {
	before := w.state(t)
	after, err := pki.Advance(w.settings, "demo", w.holders, before, pki.Demand{Rotation: w.rotation, Revoked: w.revoked}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, write func(*corev1.Secret) error) bool {
		if writes == writesMax {
			return false
		}
		writes++
		secret := &corev1.Secret{}
		if err := write(secret); err != nil {
			t.Fatal(err)
		}
		w.secrets[name] = secret
		return true
	}
	if after.CA != before.CA && !put("", after.CA.Write) {
		return writes
	}
	for _, name := range slices.Sorted(maps.Keys(after.Leaves)) {
		leaf := after.Leaves[name]
		if leaf == nil || leaf == before.Leaves[name] {
			continue
		}
		if !put(name, leaf.Write) {
			return writes
		}
		if key := w.holders[name].Key; key != nil && !key.Equal(leaf.Certificate.PublicKey) {
			continue // its pod waits for another one
		}
		if w.used[name] == nil {
			w.used[name] = leaf
		} else {
			w.later[name] = append(w.later[name], leaf)
		}
	}
	return writes
}

// pass lets time pass; pods see what was written long enough ago.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for name, later := range w.later {
		for len(later) > 0 && w.now.Sub(later[0].ChangedAt) >= w.settings.PropagationDelay {
			w.used[name], later = later[0], later[1:]
		}
		w.later[name] = later
	}
}

// lose deletes a Secret, as a person may; pods go on with what they have. Only one is
// lost at a time: without the authority's key nobody can tell a leaf whose Secret was
// deleted from one that is new.
func (w *world) lose(t require, name string) {
	a := w.state(t).CA
	complete := a != nil && a.Signer.Key != nil
	for identity := range w.holders {
		complete = complete && w.secrets[identity] != nil
	}
	if complete {
		delete(w.secrets, name)
	}
}

// connect has every pod make a connection to every other.
func (w *world) connect(t require) {
	for client, c := range w.used {
		for server, s := range w.used {
			pair, day := [2]*pki.Leaf{c, s}, w.now.Unix()/(24*60*60)
			if w.checked[pair] == day {
				continue
			}
			w.checked[pair] = day
			if err := accepts(c.Bundle, s.Certificate, w.now, x509.ExtKeyUsageServerAuth, w.holders[server].Hosts[0]); err != nil {
				t.Fatal(fmt.Sprintf("%s refuses %s: %v", client, server, err))
			}
			if err := accepts(s.Bundle, c.Certificate, w.now, x509.ExtKeyUsageClientAuth, ""); err != nil {
				t.Fatal(fmt.Sprintf("%s refuses its client %s: %v", server, client, err))
			}
		}
	}
}

// accepts returns what crypto/tls would.
func accepts(bundle []*x509.Certificate, c *x509.Certificate, now time.Time, usage x509.ExtKeyUsage, host string) error {
	roots := x509.NewCertPool()
	for _, authority := range bundle {
		roots.AddCert(authority)
	}
	if len(host) > 2 && host[:2] == "*." {
		host = "some-0." + host[2:]
	}
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Whatever happens in whatever order, all pods trust each other at all times.
func TestPodsTrustEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(epoch)
		w.reconcile(t, 10)
		w.connect(t)
		for range rapid.IntRange(5, 60).Draw(t, "moves") {
			switch rapid.IntRange(0, 10).Draw(t, "move") {
			case 0, 1, 2:
				w.reconcile(t, rapid.IntRange(0, 4).Draw(t, "writes"))
			case 3, 4, 5:
				w.pass(time.Duration(rapid.Int64Range(0, int64(w.settings.PropagationDelay)+1).Draw(t, "time")))
			case 6: // a pod sees its Secret
				name := rapid.SampledFrom([]string{"node", "router", "etcd"}).Draw(t, "pod")
				if later := w.later[name]; len(later) > 0 {
					w.used[name], w.later[name] = later[0], later[1:]
				}
			case 7:
				w.rotation = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rotation")
			case 8: // the operator was away for weeks, but not so long that leaves ended
				w.pass(time.Duration(rapid.IntRange(1, 7).Draw(t, "days")) * 24 * time.Hour)
				w.reconcile(t, 4)
			case 9:
				w.lose(t, rapid.SampledFrom([]string{"none", "", "node"}).Draw(t, "lose"))
				w.holders["node"] = pki.Holder{Identity: certificate.Identity{CommonName: "node", Hosts: []string{"*.demo-node.ns.svc", fmt.Sprintf("10.0.0.%d", rapid.IntRange(1, 3).Draw(t, "host"))}}}
				w.reconcile(t, 4)
			case 10: // a pod that keeps its key loses it, and waits until another one is certified
				w.holders["pod"] = pki.Holder{Identity: podIdentity, Key: newKey()}
				delete(w.used, "pod")
				delete(w.later, "pod")
			}
			w.connect(t)
			if used := w.used["pod"]; used != nil && (used.Key != nil || !w.holders["pod"].Key.Equal(used.Certificate.PublicKey)) {
				t.Fatal("the pod has a certificate of another key")
			}
		}
	})
}

// A certificate that several shared is taken by nobody any more, an hour after each of them has
// its own; and they trust each other all the while.
func TestRevoked(t *testing.T) {
	w := newWorld(epoch)
	w.reconcile(t, 10)
	shared := w.used["node"]
	delete(w.holders, "node")
	delete(w.used, "node")
	delete(w.secrets, "node")
	w.revoked = []*x509.Certificate{shared.Certificate}
	for range 4 {
		w.reconcile(t, 10)
		w.connect(t)
		w.pass(w.settings.PropagationDelay)
	}
	for name, leaf := range w.used {
		if accepts(leaf.Bundle, shared.Certificate, w.now, x509.ExtKeyUsageClientAuth, "") == nil {
			t.Errorf("%s still takes it", name)
		}
	}
	if writes := w.reconcile(t, 10); writes != 0 {
		t.Errorf("%d writes when all is done", writes)
	}
}

// Years pass, and nobody asks for anything: the authority is replaced, and connections
// work every day.
func TestYears(t *testing.T) {
	w := newWorld(epoch)
	w.settings = pki.Settings{CAValidity: 400 * 24 * time.Hour, LeafValidity: 90 * 24 * time.Hour, PropagationDelay: time.Hour}
	authorities := map[string]bool{}
	writes := 0
	for day := 0; day < 3*365; day += 3 {
		writes += w.reconcile(t, 10)
		authorities[w.state(t).CA.Signer.Certificate.Subject.CommonName] = true
		w.connect(t)
		if day%60 == 0 && w.reconcile(t, 10) != 0 {
			t.Fatalf("day %d: a second look at the same time finds something to do", day)
		}
		w.pass(3 * 24 * time.Hour)
	}
	if len(authorities) < 4 || len(authorities) > 8 || writes > 150 {
		t.Errorf("%d authorities and %d writes in three years", len(authorities), writes)
	}
}

// A rotation that is asked for takes its four writes of each Secret, once.
func TestRotationIsAskedFor(t *testing.T) {
	w := newWorld(epoch)
	w.reconcile(t, 10)
	first := w.state(t).CA.Signer.Certificate
	w.rotation = "after-the-leak"
	var steps []string
	for range 20 {
		a := w.state(t).CA
		steps = append(steps, fmt.Sprintf("%v/%d", a.Next != nil, len(a.Old)))
		w.reconcile(t, 10)
		w.connect(t)
		w.pass(w.settings.PropagationDelay)
	}
	a := w.state(t).CA
	if a.Next != nil || len(a.Old) != 0 || a.Signer.Certificate.Equal(first) || a.Rotation != w.rotation {
		t.Fatalf("the rotation did not end: %v", steps)
	}
	if got := slices.Compact(steps); !slices.Equal(got, []string{"false/0", "true/0", "false/1", "false/0"}) {
		t.Errorf("steps %v", got)
	}
	for name, leaf := range w.state(t).Leaves {
		if len(leaf.Bundle) != 1 || leaf.Bundle[0].Equal(first) {
			t.Errorf("%s trusts %d authorities", name, len(leaf.Bundle))
		}
	}
}

// Without its key an authority is replaced, even when a leaf is missing.
func TestLostAuthority(t *testing.T) {
	w := newWorld(epoch)
	w.reconcile(t, 10)
	delete(w.secrets, "")
	w.holders["edge"] = pki.Holder{Identity: certificate.Identity{CommonName: "edge", Hosts: []string{"demo.ns.svc"}}}
	w.reconcile(t, 10)
	if _, err := w.state(t).CA.Issue(w.settings, w.holders["edge"], w.now); err != pki.ErrNoKey { //nolint:errorlint // as documented
		t.Fatalf("an authority without its key: %v", err)
	}
	for range 6 {
		w.pass(w.settings.PropagationDelay)
		w.reconcile(t, 10)
		w.connect(t)
	}
	a := w.state(t).CA
	if a.Signer.Key == nil || a.Next != nil || len(a.Old) != 0 || w.secrets["edge"] == nil {
		t.Errorf("the authority was not replaced: %+v", a)
	}
}
