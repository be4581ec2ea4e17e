package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/oidc/oidctest"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/token"
)

// newMaker returns a world in which tokens can be made, and its clock.
func newMaker(t testing.TB, text string) (w *world, pass func(time.Duration)) {
	t.Helper()
	folder, err := token.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	w = newWorld(t, text)
	compare := w.gate.compare
	w.Authenticator = New(Options{Current: w.rules.Load, Tokens: token.New(token.Options{Store: folder, Clock: func() time.Time { return now }})})
	w.gate.compare = compare
	return w, func(d time.Duration) { now = now.Add(d) }
}

func (w *world) as(t testing.TB, header string) context.Context {
	t.Helper()
	p, err := w.Authenticate(t.Context(), access.Credentials{Authorization: []byte(header)})
	if err != nil {
		t.Fatal(err)
	}
	return access.With(t.Context(), p)
}

func (w *world) make(t testing.TB, by string, rights token.Rights, lifetime time.Duration) (shown string, made token.Token) {
	t.Helper()
	shown, made, err := w.CreateToken(w.as(t, by), "it", rights, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return shown, made
}

const owners = `
users:
  - {name: root, tokens: [%s], rights: {"*": admin, payroll: read}}
  - {name: ann, tokens: [%s], rights: {a: write}}
`

func ownersFile() string {
	return fmt.Sprintf(owners, secret.DigestOf("root").String(), secret.DigestOf("ann").String())
}

// A token that was made is shown in every way in which one of the file is.
func TestMadeTokensAreShown(t *testing.T) {
	w, _ := newMaker(t, ownersFile())
	shown, made := w.make(t, "Bearer root", token.Rights{"": access.Write, "b": access.Read}, time.Hour)
	for what, given := range map[string]access.Credentials{
		"bearer": {Authorization: []byte("Bearer " + shown)}, "InfluxDB's": {Authorization: []byte("Token " + shown)}, "a command's": {Token: shown},
	} {
		p, err := w.Authenticate(t.Context(), given)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		kind, id := access.ProofOf(p)
		if p.Name() != "token:root/it" || kind != "token" || id != made.ID {
			t.Errorf("%s: %s %s %s", what, p.Name(), kind, id)
		}
		if !p.May("", access.Write) || p.May("", access.Admin) || !p.May("b", access.Read) || p.May("b", access.Write) || p.May("c", access.Read) || p.May(access.Everything, access.Read) {
			t.Errorf("%s: rights", what)
		}
	}
	for what, given := range map[string]access.Credentials{
		"a password": {User: "root", Password: shown}, "of Basic": {Authorization: []byte("Basic " + base64.StdEncoding.EncodeToString([]byte("root:"+shown)))},
		"its id": {Token: made.ID}, "its digest": {Token: fmt.Sprintf("%x", made.Digest)}, "with more": {Token: shown + "A"}, "with less": {Token: shown[:len(shown)-1]},
		"in capitals": {Token: strings.ToUpper(shown)},
	} {
		if _, err := w.Authenticate(t.Context(), given); !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What a token may do follows its creator's rights, and ends with the token, the creator, and the
// tokens that it was made with, for those who are in, too.
func TestMadeTokensEnd(t *testing.T) {
	w, pass := newMaker(t, ownersFile())
	everything := token.Rights{access.Everything: access.Admin, "payroll": access.Read}
	shown, made := w.make(t, "Bearer root", everything, 2*time.Hour)
	young, child := w.make(t, "Bearer "+shown, everything, time.Hour)
	in := access.Of(w.as(t, "Bearer "+shown))
	inYoung := access.Of(w.as(t, "Bearer "+young))
	refused := func(what, shown, says string) {
		t.Helper()
		_, err := w.header(t, "Bearer "+shown)
		e := (*audit.SignInError)(nil)
		if !errors.Is(err, access.ErrUnauthenticated) || !strings.Contains(err.Error(), says) || !errors.As(err, &e) || e.By != "token" || e.Credential != shown[9:25] || e.User != "token:root/it" {
			t.Errorf("%s: %v, %+v", what, err, e)
		}
	}
	if !in.May("x", access.Admin) || !inYoung.May("payroll", access.Read) || in.May("payroll", access.Write) || child.Parent() != made.ID {
		t.Errorf("%+v", child)
	}
	w.rules.Store(rulesOf(t, fmt.Sprintf(`users: [{name: root, tokens: [%s], rights: {"*": read, payroll: admin}}]`, secret.DigestOf("root").String())))
	if in.May("x", access.Write) || !in.May("x", access.Read) || in.May("payroll", access.Write) || inYoung.May("x", access.Write) {
		t.Error("a token has rights that its creator has not any more, or more than it was made with")
	}
	w.rules.Store(rulesOf(t, fmt.Sprintf("users: [{name: ann, tokens: [%s], rights: {a: write}}]", secret.DigestOf("ann").String())))
	if in.May("x", access.Read) || in.May("x", 0) {
		t.Error("a token has rights without its creator")
	}
	refused("without creator", shown, "root, who made it, has no rights any more")
	if list := w.ListTokens(); len(list) != 2 || !strings.Contains(list[0].Refusal, "root, who made it") {
		t.Errorf("%+v", list)
	}
	w.rules.Store(rulesOf(t, ownersFile()))
	if _, err := w.RevokeToken(w.as(t, "Bearer root"), made.ID); err != nil {
		t.Fatal(err)
	}
	if in.May("x", access.Read) || inYoung.May("x", access.Read) {
		t.Error("who is in by a revoked token goes on")
	}
	refused("revoked", shown, "it was revoked on 2026-03-01T10:00:00Z")
	refused("its child", young, "it was made with the token "+made.ID+": it was revoked")
	shown, _ = w.make(t, "Bearer root", token.Rights{"a": access.Read}, time.Hour)
	in = access.Of(w.as(t, "Bearer "+shown))
	pass(time.Hour)
	if in.May("a", access.Read) {
		t.Error("who is in by an expired token goes on")
	}
	refused("expired", shown, "it expired on 2026-03-01T11:00:00Z")
}

// Whatever is asked for, a token has on no database more than who makes it.
func TestMadeTokensHaveNoMoreRights(t *testing.T) {
	w, _ := newMaker(t, ownersFile())
	databases := []string{"", "a", "b", "payroll", access.Everything}
	draw := func(t *rapid.T, what string) map[string]access.Right {
		return rapid.MapOfN(rapid.SampledFrom(databases), rapid.Custom(func(t *rapid.T) access.Right { return access.Right(rapid.IntRange(0, 3).Draw(t, "right")) }), 1, 4).Draw(t, what)
	}
	text := func(rights map[string]access.Right) string {
		var words []string
		for database, right := range rights {
			words = append(words, fmt.Sprintf("%q: %s", access.Display(database), right))
		}
		return strings.Join(words, ", ")
	}
	rapid.Check(t, func(t *rapid.T) {
		before, after, wanted := draw(t, "creator's rights"), draw(t, "and later"), draw(t, "token's rights")
		user := func(rights map[string]access.Right) *Rules {
			r, err := Parse("auth.yaml", fmt.Appendf(nil, "users: [{name: maker, tokens: [%s], rights: {%s}}]", secret.DigestOf("maker").String(), text(rights)))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		on := func(rights map[string]access.Right, database string) access.Right {
			if own, ok := rights[database]; ok {
				return own
			}
			return rights[access.Everything]
		}
		w.rules.Store(user(before))
		maker, err := w.Authenticate(context.Background(), access.Credentials{Token: "maker"})
		if err != nil {
			t.Fatal(err)
		}
		allowed := true
		for _, database := range append(databases, "other") {
			allowed = allowed && on(wanted, database) <= on(before, database)
		}
		shown, made, err := w.CreateToken(access.With(context.Background(), maker), "it", wanted, time.Hour)
		denied := (*access.DeniedError)(nil)
		if allowed != (err == nil) || !allowed && !errors.As(err, &denied) {
			t.Fatalf("%v of %v: %v", wanted, before, err)
		}
		if err != nil {
			return
		}
		w.rules.Store(user(after))
		p, err := w.Authenticate(context.Background(), access.Credentials{Token: shown})
		if err != nil {
			t.Fatal(err)
		}
		for _, database := range append(databases, "other") {
			for right := access.Read; right <= access.Admin; right++ {
				if want := right <= min(on(wanted, database), on(after, database)); p.May(database, right) != want {
					t.Fatalf("%v on %q: %v, token %v, creator %v", right, database, !want, wanted, after)
				}
			}
		}
		if _, err := w.RevokeToken(context.Background(), made.ID); err != nil { // there is room for the next
			t.Fatal(err)
		}
	})
}

// TestMadeTokensAreOfTheirCreator: a token ends with the credential that it was made by, and no other
// user of the creator's name revives it; its children likewise. Tokens of older versions, which
// have noted no credential, hold with the name.
func TestMadeTokensAreOfTheirCreator(t *testing.T) {
	file := func(credentials string) *Rules {
		return rulesOf(t, fmt.Sprintf(`users: [{name: root, %s, rights: {"*": admin}}]`, credentials))
	}
	tokens := func(of ...string) string {
		var list []string
		for _, one := range of {
			list = append(list, secret.DigestOf(one).String())
		}
		return "tokens: [" + strings.Join(list, ",") + "]"
	}
	password := fmt.Sprintf("password-hash: %q", cheap(t, "r"))
	w, _ := newMaker(t, ownersFile())
	w.rules.Store(file(tokens("root", "spare") + "," + password))
	rights := token.Rights{"a": access.Read}
	byToken, _ := w.make(t, "Bearer root", rights, 2*time.Hour)
	child, _ := w.make(t, "Bearer "+byToken, rights, time.Hour)
	byPassword, _ := w.make(t, basic("root", "r"), rights, time.Hour)
	_, old, err := w.options.Tokens.Create(t.Context(), token.Request{Name: "old", Creator: token.Creator{User: "root"}, Rights: rights, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	in := access.Of(w.as(t, "Bearer "+child))
	for _, step := range []struct {
		what                string
		rules               *Rules
		byToken, byPassword bool
	}{
		{"at first", w.rules.Load(), true, true},
		{"another password", file(tokens("root") + "," + fmt.Sprintf("password-hash: %q", cheap(t, "next"))), true, false},
		{"a namesake", file(tokens("other")), false, false},
		{"the creator again, with a token more", file(tokens("other", "root") + "," + password), true, true},
		{"without the token", file(tokens("spare") + "," + password), false, true},
	} {
		w.rules.Store(step.rules)
		for shown, holds := range map[string]bool{byToken: step.byToken, child: step.byToken, byPassword: step.byPassword} {
			_, err := w.header(t, "Bearer "+shown)
			if (err == nil) != holds || err != nil && !strings.Contains(err.Error(), "that it was made by") {
				t.Errorf("%s: %v, want it to hold: %v", step.what, err, holds)
			}
		}
		if in.May("a", access.Read) != step.byToken {
			t.Errorf("%s: who is in may read: %v", step.what, !step.byToken)
		}
		for _, l := range w.ListTokens() {
			if l.ID == old.ID && l.Refusal != "" {
				t.Errorf("%s: a token of an older version: %s", step.what, l.Refusal)
			}
		}
	}
}

// Who has shown nothing, or is let in without a proof, makes no token.
func TestTokensAreMadeByUsers(t *testing.T) {
	w, _ := newMaker(t, ownersFile())
	named, err := w.Named("root")
	if err != nil {
		t.Fatal(err)
	}
	gone := w.as(t, "Bearer root")
	w.rules.Store(rulesOf(t, fmt.Sprintf("users: [{name: ann, tokens: [%s]}]", secret.DigestOf("ann").String())))
	for what, ctx := range map[string]context.Context{
		"nobody": t.Context(), "anyone": access.With(t.Context(), access.Anyone()), "named": access.With(t.Context(), named), "gone": gone,
	} {
		if shown, _, err := w.CreateToken(ctx, "it", token.Rights{"a": access.Read}, time.Hour); shown != "" || !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Forged tokens count against their address as wrong passwords do, those of others do not, and
// the audit log has the id.
func TestForgedTokens(t *testing.T) {
	w, _ := newMaker(t, people(t))
	w.rules.Store(rulesOf(t, people(t)))
	shown, made := w.make(t, basic("root", "r"), token.Rights{"a": access.Read}, time.Hour)
	forged := []byte(shown)
	copy(forged[len(forged)-4:], "AAAA")
	other := bytes.Replace([]byte(shown), []byte(made.ID), []byte("0123456789abcdef"), 1)
	for i, text := range [][]byte{forged, other} {
		from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(10+i)), Port: 1}
		_, err := w.Authenticate(t.Context(), access.Credentials{Token: string(text), From: from})
		e := (*audit.SignInError)(nil)
		if !errors.Is(err, access.ErrUnauthenticated) || err.Error() != access.ErrUnauthenticated.Error() || !errors.As(err, &e) || e.Credential != string(text[9:25]) || (e.User == "token:root/it") != (i == 0) {
			t.Errorf("%s: %v, %+v", text, err, e)
		}
		if w.gate.book.class(networkOf(from)) != failed {
			t.Errorf("%s: the address has not failed", text)
		}
	}
	if _, err := w.header(t, "Bearer "+shown); err != nil {
		t.Error(err)
	}
	if w.gate.book.class("192.0.2.1") != unknown {
		t.Error("the address of a right token counts as failed")
	}
}

// Tokens that users of an issuer make live on behind the issuer's own, with what the file's rules
// give for the claims that counted, and no longer than 90 days.
func TestTokensOfIssuersUsers(t *testing.T) {
	key := oidctest.NewKey(t, "ES256", "k")
	remote := oidctest.New(t, key)
	w, _ := newMaker(t, issuerText(remote.URL, "tickmesh", ""))
	w.follow(t)
	ops := "Bearer " + key.Sign(t, remote.Claims("tickmesh", time.Now(), map[string]any{"sub": "x", "groups": []string{"ops", "other"}}), nil)
	if _, _, err := w.CreateToken(w.as(t, ops), "it", token.Rights{"a": access.Read}, issuedLifetimeMax+time.Hour); !errors.Is(err, token.ErrInvalid) {
		t.Error(err)
	}
	denied := (*access.DeniedError)(nil)
	if _, _, err := w.CreateToken(w.as(t, ops), "it", token.Rights{"*": access.Read}, time.Hour); !errors.As(err, &denied) || denied.Database != "payroll" {
		t.Error(err)
	}
	shown, made := w.make(t, ops, token.Rights{"a": access.Write, "payroll": 0}, issuedLifetimeMax)
	if made.Creator.Issuer != remote.URL || len(made.Creator.Claims) != 1 || made.Creator.Claims[0] != (token.Claim{Name: "groups", Value: "ops"}) {
		t.Errorf("%+v", made)
	}
	p := access.Of(w.as(t, "Bearer "+shown))
	if p.Name() != "token:oidc:corp/x/it" || !p.May("a", access.Write) || p.May("a", access.Admin) || p.May("payroll", access.Read) {
		t.Error(p.Name())
	}
	w.rules.Store(rulesOf(t, strings.Replace(issuerText(remote.URL, "tickmesh", ""), `{"*": admin, payroll: none}`, "{a: read}", 1)))
	if !p.May("a", access.Read) || p.May("a", access.Write) {
		t.Error("the rules of the day do not count")
	}
	w.rules.Store(rulesOf(t, strings.Replace(issuerText(remote.URL, "tickmesh", ""), "value: ops", "value: dev", 1)))
	if p.May("a", access.Read) {
		t.Error("a claim that no rule knows any more counts")
	}
}
