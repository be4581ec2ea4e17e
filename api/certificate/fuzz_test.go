package certificate

import (
	"errors"
	"net/url"
	"testing"
	"time"
)

// A name that is taken is written as it was meant: written and read again it is the same, so
// that no two spellings stand for one holder with other rights.
func FuzzNameOf(f *testing.F) {
	for _, s := range []string{
		"tickmesh://c/node/n1", "tickmesh://c/router", "tickmesh://c/node/*", "tickmesh://c/node/n1%2Fx", "tickmesh://c:1/node/n1", "tickmesh://u@c/node/n1",
		"tickmesh://c//node/n1", "tickmesh:node/n1", "tickmesh://c/node/n1?x", "tickmesh://c/node/%2A", "tickmesh://C/authority",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		name, err := nameOf(u)
		if err != nil {
			if !errors.Is(err, ErrName) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := url.Parse(name.String())
		if err != nil {
			t.Fatalf("%q is %q: %v", text, name, err)
		}
		if second, err := nameOf(again); err != nil || second != name || !name.Is(name.Cluster, name.Role, name.ID) {
			t.Fatalf("%q is %+v, and then %+v (%v)", text, name, second, err)
		}
	})
}

// Whatever the files hold, a pair is whole or refused.
func FuzzDecodePair(f *testing.F) {
	p, err := NewCA("c", "tickmesh authority", time.Hour, time.Unix(1_700_000_000, 0))
	if err != nil {
		f.Fatal(err)
	}
	key, err := EncodeKey(p.Key)
	if err != nil {
		f.Fatal(err)
	}
	certificate := EncodeCertificates(p.Certificate)
	f.Add(certificate, key)
	f.Add(append(certificate, certificate...), []byte(nil))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		p, err := DecodePair(certificate, key)
		if err != nil {
			if p != nil || !errors.Is(err, ErrPEM) {
				t.Fatalf("%v, %v", p, err)
			}
			return
		}
		if p.Key != nil && !p.Key.PublicKey.Equal(p.Certificate.PublicKey) {
			t.Fatal("the key is not that of the certificate")
		}
		if _, err := NameOf(p.Certificate); err != nil && !errors.Is(err, ErrName) {
			t.Fatal(err)
		}
	})
}
