package certificate

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const year = 365 * 24 * time.Hour

func authority(t *testing.T, cluster string) *Pair {
	t.Helper()
	a, err := NewCA(cluster, "an authority", 10*year, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func uris(t *testing.T, texts ...string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{}
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	return c
}

func TestNameOf(t *testing.T) {
	for text, want := range map[string]Name{
		"tickmesh://home/node/n1":   {"home", RoleNode, "n1"},
		"tickmesh://home/node/*":    {"home", RoleNode, AnyID},
		"tickmesh://home/router":    {"home", RoleRouter, ""},
		"tickmesh://home/operator":  {"home", RoleOperator, ""},
		"tickmesh://home/authority": {"home", RoleCA, ""},
		"tickmesh://home/client/a":  {"home", RoleClient, "a"},
	} {
		got, err := NameOf(uris(t, "https://home/node/x", text))
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	if got, err := NameOf(uris(t, "spiffe://home/node/n1")); err != nil || got != (Name{}) {
		t.Errorf("a certificate without a name has %+v, %v", got, err)
	}
	for _, texts := range [][]string{
		{"tickmesh://home/node"}, {"tickmesh://home/king"}, {"tickmesh:///node/n1"}, {"tickmesh://home/node/n1/n2"}, {"tickmesh://home"},
		{"tickmesh://home/node/n1?x"}, {"tickmesh://n2@home/node/n1"}, {"tickmesh://home/node/n1#x"}, {"tickmesh:home"}, {"tickmesh://home/node/-"},
		{"tickmesh://home/node/n1", "tickmesh://home/node/n2"}, {"tickmesh://home/router", "tickmesh://home/router"},
		{"tickmesh://home/node/" + strings.Repeat("n", 254)},
	} {
		if got, err := NameOf(uris(t, texts...)); !errors.Is(err, ErrName) {
			t.Errorf("%q: %+v %v", texts, got, err)
		}
	}
}

func TestIs(t *testing.T) {
	one, any := Name{"home", RoleNode, "n1"}, Name{"home", RoleNode, AnyID}
	if !one.Is("home", RoleNode, "n1") || !any.Is("home", RoleNode, "n2") {
		t.Error("a node is not itself")
	}
	if one.Is("home", RoleNode, "n2") || one.Is("work", RoleNode, "n1") || one.Is("home", RoleRouter, "n1") || any.Is("work", RoleNode, "n1") {
		t.Error("a node is another")
	}
}

func TestIssue(t *testing.T) {
	a := authority(t, "home")
	identity := Identity{CommonName: "node-n1", Hosts: []string{"b", "a", "10.0.0.1", "::1", "a"}, Name: Name{"home", RoleNode, "n1"}}
	p, err := a.Issue(identity, year, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if p.Certificate.CheckSignatureFrom(a.Certificate) != nil || p.Certificate.IsCA || !identity.Fits(p.Certificate) {
		t.Errorf("%+v", p.Certificate)
	}
	for name, other := range map[string]Identity{
		"host": {identity.CommonName, []string{"a"}, identity.Name}, "common name": {"x", identity.Hosts, identity.Name},
		"name": {identity.CommonName, identity.Hosts, Name{"home", RoleNode, "n2"}}, "no name": {identity.CommonName, identity.Hosts, Name{}},
	} {
		if other.Fits(p.Certificate) {
			t.Errorf("another %s fits", name)
		}
	}
	for at, fresh := range map[time.Duration]bool{-48 * time.Hour: false, 0: true, year/2 + 24*time.Hour: true, year * 3 / 4: false, 2 * year: false} {
		if Fresh(p.Certificate, epoch.Add(at)) != fresh {
			t.Errorf("after %v: fresh is %v", at, !fresh)
		}
	}
	if late, err := a.Issue(identity, 20*year, epoch); err != nil || !late.Certificate.NotAfter.Equal(a.Certificate.NotAfter) {
		t.Errorf("it outlives its authority: %v", err)
	}
	if _, err := (Pair{Certificate: a.Certificate}).Issue(identity, year, epoch); !errors.Is(err, ErrNoKey) {
		t.Errorf("signed without a key: %v", err)
	}
	identity.Name.ID = "a/b"
	if _, err := a.Issue(identity, year, epoch); !errors.Is(err, ErrName) {
		t.Errorf("a name that is none: %v", err)
	}
}

// TestMemberHost: certificates of etcd's members are valid for the host that tells them from others,
// whoever asks for it, and an authority that signs it says so.
func TestMemberHost(t *testing.T) {
	a := authority(t, "home")
	if a.Certificate.VerifyHostname(MemberHost) != nil {
		t.Error("the authority does not say that it tells members from others")
	}
	for _, role := range []Role{RoleNode, RoleRouter, RoleOperator, RoleClient, RoleEtcd, ""} {
		for _, hosts := range [][]string{nil, {"a", MemberHost}, {"a", "*.tickmesh.internal"}, {"Etcd-Member.TickMesh.Internal"}} {
			identity := Identity{CommonName: "x", Hosts: hosts}
			if role != "" {
				identity.Name = Name{"home", role, "x"}
			}
			p, err := a.Issue(identity, year, epoch)
			if err != nil {
				t.Fatal(err)
			}
			if is := p.Certificate.VerifyHostname(MemberHost) == nil; is != (role == RoleEtcd) {
				t.Errorf("role %q with hosts %q: valid for a member's host: %v", role, hosts, is)
			}
			if again := IdentityOf(p.Certificate, Identity{}); !identity.Fits(p.Certificate) || !again.Fits(p.Certificate) {
				t.Errorf("role %q with hosts %q: %+v does not fit", role, hosts, again)
			}
		}
	}
}

func TestPEM(t *testing.T) {
	a := authority(t, "home")
	key, err := EncodeKey(a.Key)
	if err != nil {
		t.Fatal(err)
	}
	text := EncodeCertificates(a.Certificate)
	got, err := DecodePair(text, key)
	if err != nil || !got.Certificate.Equal(a.Certificate) || !got.Key.Equal(a.Key) {
		t.Errorf("%v", err)
	}
	if got, err := DecodePair(text, nil); err != nil || got.Key != nil {
		t.Errorf("without a key: %v", err)
	}
	other, err := EncodeKey(authority(t, "home").Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][2][]byte{
		"another key": {text, other}, "no certificate": {nil, key}, "a key as certificate": {key, key}, "no PEM": {text, []byte("x")}, "a certificate as key": {text, text},
	} {
		if _, err := DecodePair(parts[0], parts[1]); !errors.Is(err, ErrPEM) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	leaf, old := &x509.Certificate{}, &x509.Certificate{IsCA: true}
	named := authority(t, "home").Certificate
	for name, test := range map[string]struct {
		chains [][]*x509.Certificate
		want   bool
	}{
		"none": {nil, false}, "empty": {[][]*x509.Certificate{{}}, false}, "old": {[][]*x509.Certificate{{leaf, old}}, false},
		"named": {[][]*x509.Certificate{{leaf, named}}, true}, "both": {[][]*x509.Certificate{{leaf, old}, {leaf, named}}, true},
	} {
		if got := Names(test.chains); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
