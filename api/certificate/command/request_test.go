package command

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
)

// A pod's key is made once and read by nobody else; what is signed for it is waited for, and what is
// signed for another key, or by another authority, is not taken for it.
func TestRequestAndAwait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, out := filepath.Join(dir, "tls.key"), filepath.Join(dir, "request")
	ask := func(name string) *certificate.Request {
		t.Helper()
		cmd := New()
		cmd.SetArgs([]string{"request", "--cluster", "demo", "--key", key, "--out", out, name})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		r, err := certificate.DecodeRequest(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := ask("node/demo-node-0")
	if want := (certificate.Name{Cluster: "demo", Role: certificate.RoleNode, ID: "demo-node-0"}); first.Name != want {
		t.Error(first.Name)
	}
	if again := ask("node/demo-node-0"); !again.PublicKey.Equal(first.PublicKey) {
		t.Error("a container that is started again has made another key")
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}

	now := time.Now()
	authority, other := newAuthority(t, now), newAuthority(t, now)
	a := awaited{cert: filepath.Join(dir, "tls.crt"), key: key, ca: filepath.Join(dir, "ca.crt")}
	put := func(file string, text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sign := func(by *certificate.Pair, r *certificate.Request) []byte {
		t.Helper()
		c, err := by.Certify(certificate.Identity{Name: r.Name}, r.PublicKey, time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		return certificate.EncodeCertificates(c)
	}
	foreign, err := authority.Issue(certificate.Identity{Name: first.Name}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	put(a.ca, certificate.EncodeCertificates(authority.Certificate))
	for name, text := range map[string][]byte{
		"nothing": nil, "for another key": certificate.EncodeCertificates(foreign.Certificate), "by another authority": sign(other, first),
	} {
		put(a.cert, text)
		if a.usable(now) == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	if err := a.wait(ended, logger); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.wait(t.Context(), logger) }()
	put(a.cert, sign(authority, first))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(a.cert, a.key); err != nil {
		t.Error(err)
	}
	if a.usable(now.Add(2*time.Hour)) == nil {
		t.Error("one that has ended is taken")
	}
}

func newAuthority(t *testing.T, now time.Time) *certificate.Pair {
	t.Helper()
	a, err := certificate.NewCA("demo", "demo authority", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
