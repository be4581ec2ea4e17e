package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// form is what FORMAT.md says of secrets.
var form = regexp.MustCompile(`\A` + `tickmesh_[0-9a-f]{16}_[A-Za-z0-9_-]{43}` + `\z`)

// clock is a clock that tests move.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) Now() time.Time       { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) move(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func openFolder(t interface{ Fatal(...any) }, dir string) *Folder {
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ask(name string) Request {
	return Request{Name: name, Creator: Creator{User: "ann"}, Rights: Rights{"a": access.Write}, Lifetime: time.Hour}
}

// made is what the model remembers of a token.
type made struct {
	id, secret string
	ends       time.Time
	used       time.Time
	revoked    bool
	parent     *made
}

func (m *made) holds(now time.Time) bool {
	for ; m != nil; m = m.parent {
		if m.revoked || !now.Before(m.ends) {
			return false
		}
	}
	return true
}

// shows reports whether a secret is let in, as an authority asks.
func shows(r *Registry, text string) bool {
	id, ok := ParseID([]byte(text))
	if !ok {
		return false
	}
	v := r.Current()
	t := v.Find(id, secret.DigestOf(text))
	return t != nil && r.Holds(v, t.ID) == nil
}

// TestModel makes, shows, lists and revokes tokens, lets time pass and restarts, and compares
// with a list of what was made.
func TestModel(t *testing.T) {
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(root, fmt.Sprint(runs))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		c := newClock()
		open := func() *Registry { return New(Options{Store: openFolder(t, dir), Clock: c.Now}) }
		r := open()
		var all []*made
		pick := func(t *rapid.T) *made {
			if len(all) == 0 {
				t.Skip("there is none")
			}
			return rapid.SampledFrom(all).Draw(t, "token")
		}
		create := func(t *rapid.T, parent *made) {
			q := ask(rapid.StringMatching(`[a-z<&"]{1,8}`).Draw(t, "name"))
			q.Lifetime = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 40 * 24 * time.Hour}).Draw(t, "lifetime")
			depth := 0
			if parent != nil {
				q.Parent = parent.id
				for p := parent; p != nil; p = p.parent {
					depth++
				}
			}
			secret, got, err := r.Create(t.Context(), q)
			if parent != nil && parent.holds(c.Now()) {
				parent.used = c.Now().Truncate(time.Hour)
			}
			allowed := parent == nil || parent.holds(c.Now()) && !c.Now().Add(q.Lifetime).After(parent.ends) && depth <= lineageMax
			if (err == nil) != allowed {
				t.Fatalf("made: %v, want %v", err, allowed)
			}
			if err == nil {
				all = append(all, &made{id: got.ID, secret: secret, ends: got.Expires, parent: parent})
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create":      func(t *rapid.T) { create(t, nil) },
			"create with": func(t *rapid.T) { create(t, pick(t)) },
			"show": func(t *rapid.T) {
				m := pick(t)
				if got := shows(r, m.secret); got != m.holds(c.Now()) {
					t.Fatalf("%s is let in: %v", m.id, got)
				}
				if m.holds(c.Now()) {
					m.used = c.Now().Truncate(time.Hour)
				}
			},
			"forge": func(t *rapid.T) {
				m := pick(t)
				forged := []byte(m.secret)
				at := rapid.IntRange(0, len(forged)-1).Draw(t, "at")
				forged[at] = rapid.SampledFrom([]byte("abcdefXYZ019_-. ")).Filter(func(b byte) bool { return b != m.secret[at] }).Draw(t, "byte")
				if shows(r, string(forged)) {
					t.Fatalf("%s is let in", forged)
				}
			},
			"revoke": func(t *rapid.T) {
				m := pick(t)
				known := slices.ContainsFunc(r.List(), func(l Listed) bool { return l.ID == m.id })
				l, err := r.Revoke(t.Context(), m.id, "bob")
				if known != (err == nil) || !known && !errors.Is(err, ErrUnknown) || known && (l.Revoked.IsZero() || l.Refusal == "") {
					t.Fatalf("%+v %v", l, err)
				}
				m.revoked = true
			},
			"time": func(t *rapid.T) {
				c.move(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 20 * 24 * time.Hour}).Draw(t, "passes"))
			},
			"upkeep": func(t *rapid.T) { r.Upkeep(t.Context()) },
			"restart": func(t *rapid.T) {
				r.Upkeep(t.Context()) // as Run does at the end
				r = open()
			},
			"": func(t *rapid.T) { compare(t, r, all, c.Now()) },
		})
	})
}

// compare holds a list against what was made.
func compare(t *rapid.T, r *Registry, all []*made, now time.Time) {
	list := r.List()
	for _, l := range list {
		at := slices.IndexFunc(all, func(m *made) bool { return m.id == l.ID })
		if at < 0 {
			t.Fatalf("%s was not made", l.ID)
		}
		m := all[at]
		if (l.Refusal == "") != m.holds(now) || !l.Used.Equal(m.used) || m.revoked == l.Revoked.IsZero() {
			t.Fatalf("%+v, made %+v", l, *m)
		}
	}
	for _, m := range all {
		if m.holds(now) && !slices.ContainsFunc(list, func(l Listed) bool { return l.ID == m.id }) {
			t.Fatalf("%s is not listed", m.id)
		}
	}
}

func TestRequests(t *testing.T) {
	r := New(Options{Store: openFolder(t, t.TempDir())})
	for what, change := range map[string]func(*Request){
		"no name":         func(q *Request) { q.Name = "" },
		"two words":       func(q *Request) { q.Name = "a b" },
		"a line break":    func(q *Request) { q.Name = "a\n" },
		"a long name":     func(q *Request) { q.Name = strings.Repeat("x", nameBytesMax+1) },
		"no right":        func(q *Request) { q.Rights = Rights{} },
		"no such right":   func(q *Request) { q.Rights = Rights{"a": 9} },
		"no database":     func(q *Request) { q.Rights = Rights{"a/b": access.Read} },
		"no end":          func(q *Request) { q.Lifetime = 0 },
		"too short":       func(q *Request) { q.Lifetime = time.Second },
		"too long":        func(q *Request) { q.Lifetime = LifetimeMax + 1 },
		"an odd creator":  func(q *Request) { q.Creator.User = "a b" },
		"too many claims": func(q *Request) { q.Creator.Claims = make([]Claim, claimsMax+1) },
		"a long claim":    func(q *Request) { q.Creator.Claims = []Claim{{"a", strings.Repeat("x", claimBytesMax+1)}} },
		"many databases": func(q *Request) {
			for i := range rightsMax {
				q.Rights[fmt.Sprint("d", i)] = access.Read
			}
		},
	} {
		q := ask("a")
		change(&q)
		if _, _, err := r.Create(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	q := ask("a")
	q.Parent = "0123456789abcdef"
	if _, _, err := r.Create(t.Context(), q); !errors.Is(err, ErrEnded) {
		t.Errorf("made with nothing: %v", err)
	}
	for _, id := range []string{"", "x", "0123456789abcdef", "../../etc/passwd"} {
		if _, err := r.Revoke(t.Context(), id, "ann"); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if len(r.List()) > 0 {
		t.Errorf("%+v", r.List())
	}
}

// Nothing that is kept or told of a token has its secret, and the file is its owner's alone.
func TestNoSecretIsKept(t *testing.T) {
	dir := t.TempDir()
	r := New(Options{Store: openFolder(t, dir)})
	shown, made, err := r.Create(t.Context(), ask("telegraf"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, FolderFile))
	if err != nil {
		t.Fatal(err)
	}
	random := shown[len(secret.Prefix)+idDigits+1:]
	for what, told := range map[string]string{"file": string(text), "list": fmt.Sprintf("%+v", r.List()), "answer": fmt.Sprintf("%+v", made)} {
		if strings.Contains(told, random) || !strings.Contains(told, made.ID) {
			t.Errorf("%s: %s", what, told)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, FolderFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if len(shown) != secretDigits || len(random) != secret.RandomDigits || !strings.HasPrefix(shown, "tickmesh_"+made.ID+"_") {
		t.Errorf("%q", shown)
	}
}

// Ended tokens make room for new ones, those that hold do not, and after 30 days they go.
func TestTokensAreBounded(t *testing.T) {
	server := memstore.NewServer()
	store := server.Open(shardmap.Seen{})
	c := newClock()
	cluster := NewCluster(store)
	counted := &countedStore{Store: cluster}
	r := New(Options{Store: counted, Clock: c.Now})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for view := range store.Watch(ctx) {
			cluster.See(view)
		}
	})
	defer watching.Wait()
	defer cancel()
	var first string
	for n := range shardmap.TokensMax {
		q := ask(fmt.Sprint("t", n))
		if n > 0 {
			q.Lifetime = 24 * time.Hour
		}
		_, made, err := r.Create(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = made.ID
		}
	}
	if _, _, err := r.Create(t.Context(), ask("more")); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "revoke some") {
		t.Fatal(err)
	}
	c.move(2 * time.Hour)
	if _, _, err := r.Create(t.Context(), ask("more")); err != nil {
		t.Fatal(err)
	}
	if list := r.List(); len(list) != shardmap.TokensMax || slices.ContainsFunc(list, func(l Listed) bool { return l.ID == first }) {
		t.Errorf("%d, the first one is there: %v", len(list), list[0].ID == first)
	}
	c.move(24*time.Hour + endedKept + time.Second)
	for end := time.Now().Add(time.Minute); len(r.List()) > 0; { // the watch tells what is gone
		if time.Now().After(end) {
			t.Fatalf("%d are left", len(r.List()))
		}
		counted.changes, counted.swaps = 0, 0
		if r.Upkeep(t.Context()); counted.changes > 1 || counted.swaps > upkeepSwapsMax {
			t.Fatalf("%d swaps in %d changes", counted.swaps, counted.changes)
		}
	}
}

// countedStore counts changes.
type countedStore struct {
	Store
	changes, swaps int
}

func (s *countedStore) Swap(ctx context.Context, id, old, next string) error {
	s.changes, s.swaps = s.changes+1, s.swaps+1
	return s.Store.Swap(ctx, id, old, next)
}

func (s *countedStore) SwapAll(ctx context.Context, swaps []shardmap.TokenSwap) error {
	s.changes, s.swaps = s.changes+1, s.swaps+len(swaps)
	return s.Store.SwapAll(ctx, swaps)
}

// Uses of many tokens are written down by one change of the file, and none by a change whose
// context has ended.
func TestUpkeepIsOneChange(t *testing.T) {
	dir := t.TempDir()
	folder, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	counted, c := &countedStore{Store: folder}, newClock()
	r := New(Options{Store: counted, Clock: c.Now})
	for n := range upkeepSwapsMax {
		secret, _, err := r.Create(t.Context(), ask(fmt.Sprint("t", n)))
		if err != nil || !shows(r, secret) {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := maps.Clone(folder.Records())
	r.Upkeep(ended)
	if !maps.Equal(before, folder.Records()) {
		t.Error("a context that has ended changes the file")
	}
	counted.changes, counted.swaps = 0, 0
	if r.Upkeep(t.Context()); counted.changes != 1 || counted.swaps != upkeepSwapsMax {
		t.Errorf("%d swaps in %d changes", counted.swaps, counted.changes)
	}
	again, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for id, text := range again.Records() {
		if text == before[id] || !strings.Contains(text, "used_ms") {
			t.Errorf("%s is not written down: %s", id, text)
		}
	}
}

// router is one of several that have one store.
type router struct {
	*Registry
	store *memstore.Store
	seen  chan struct{} // after each view
}

func newRouter(t *testing.T, server *memstore.Server, c *clock, logger *slog.Logger) *router {
	t.Helper()
	r := &router{store: server.Open(shardmap.Seen{}), seen: make(chan struct{}, 1)}
	cluster := NewCluster(r.store)
	cluster.clock = c.Now
	r.Registry = New(Options{Store: cluster, Clock: c.Now, Logger: logger})
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for view := range r.store.Watch(ctx) {
			cluster.See(view)
			select {
			case r.seen <- struct{}{}:
			default:
			}
		}
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	return r
}

// await waits for views until a condition holds.
func (r *router) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	bound := time.After(time.Minute)
	for !holds() {
		select {
		case <-r.seen:
		case <-bound:
			t.Fatal("never: ", what)
		}
	}
}

// What one router makes or revokes, the others know, also where both change one record.
func TestRouters(t *testing.T) {
	server, c := memstore.NewServer(), newClock()
	one, two := newRouter(t, server, c, nil), newRouter(t, server, c, nil)
	secret, made, err := one.Create(t.Context(), ask("a"))
	if err != nil || !shows(one.Registry, secret) {
		t.Fatal(err)
	}
	two.await(t, "the token is known", func() bool { return shows(two.Registry, secret) })
	two.Upkeep(t.Context()) // writes the use down
	if _, err := one.Revoke(t.Context(), made.ID, "bob"); err != nil {
		t.Fatal(err)
	}
	if shows(one.Registry, secret) {
		t.Error("a revoked token is taken where it was revoked")
	}
	one.Upkeep(t.Context())
	two.Upkeep(t.Context())
	two.await(t, "the revocation is known", func() bool { return !shows(two.Registry, secret) })
	for _, r := range []*router{one, two} {
		if l := r.List(); len(l) != 1 || l[0].RevokedBy != "bob" || !l[0].Used.Equal(c.Now().Truncate(time.Hour)) {
			t.Errorf("%+v", l)
		}
	}
}

// While the store is away, what is known goes on for a day, nothing is changed, and then
// nothing is taken until the store is back.
func TestStoreAway(t *testing.T) {
	server, c := memstore.NewServer(), newClock()
	cut, other := newRouter(t, server, c, nil), newRouter(t, server, c, nil)
	q := ask("a")
	q.Lifetime = LifetimeMax
	secret, made, err := cut.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	cut.store.SetReachable(false)
	cut.await(t, "the store is away", func() bool { return cut.options.Store.AwaySince() != 0 })
	if _, _, err := cut.Create(t.Context(), q); !errors.Is(err, ErrUnavailable) {
		t.Errorf("made: %v", err)
	}
	if _, err := cut.Revoke(t.Context(), made.ID, "ann"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("revoked: %v", err)
	}
	other.await(t, "the token is known", func() bool { return shows(other.Registry, secret) })
	if _, err := other.Revoke(t.Context(), made.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	c.move(staleMax)
	if !shows(cut.Registry, secret) {
		t.Error("within a day")
	}
	c.move(time.Second)
	if l := cut.List(); shows(cut.Registry, secret) || len(l) != 1 || !strings.Contains(l[0].Refusal, "the placement store has not answered for more than 24 hours") {
		t.Errorf("after a day: %+v", l)
	}
	cut.store.SetReachable(true)
	// The store counts as back before what it holds has been read again.
	cut.await(t, "the token was revoked", func() bool {
		l := cut.List()
		return len(l) == 1 && strings.HasPrefix(l[0].Refusal, "it was revoked")
	})
	if cut.options.Store.AwaySince() != 0 || shows(cut.Registry, secret) {
		t.Errorf("back: away since %d, %+v", cut.options.Store.AwaySince(), cut.List())
	}
}

// A store that answers is away for as long as its tokens are not known: of those that were revoked meanwhile nobody would know.
func TestStoreIsBackWithItsTokens(t *testing.T) {
	c := NewCluster(memstore.NewServer().Open(shardmap.Seen{}))
	c.clock = newClock().Now
	for _, step := range []struct {
		view shardmap.View
		away bool
	}{
		{shardmap.View{Tokens: map[string]string{"a": "before"}}, false},
		{shardmap.View{Tokens: map[string]string{"a": "before"}, Err: shardmap.ErrUnavailable}, true},
		{shardmap.View{}, true},
		{shardmap.View{Tokens: map[string]string{"a": "revoked"}}, false},
	} {
		c.See(step.view)
		if away := c.AwaySince() != 0; away != step.away {
			t.Errorf("after %+v: away %v", step.view, away)
		}
	}
	if got := c.Records()["a"]; got != "revoked" {
		t.Errorf("the record is %q", got)
	}
}

// A record of a later version is no token, is told of once, stays, and can be revoked.
func TestRecordsOfLaterVersions(t *testing.T) {
	server, c := memstore.NewServer(), newClock()
	const id = "0123456789abcdef"
	var log strings.Builder // is read behind what writes it: views come one after the other
	r := newRouter(t, server, c, slog.New(slog.NewTextHandler(&log, nil)))
	if err := server.Open(shardmap.Seen{}).SwapToken(t.Context(), id, "", `{"format": 3, "wings": true}`); err != nil {
		t.Fatal(err)
	}
	r.await(t, "the record is seen", func() bool { return len(r.Current().unreadable) == 1 })
	r.Upkeep(t.Context())
	if len(r.List()) != 0 || strings.Count(log.String(), "its format is 3, this version reads 1") != 1 {
		t.Errorf("%+v %s", r.List(), log.String())
	}
	if _, err := r.Revoke(t.Context(), id, "ann"); err != nil || len(r.options.Store.Records()) != 0 {
		t.Errorf("%v %v", err, r.options.Store.Records())
	}
}

func TestFolderRefuses(t *testing.T) {
	good := &Token{ID: "0123456789abcdef", Name: "a", Creator: Creator{User: "ann"}, Rights: Rights{"a": access.Read}, Created: time.UnixMilli(1), Expires: time.UnixMilli(2)}
	record, err := good.encode()
	if err != nil {
		t.Fatal(err)
	}
	good.Creator.Credential = secret.DigestOf("0 x")
	bound, err := good.encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), FolderFile)
	for text, ok := range map[string]bool{
		`{"format":1,"tokens":{"0123456789abcdef":` + record + `}}`: true, `{"format":1,"tokens":{}}`: true,
		``: false, `{}`: false, `null`: false, `[]`: false, `{"format":2,"tokens":{}}`: false, `{"format":1,"tokens":{"x":` + record + `}}`: false,
		`{"format":1,"tokens":{"0123456789abcdef":` + bound + `}}`:                                                                  true,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(bound, `"format":2`, `"format":1`, 1) + `}}`:                  false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"format":1`, `"format":2`, 1) + `}}`:                 false,
		`{"format":1,"tokens":{"0123456789abcdef":{}}}`:                                                                             false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"format":1`, `"format":1,"more":1`, 1) + `}}`:        false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"digest":"0`, `"digest":"x`, 1) + `}}`:               false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"read"`, `"fly"`, 1) + `}}`:                          false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"expires_ms":2`, `"expires_ms":-2`, 1) + `}}`:        false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"name":"a"`, `"name":"a b"`, 1) + `}}`:               false,
		`{"format":1,"tokens":{"0123456789abcdef":` + strings.Replace(record, `"rights":`, `"lineage":["..."],"rights":`, 1) + `}}`: false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFolder(filepath.Dir(path)); (err == nil) != ok || !ok && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Whatever a record is, reading it ends with a token that is written as it was, or with an error.
func FuzzDecode(f *testing.F) {
	const id = "0123456789abcdef"
	full := &Token{
		ID: id, Name: "a<b", Creator: Creator{User: "oidc:corp/x", Issuer: "https://login.example.com", Claims: []Claim{{"groups", "ops"}}}, Lineage: []string{id},
		Rights: Rights{"": access.Write, access.Everything: access.Read, "wetter süd": 0}, Created: time.UnixMilli(1).UTC(), Expires: time.UnixMilli(2).UTC(),
		Used: time.UnixMilli(3).UTC(), Revoked: time.UnixMilli(4).UTC(), RevokedBy: "bob",
	}
	text, err := full.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(`{"format":1}`)
	full.Creator = Creator{User: "ann", Credential: secret.DigestOf("0 x")}
	if text, err = full.encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(strings.Replace(text, `"format":2`, `"format":1`, 1))
	f.Add(`{"format":3,"wings":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		one, err := decode(id, text)
		if err != nil {
			if one != nil || !errors.Is(err, ErrFormat) {
				t.Fatalf("%+v %v", one, err)
			}
			return
		}
		again, err := one.encode()
		if err != nil {
			t.Fatal(err)
		}
		two, err := decode(id, again)
		if err != nil || !maps.Equal(one.Rights, two.Rights) || fmt.Sprintf("%+v", *one) != fmt.Sprintf("%+v", *two) {
			t.Fatalf("%+v, again %+v, %v", one, two, err)
		}
	})
}

// What has the form of a secret is one exactly when its parts are.
func FuzzParseID(f *testing.F) {
	made, _ := newSecret()
	f.Add([]byte(made))
	f.Add([]byte("tickmesh_0123456789abcdef_"))
	f.Add([]byte(strings.Repeat("_", secretDigits)))
	f.Fuzz(func(t *testing.T, text []byte) {
		id, ok := ParseID(text)
		if ok != form.Match(text) || ok && (!isID(string(id)) || !strings.HasPrefix(string(text), secret.Prefix+string(id)+"_")) {
			t.Fatalf("%q: %q %v", text, id, ok)
		}
	})
}

func BenchmarkHolds(b *testing.B) {
	r := New(Options{Store: openFolder(b, b.TempDir())})
	secret, _, err := r.Create(b.Context(), ask("a"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !shows(r, secret) {
			b.Fatal("refused")
		}
	}
}

// TestCreators: whoever may be named in the auth file can make tokens, and they are read again.
func TestCreators(t *testing.T) {
	folder := t.TempDir()
	r := New(Options{Store: openFolder(t, folder), Clock: newClock().Now})
	for user, want := range map[string]bool{"ann": true, "jürgen": true, "oidc:corp/李": true, "": false, "two words": false, "line\n": false, "\xff": false} {
		q := ask("one")
		q.Creator.User = user
		_, made, err := r.Create(t.Context(), q)
		if (err == nil) != want {
			t.Errorf("%q: %v", user, err)
		} else if want {
			again, err := decode(made.ID, r.Current().tokens[made.ID].text)
			if err != nil || again.Creator.User != user {
				t.Errorf("%q is read as %+v: %v", user, again, err)
			}
		}
	}
}

// FuzzFile: a file of records is refused, or is written again with the same ones.
func FuzzFile(f *testing.F) {
	one := &Token{ID: "0123456789abcdef", Name: "a", Creator: Creator{User: "ann"}, Rights: Rights{"a": access.Read}, Created: time.UnixMilli(1), Expires: time.UnixMilli(2)}
	record, err := one.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"format":1,"tokens":{"0123456789abcdef":` + record + `}}`))
	for _, text := range []string{`{"format":1}`, `{"format":2,"tokens":{}}`, `{"format":1,"tokens":{"x":null}}`, `null`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		records, err := decodeFile(text)
		if err != nil {
			return
		}
		again, err := encodeFile(records)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := decodeFile(again); err != nil || !maps.Equal(read, records) {
			t.Fatalf("%v became %v: %v", records, read, err)
		}
	})
}
