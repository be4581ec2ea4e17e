package certificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
)

func encoded(t testing.TB, name Name) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodeRequest(name, key)
	if err != nil {
		t.Fatal(err)
	}
	return text, key
}

// What is asked for is what is read, and it fits into what carries it, however long the names are.
func TestRequest(t *testing.T) {
	long := strings.Repeat("n", partBytesMax)
	for _, name := range []Name{{Cluster: "home", Role: RoleNode, ID: "demo-node-0"}, {Cluster: long, Role: RoleNode, ID: long}} {
		text, key := encoded(t, name)
		r, err := DecodeRequest(text)
		if err != nil || r.Name != name || !r.PublicKey.Equal(&key.PublicKey) {
			t.Fatal(r, err)
		}
	}
	if _, err := EncodeRequest(Name{Cluster: "home", Role: RoleNode}, nil); !errors.Is(err, ErrName) {
		t.Error(err)
	}
}

// An authority signs the key that it is given, and says of it what it decides itself.
func TestCertify(t *testing.T) {
	a := authority(t, "home")
	text, key := encoded(t, Name{Cluster: "home", Role: RoleNode, ID: "n1"})
	r, err := DecodeRequest(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Certify(Identity{CommonName: "n1", Hosts: []string{"n1.lan"}, Name: r.Name}, r.PublicKey, year, epoch)
	if err != nil || !key.PublicKey.Equal(c.PublicKey) || c.CheckSignatureFrom(a.Certificate) != nil || c.VerifyHostname("n1.lan") != nil {
		t.Fatal(c, err)
	}
	if name, err := NameOf(c); err != nil || name != r.Name {
		t.Fatal(name, err)
	}
	if _, err := (Pair{Certificate: a.Certificate}).Certify(Identity{}, r.PublicKey, year, epoch); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
}

// Requests that could mislead whoever signs them are not taken.
func TestBadRequests(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	made := func(signer any, uris ...string) []byte {
		template := &x509.CertificateRequest{}
		for _, text := range uris {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			template.URIs = append(template.URIs, u)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, template, signer)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der})
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const n1 = "tickmesh://home/node/n1"
	good := made(key, n1)
	block, _ := pem.Decode(good)
	block.Bytes[len(block.Bytes)-1] ^= 1 // of the signature
	for name, text := range map[string][]byte{
		"nothing": nil, "no PEM": []byte("node/n1"), "too long": []byte(strings.Repeat("\n", RequestBytesMax) + string(good)),
		"a certificate": EncodeCertificates(authority(t, "home").Certificate), "signed by another key": pem.EncodeToMemory(block),
		"another kind of key": made(edKey, n1), "another curve": made(large, n1),
		"no name": made(key), "two names": made(key, n1, "tickmesh://home/node/n2"), "a node without an id": made(key, "tickmesh://home/node"),
	} {
		if r, err := DecodeRequest(text); err == nil || !errors.Is(err, ErrRequest) && !errors.Is(err, ErrName) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Whatever a container has left, a request is whole or refused, and what was read can be certified.
func FuzzDecodeRequest(f *testing.F) {
	text, _ := encoded(f, Name{Cluster: "home", Role: RoleNode, ID: "n1"})
	f.Add(text)
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	a, err := NewCA("home", "authority", time.Hour, epoch)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeRequest(text)
		if err != nil {
			if !errors.Is(err, ErrRequest) && !errors.Is(err, ErrName) {
				t.Fatal(err)
			}
			return
		}
		if _, err := a.Certify(Identity{Name: r.Name}, r.PublicKey, time.Hour, epoch); err != nil {
			t.Fatal(err)
		}
	})
}
