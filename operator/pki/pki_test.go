package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/pki"
)

func authority(t testing.TB) *pki.CA {
	t.Helper()
	a, err := pki.NewCA(pki.Defaults(), "demo", nil, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func leaf(t testing.TB, a *pki.CA, identity certificate.Identity) *pki.Leaf {
	t.Helper()
	l, err := a.Issue(pki.Defaults(), pki.Holder{Identity: identity}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLeafIsValidForItsHosts(t *testing.T) {
	a := authority(t)
	l := leaf(t, a, certificate.Identity{CommonName: "node", Hosts: []string{"demo-node.ns.svc", "*.demo-node.ns.svc", "localhost", "127.0.0.1", "::1"}})
	for host, valid := range map[string]bool{
		"demo-node.ns.svc": true, "demo-node-0.demo-node.ns.svc": true, "demo-node-17.demo-node.ns.svc": true, "localhost": true,
		"127.0.0.1": true, "::1": true, "demo-router.ns.svc": false, "a.b.demo-node.ns.svc": false, "127.0.0.2": false,
		"demo-node-0.demo-node.other.svc": false,
	} {
		err := accepts(l.Bundle, l.Certificate, epoch, x509.ExtKeyUsageServerAuth, host)
		if (err == nil) != valid {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, at := range []time.Time{epoch.Add(-23 * time.Hour), epoch.Add(89 * 24 * time.Hour)} {
		if err := accepts(l.Bundle, l.Certificate, at, x509.ExtKeyUsageClientAuth, ""); err != nil {
			t.Errorf("at %v: %v", at, err)
		}
	}
	if l.Certificate.IsCA || leafSignsOthers(t, l) {
		t.Error("a leaf is an authority")
	}
}

// leafSignsOthers reports whether what a leaf signs is trusted.
func leafSignsOthers(t *testing.T, l *pki.Leaf) bool {
	t.Helper()
	forged, err := (&pki.CA{Signer: l.Pair}).Issue(pki.Defaults(), pki.Holder{Identity: certificate.Identity{CommonName: "x", Hosts: []string{"x"}}}, epoch)
	if err != nil {
		return false
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(l.Bundle[0])
	between.AddCert(l.Certificate)
	_, err = forged.Certificate.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: epoch})
	return err == nil
}

// Go's own TLS takes what is in the Secrets, on both sides.
func TestSecretsMakeConnections(t *testing.T) {
	a := authority(t)
	read := func(name string) *tls.Config {
		secret := &corev1.Secret{}
		if err := leaf(t, a, certificate.Identity{CommonName: name, Hosts: []string{name + ".ns.svc"}}).Write(secret); err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(secret.Data["ca.crt"]) {
			t.Fatal("ca.crt has no certificate")
		}
		return &tls.Config{
			Certificates: []tls.Certificate{certificate}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
			Time: func() time.Time { return epoch }, MinVersion: tls.VersionTLS13,
		}
	}
	server, client := read("node"), read("router")
	client.ServerName = "node.ns.svc"
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		_, err := io.WriteString(tls.Server(far, server), "hello")
		served <- err
	}()
	said := make([]byte, 5)
	if _, err := io.ReadFull(tls.Client(near, client), said); err != nil || string(said) != "hello" {
		t.Errorf("%q, %v", said, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestDueOf(t *testing.T) {
	a := authority(t)
	other := authority(t)
	identity := certificate.Identity{CommonName: "node", Hosts: []string{"b", "a", "10.0.0.1", "::1", "a"}}
	l := leaf(t, a, identity)
	later := func(d time.Duration) time.Time { return epoch.Add(d) }
	const day = 24 * time.Hour
	unknown, ahead, keyless := *l, *l, *l
	unknown.ChangedAt, ahead.ChangedAt, keyless.Key = time.Time{}, later(time.Hour), nil
	lost := &pki.CA{Signer: certificate.Pair{Certificate: a.Signer.Certificate}}
	introduced, err := a.Introduce(pki.Defaults(), "demo", "", epoch)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		authority *pki.CA
		leaf      *pki.Leaf
		identity  certificate.Identity
		at        time.Time
		want      pki.Due
	}{
		"nothing":                   {a, l, identity, epoch, pki.DueNothing},
		"other order":               {a, l, certificate.Identity{CommonName: "node", Hosts: []string{"a", "b", "0:0::1", "10.0.0.1"}}, epoch, pki.DueNothing},
		"missing":                   {a, nil, identity, epoch, pki.DueIssue},
		"two thirds":                {a, l, identity, later(59 * day), pki.DueNothing},
		"over two thirds":           {a, l, identity, later(61 * day), pki.DueIssue},
		"before its time":           {a, l, identity, later(-2 * day), pki.DueIssue},
		"another host":              {a, l, certificate.Identity{CommonName: "node", Hosts: []string{"a"}}, epoch, pki.DueIssue},
		"another name":              {a, l, certificate.Identity{CommonName: "n", Hosts: identity.Hosts}, epoch, pki.DueIssue},
		"another authority":         {other, l, identity, epoch, pki.DueIssue},
		"key lost":                  {a, &keyless, identity, epoch, pki.DueIssue},
		"no time":                   {a, &unknown, identity, epoch, pki.DueTrust},
		"time ahead":                {a, &ahead, identity, epoch, pki.DueTrust},
		"introduced":                {introduced, l, identity, epoch, pki.DueTrust},
		"nearly over, but no key":   {lost, l, identity, later(61 * day), pki.DueNothing},
		"another authority, no key": {&pki.CA{Signer: certificate.Pair{Certificate: other.Signer.Certificate}}, l, identity, epoch, pki.DueTrust},
	} {
		if got := pki.DueOf(test.authority, test.leaf, pki.Holder{Identity: test.identity}, test.at); got != test.want {
			t.Errorf("%s: %v, expected %v", name, got, test.want)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	if err := pki.Defaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range []pki.Settings{
		{}, {CAValidity: time.Hour, LeafValidity: time.Hour, PropagationDelay: time.Second},
		{CAValidity: 100 * time.Hour, LeafValidity: time.Hour, PropagationDelay: time.Hour},
	} {
		if _, err := pki.Advance(s, "demo", nil, pki.State{}, pki.Demand{}, epoch); !errors.Is(err, pki.ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestSecretsAreRead(t *testing.T) {
	a := authority(t)
	a, err := a.Introduce(pki.Defaults(), "demo", "word", epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []*pki.CA{a, a.Promote(), a.Promote().Retire(), {Signer: certificate.Pair{Certificate: a.Signer.Certificate}, Next: a.Next}} {
		secret := &corev1.Secret{}
		if err := before.Write(secret); err != nil {
			t.Fatal(err)
		}
		after, err := pki.ReadCA(secret)
		if err != nil {
			t.Fatal(err)
		}
		again := &corev1.Secret{}
		if err := after.Write(again); err != nil {
			t.Fatal(err)
		}
		for key, text := range secret.Data {
			if !bytes.Equal(text, again.Data[key]) {
				t.Errorf("%s differs after it was read", key)
			}
		}
		if end, err := pki.NotAfter(secret); err != nil || !end.Equal(before.Signer.Certificate.NotAfter) {
			t.Errorf("it ends at %v, %v", end, err)
		}
	}
}

func TestBadSecretsAreRefused(t *testing.T) {
	a := authority(t)
	good := &corev1.Secret{}
	if err := leaf(t, a, certificate.Identity{CommonName: "node"}).Write(good); err != nil {
		t.Fatal(err)
	}
	stranger := &corev1.Secret{}
	if err := leaf(t, a, certificate.Identity{CommonName: "node"}).Write(stranger); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string][]byte){
		"empty":              func(d map[string][]byte) { clear(d) },
		"no certificate":     func(d map[string][]byte) { d["tls.crt"] = nil },
		"no authority":       func(d map[string][]byte) { d["ca.crt"] = []byte("ca") },
		"another's key":      func(d map[string][]byte) { d["tls.key"] = stranger.Data["tls.key"] },
		"a broken key":       func(d map[string][]byte) { d["tls.key"] = []byte("key") },
		"a key for the cert": func(d map[string][]byte) { d["tls.crt"] = d["tls.key"] },
		"too many":           func(d map[string][]byte) { d["ca.crt"] = bytes.Repeat(d["ca.crt"], 17) },
	} {
		secret := good.DeepCopy()
		change(secret.Data)
		if _, err := pki.ReadLeaf(secret); !errors.Is(err, pki.ErrSecret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pki.ReadCA(good); !errors.Is(err, pki.ErrSecret) {
		t.Errorf("a leaf as an authority: %v", err)
	}
}

// Whatever a Secret has, reading it returns an error or something that can be written.
func FuzzReadSecrets(f *testing.F) {
	a := authority(f)
	introduced, err := a.Introduce(pki.Defaults(), "demo", "", epoch)
	if err != nil {
		f.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := introduced.Write(secret); err != nil {
		f.Fatal(err)
	}
	f.Add(secret.Data["tls.crt"], secret.Data["tls.key"], secret.Data["ca.crt"], secret.Data["next.crt"], secret.Data["next.key"])
	f.Add(secret.Data["tls.crt"], []byte{}, secret.Data["ca.crt"], []byte{}, []byte{})
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("k"), []byte("c"), []byte("n"), []byte{0})
	f.Fuzz(func(t *testing.T, certificate, key, bundle, next, nextKey []byte) {
		s := &corev1.Secret{Data: map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": bundle, "next.crt": next, "next.key": nextKey}}
		if a, err := pki.ReadCA(s); err == nil {
			if err := a.Write(&corev1.Secret{}); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, pki.ErrSecret) {
			t.Fatal(err)
		}
		if l, err := pki.ReadLeaf(s); err == nil {
			if err := l.Write(&corev1.Secret{}); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, pki.ErrSecret) {
			t.Fatal(err)
		}
	})
}
