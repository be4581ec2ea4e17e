package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/oidc/oidctest"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/secret"
)

// issuerText is a file of one issuer, whose name and audience are given.
func issuerText(url, audience, more string) string {
	return fmt.Sprintf(`
users:
  - {name: bob, tokens: [%s], rights: {a: read}}
oidc:
  - name: corp
    issuer: %s
    audiences: [%s]
    rights:
      - {claim: groups, value: ops, databases: {"*": admin, payroll: none}}
      - {claim: groups, value: payroll, databases: {payroll: read}}
      - {claim: sub, value: telegraf, databases: {default: write, a: read}}
%s`, secret.DigestOf(tokenOfBob).String(), url, audience, more)
}

// follow has the authority's issuers followed until the test ends.
func (w *world) follow(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// The claims of a token say what its user may do, by the rules of the day.
func TestIssuerRights(t *testing.T) {
	k := oidctest.NewKey(t, "ES256", "k")
	remote := oidctest.New(t, k)
	w := newWorld(t, issuerText(remote.URL, "tickmesh", ""))
	w.follow(t)
	sign := func(more map[string]any) string {
		return "Bearer " + k.Sign(t, remote.Claims("tickmesh", time.Now(), more), nil)
	}
	enter := func(more map[string]any) access.Principal {
		t.Helper()
		p, err := w.header(t, sign(more))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rights := func(p access.Principal, database string) (highest access.Right) {
		for r := access.Read; r <= access.Admin && p.May(database, r); r++ {
			highest = r
		}
		return highest
	}
	ops := enter(map[string]any{"groups": []string{"x", "ops"}})
	if ops.Name() != "oidc:corp/ann" || rights(ops, access.Everything) != access.Admin || rights(ops, "payroll") != 0 {
		t.Errorf("%s: %v, %v", ops.Name(), rights(ops, access.Everything), rights(ops, "payroll"))
	}
	both := enter(map[string]any{"groups": []string{"payroll", "ops"}})
	if rights(both, "payroll") != access.Read || rights(both, "b") != access.Admin {
		t.Error("the highest right of all rules that fit")
	}
	agent := enter(map[string]any{"sub": "telegraf", "groups": "none"})
	if rights(agent, "") != access.Write || rights(agent, "a") != access.Read || rights(agent, "b") != 0 || rights(agent, access.Everything) != 0 {
		t.Error("a program")
	}
	if only, ok := access.Only(enter(map[string]any{"groups": "payroll"})); only != "payroll" || !ok {
		t.Errorf("%q, %v", only, ok)
	}
	for what, more := range map[string]map[string]any{
		"no rule":             {"groups": []string{"dev"}},
		"part of a value":     {"groups": "opsx"},
		"a value in a list":   {"groups": []any{[]string{"ops"}}},
		"a claim of a number": {"groups": 1},
		"no name":             {"groups": "ops", "sub": nil},
		"an empty name":       {"groups": "ops", "sub": ""},
		"two names":           {"groups": "ops", "sub": []string{"a", "b"}},
		"a name of two lines": {"groups": "ops", "sub": "a\nb"},
		"a name with a space": {"groups": "ops", "sub": "a b"},
		"a long name":         {"groups": "ops", "sub": strings.Repeat("x", 300)},
		"expired":             {"groups": "ops", "exp": time.Now().Add(-time.Hour).Unix()},
		"another audience":    {"groups": "ops", "aud": "other"},
		"another issuer":      {"groups": "ops", "iss": "https://other.example"},
	} {
		if p, err := w.header(t, sign(more)); p != nil || !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", what, p, err)
		}
	}
	if p, err := w.Named("oidc:corp/ann"); err == nil {
		t.Errorf("a user of an issuer by name alone: %v", p)
	}
	if p, err := w.header(t, "Bearer "+tokenOfBob); err != nil || p.Name() != "bob" {
		t.Errorf("a token of the file: %v", err)
	}
	if p, err := w.Authenticate(t.Context(), access.Credentials{Token: strings.TrimPrefix(sign(map[string]any{"groups": "ops"}), "Bearer ")}); err != nil || p.Name() != ops.Name() {
		t.Errorf("by the command auth: %v", err)
	}

	w.rules.Store(rulesOf(t, strings.Replace(issuerText(remote.URL, "tickmesh", ""), `"*": admin`, `"*": read`, 1)))
	if rights(ops, "b") != access.Read || rights(agent, "") != access.Write {
		t.Error("changed rights count at once")
	}
	w.rules.Store(rulesOf(t, issuerText(remote.URL, "other", "")))
	if rights(ops, "b") != 0 || rights(agent, "") != 0 {
		t.Error("another audience")
	}
	w.rules.Store(rulesOf(t, people(t)))
	if _, err := w.header(t, sign(map[string]any{"groups": "ops"})); rights(ops, "b") != 0 || !errors.Is(err, access.ErrUnauthenticated) {
		t.Error("the issuer is gone")
	}
	if n := remote.Asked(); n != 1 {
		t.Errorf("%d fetches of keys", n)
	}
}

// A token that is known is refused once it has expired, its key is withdrawn, or the file changed.
func TestIssuerTokensExpire(t *testing.T) {
	k := oidctest.NewKey(t, "ES256", "k")
	remote := oidctest.New(t, k)
	var late time.Duration
	w := newWorld(t, issuerText(remote.URL, "tickmesh", ""))
	w.options.Clock = func() time.Time { return time.Now().Add(late) }
	issuer := w.issuersNow()[remote.URL]
	token := "Bearer " + k.Sign(t, remote.Claims("tickmesh", time.Now(), map[string]any{"groups": "ops"}), nil)
	func() { // the clock is the test's own once nothing else runs
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); issuer.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		if _, err := w.header(t, token); err != nil {
			t.Fatal(err)
		}
	}()
	p, err := w.header(t, token)
	if err != nil || !p.May("a", access.Admin) {
		t.Fatal(err)
	}
	late = time.Hour + 2*time.Minute
	if p.May("a", access.Read) {
		t.Error("an expired token's user may read")
	}
	if _, err := w.header(t, token); !errors.Is(err, access.ErrUnauthenticated) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("%v", err)
	}
}

// A request with a token that was verified costs no allocation.
func TestKnownIssuerTokenCostsNoAllocation(t *testing.T) {
	c, w := knownIssuerToken(t)
	if n := testing.AllocsPerRun(100, func() {
		if p, err := w.Authenticate(t.Context(), c); err != nil || !p.May("a", access.Write) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func knownIssuerToken(t testing.TB) (access.Credentials, *world) {
	t.Helper()
	k := oidctest.NewKey(t, "RS256", "k")
	remote := oidctest.New(t, k)
	w := newWorld(t, issuerText(remote.URL, "tickmesh", ""))
	w.follow(t)
	c := access.Credentials{Authorization: []byte("Bearer " + k.Sign(t, remote.Claims("tickmesh", time.Now(), map[string]any{"groups": "ops"}), nil))}
	if _, err := w.Authenticate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c, w
}

// BenchmarkIssuerToken is what a token of an issuer adds to each request.
func BenchmarkIssuerToken(b *testing.B) {
	c, w := knownIssuerToken(b)
	b.ReportAllocs()
	for b.Loop() {
		if p, err := w.Authenticate(b.Context(), c); err != nil || !p.May("a", access.Write) {
			b.Fatal(err)
		}
	}
}

func TestParseIssuers(t *testing.T) {
	const good = "name: n, issuer: 'https://i', audiences: [a], rights: [{claim: c, value: v, databases: {'*': read}}]"
	if _, err := Parse("f", []byte("oidc: [{"+good+"}]")); err != nil {
		t.Errorf("without users: %v", err)
	}
	for text, reason := range map[string]string{
		"oidc: []":                               "add a list `users:` or `oidc:`",
		"oidc: [{" + good + "}, {" + good + "}]": "is there already",
		"oidc: [{" + good + "}, {" + strings.Replace(good, "//i", "//j", 1) + "}]": `the name "n" is there already`,
		"oidc: [{" + strings.Replace(good, "https", "http", 1) + "}]":              "expected https",
		"oidc: [{" + strings.Replace(good, "name: n", "name: a/b", 1) + "}]":       "cannot have /",
		"oidc: [{" + strings.Replace(good, "name: n, ", "", 1) + "}]":              "has the lines",
		"oidc: [{" + strings.Replace(good, "[a]", "[]", 1) + "}]":                  "has the lines",
		"oidc: [{" + strings.Replace(good, "[a]", "['']", 1) + "}]":                "audience is empty",
		"oidc: [{" + strings.Replace(good, "value: v, ", "", 1) + "}]":             "a rule has the lines",
		"oidc: [{" + strings.Replace(good, "read", "all", 1) + "}]":                "expected one of",
		"oidc: [{" + good + ", secret: x}]":                                        "there is no such key",
	} {
		if _, err := Parse("f", []byte(text)); !errors.Is(err, rulefile.ErrFile) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", text, err, reason)
		}
	}
}
