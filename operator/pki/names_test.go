package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// unnamedAuthority is one as older versions made it.
func unnamedAuthority(t *testing.T) *pki.CA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "demo authority"}, NotBefore: epoch.Add(-time.Hour),
		NotAfter: epoch.Add(pki.Defaults().CAValidity), KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pki.CA{Signer: certificate.Pair{Certificate: c, Key: key}}
}

// TestClustersMoveToNames: an authority of an older version is replaced in the steps of every
// replacement; at its end all leaves have names, and nobody trusts what signed others.
func TestClustersMoveToNames(t *testing.T) {
	s, old := pki.Defaults(), unnamedAuthority(t)
	identity := certificate.Identity{
		CommonName: "node", Hosts: []string{"a"}, Name: certificate.Name{Cluster: "demo", Role: certificate.RoleNode, ID: certificate.AnyID},
	}
	before := identity
	before.Name = certificate.Name{}
	state := pki.State{CA: old, Leaves: map[string]*pki.Leaf{"node": leaf(t, old, before)}}
	now := epoch
	var steps int
	for ; steps < 10; steps++ {
		next, err := pki.Advance(s, "demo", map[string]pki.Holder{"node": {Identity: identity}}, state, pki.Demand{}, now)
		if err != nil {
			t.Fatal(err)
		}
		if next.CA == state.CA && next.Leaves["node"] == state.Leaves["node"] {
			break
		}
		// Whoever still has the leaf before trusts the new one, and is trusted by its holder.
		if accepts(state.Leaves["node"].Bundle, next.Leaves["node"].Certificate, now, x509.ExtKeyUsageClientAuth, "") != nil ||
			accepts(next.Leaves["node"].Bundle, state.Leaves["node"].Certificate, now, x509.ExtKeyUsageClientAuth, "") != nil {
			t.Errorf("step %d: neighbours do not trust each other", steps)
		}
		state, now = next, now.Add(s.PropagationDelay)
	}
	if steps != 3 {
		t.Errorf("%d steps, want introduce, promote and retire", steps)
	}
	last := state.Leaves["node"]
	if name, err := certificate.NameOf(last.Certificate); err != nil || name != identity.Name {
		t.Errorf("%+v %v", name, err)
	}
	if len(last.Bundle) != 1 || !certificate.Names([][]*x509.Certificate{{last.Certificate, last.Bundle[0]}}) {
		t.Errorf("authorities that are trusted at the end: %d", len(last.Bundle))
	}
}
