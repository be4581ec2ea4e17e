package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/secret"
)

// cheap returns a hash of a password that costs little.
func cheap(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func rulesOf(t testing.TB, text string) *Rules {
	t.Helper()
	r, err := Parse("auth.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// world is an authority whose rules a test changes.
type world struct {
	*Authenticator
	rules atomic.Pointer[Rules]
}

func newWorld(t testing.TB, text string) *world {
	t.Helper()
	w := &world{}
	w.rules.Store(rulesOf(t, text))
	w.Authenticator = New(Options{Current: w.rules.Load})
	w.gate.compare = func(hash, password []byte) error {
		if strings.Contains(string(hash), passwordDummySalt) {
			return bcrypt.ErrMismatchedHashAndPassword // costs nothing
		}
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	return w
}

func (w *world) header(t testing.TB, header string) (access.Principal, error) {
	t.Helper()
	return w.Authenticate(t.Context(), access.Credentials{Authorization: []byte(header), From: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}})
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

const tokenOfBob = "tickmesh_of-bob"

func people(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf(`
users:
  - name: ann
    password-hash: %q
    rights: {"*": read, metrics: write, secret: none}
  - name: bob
    tokens: [%s]
    tls-names: [bob.example.org, "spiffe://mesh/bob"]
    rights: {default: write}
  - name: root
    password-hash: %q
    tls-names: [root]
    rights: {"*": admin}
`, cheap(t, "ann's: word"), secret.DigestOf(tokenOfBob).String(), cheap(t, "r"))
}

func TestAuthenticate(t *testing.T) {
	w := newWorld(t, people(t))
	spiffe, err := url.Parse("spiffe://mesh/bob")
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(common string, dns ...string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: dns}
	}
	for what, c := range map[string]struct {
		given access.Credentials
		want  string // empty: refused
	}{
		"basic":                   {access.Credentials{Authorization: []byte(basic("ann", "ann's: word"))}, "ann"},
		"basic with spaces":       {access.Credentials{Authorization: []byte("  BASIC   " + basic("root", "r")[6:] + " ")}, "root"},
		"base64 with a break":     {access.Credentials{Authorization: []byte(basic("root", "r")[:8] + "\n" + basic("root", "r")[8:])}, ""},
		"basic in small letters":  {access.Credentials{Authorization: []byte("bAsIc " + basic("root", "r")[6:])}, "root"},
		"wrong password":          {access.Credentials{Authorization: []byte(basic("ann", "wrong"))}, ""},
		"empty password":          {access.Credentials{Authorization: []byte(basic("ann", ""))}, ""},
		"somebody else's":         {access.Credentials{Authorization: []byte(basic("root", "ann's: word"))}, ""},
		"no password of his own":  {access.Credentials{Authorization: []byte(basic("bob", ""))}, ""},
		"nobody":                  {access.Credentials{Authorization: []byte(basic("eve", "x"))}, ""},
		"bearer":                  {access.Credentials{Authorization: []byte("Bearer " + tokenOfBob)}, "bob"},
		"bearer with two spaces":  {access.Credentials{Authorization: []byte("Bearer  " + tokenOfBob)}, "bob"},
		"InfluxDB's token":        {access.Credentials{Authorization: []byte("Token " + tokenOfBob)}, "bob"},
		"InfluxDB 1's token":      {access.Credentials{Authorization: []byte("Token root:r")}, "root"},
		"a wrong one":             {access.Credentials{Authorization: []byte("Token root:x")}, ""},
		"bearer is no password":   {access.Credentials{Authorization: []byte("Bearer root:r")}, ""},
		"the digest is no token":  {access.Credentials{Authorization: []byte("Bearer " + secret.DigestOf(tokenOfBob).String())}, ""},
		"a token as a password":   {access.Credentials{Authorization: []byte(basic("bob", tokenOfBob))}, ""},
		"strange scheme":          {access.Credentials{Authorization: []byte("Digest username=ann")}, ""},
		"no base64":               {access.Credentials{Authorization: []byte("Basic !!!")}, ""},
		"only a scheme":           {access.Credentials{Authorization: []byte("Basic")}, ""},
		"a long header":           {access.Credentials{Authorization: []byte("Bearer " + strings.Repeat("x", 20_000))}, ""},
		"a long password":         {access.Credentials{User: "ann", Password: strings.Repeat("x", 73)}, ""},
		"a long name":             {access.Credentials{User: strings.Repeat("x", 200), Password: "x"}, ""},
		"parameters":              {access.Credentials{User: "root", Password: "r"}, "root"},
		"parameters come first":   {access.Credentials{User: "root", Password: "x", Authorization: []byte(basic("root", "r"))}, ""},
		"a command's token":       {access.Credentials{Token: tokenOfBob}, "bob"},
		"a command's wrong token": {access.Credentials{Token: "x"}, ""},
		"common name":             {access.Credentials{Certificate: certificate("root")}, "root"},
		"alternative name":        {access.Credentials{Certificate: certificate("x", "y", "bob.example.org")}, "bob"},
		"URI":                     {access.Credentials{Certificate: &x509.Certificate{URIs: []*url.URL{spiffe}}}, "bob"},
		"two users' names":        {access.Credentials{Certificate: certificate("root", "bob.example.org")}, ""},
		"nobody's certificate":    {access.Credentials{Certificate: certificate("ann")}, ""},
		"header before cert":      {access.Credentials{Authorization: []byte("Bearer x"), Certificate: certificate("root")}, ""},
		"nothing":                 {access.Credentials{}, ""},
	} {
		for range 2 { // the second time from memory
			p, err := w.Authenticate(t.Context(), c.given)
			switch {
			case c.want == "" && (p != nil || !errors.Is(err, access.ErrUnauthenticated)):
				t.Errorf("%s: %v, %v", what, p, err)
			case c.want != "" && (err != nil || p.Name() != c.want):
				t.Errorf("%s: %v, %v", what, p, err)
			}
		}
	}
	if _, err := w.Authenticate(t.Context(), access.Credentials{}); !errors.Is(err, access.ErrMissing) {
		t.Errorf("nothing: %v", err)
	}
	if p, err := w.Named("bob"); err != nil || p.Name() != "bob" || !p.May("", access.Write) {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := w.Named("eve"); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("%v", err)
	}
}

func TestRights(t *testing.T) {
	w := newWorld(t, people(t))
	for _, c := range []struct {
		user, database string
		most           access.Right // 0: none
	}{
		{"ann", "metrics", access.Write}, {"ann", "", access.Read}, {"ann", "other", access.Read}, {"ann", "secret", 0}, {"ann", access.Everything, access.Read},
		{"bob", "", access.Write}, {"bob", "metrics", 0}, {"bob", access.Everything, 0}, {"root", "x", access.Admin}, {"root", access.Everything, access.Admin},
		{"bob", "default", 0}, // inside, no database is called so
	} {
		p, err := w.Named(c.user)
		if err != nil {
			t.Fatal(err)
		}
		for right := access.Read; right <= access.Admin; right++ {
			if p.May(c.database, right) != (right <= c.most) {
				t.Errorf("%s, %q, %v: not so", c.user, c.database, right)
			}
		}
	}
}

// Whoever came in by what the file does not have any more may do nothing.
func TestTakenBack(t *testing.T) {
	one := cheap(t, "one")
	file := func(hash, token, name string) string {
		return fmt.Sprintf("users:\n  - {name: ann, password-hash: %q, tokens: [%s], tls-names: [%s], rights: {\"*\": write}}\n", hash, secret.DigestOf(token).String(), name)
	}
	w := newWorld(t, file(one, "t", "n"))
	var all []access.Principal
	enter := func(c access.Credentials) {
		t.Helper()
		p, err := w.Authenticate(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	enter(access.Credentials{User: "ann", Password: "one"})
	enter(access.Credentials{Token: "t"})
	enter(access.Credentials{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "n"}}})
	enter(access.Credentials{Authorization: []byte(basic("ann", "one"))})
	may := func(what string, want ...bool) {
		t.Helper()
		for i, p := range all {
			if p.May("x", access.Write) != want[i] {
				t.Errorf("%s: principal %d may: %v", what, i, !want[i])
			}
		}
	}
	may("at first", true, true, true, true)
	w.rules.Store(rulesOf(t, file(cheap(t, "two"), "t", "n")))
	may("another password", false, true, true, false)
	if _, err := w.header(t, basic("ann", "one")); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("the old password: %v", err)
	}
	if _, err := w.header(t, basic("ann", "two")); err != nil {
		t.Errorf("the new password: %v", err)
	}
	w.rules.Store(rulesOf(t, file(one, "u", "n")))
	may("another token, the old password", true, false, true, true)
	w.rules.Store(rulesOf(t, file(one, "t", "m")))
	may("another name", true, true, false, true)
	w.rules.Store(rulesOf(t, "users: [{name: bob}]"))
	may("gone", false, false, false, false)
}

func TestParseErrors(t *testing.T) {
	hash := cheap(t, "x")
	for text, want := range map[string]string{
		"":          "auth.yaml:1: there are no users",
		"users: []": "there are no users",
		"user: []":  "auth.yaml:1: user: there is no such key here; use one of oidc, users",
		"users: [{password-hash: '" + hash + "'}]":                      "users[0]: has no name",
		"users:\n- {name: a}\n- {name: a}":                              `auth.yaml:3: users[1]: the user "a" is there already`,
		"users: [{name: 'a b'}]":                                        `"a b" has " "`,
		"users: [{name: 'a:b'}]":                                        `"a:b" has ":"`,
		"users: [{name: token}]":                                        "word of the command",
		"users: [{name: a, password: x}]":                               "users[0].password: there is no such key here",
		"users: [{name: a, password-hash: secret}]":                     "`tickmesh auth hash` makes one",
		"users: [{name: a, password-hash: '$2a$31$" + hash[7:] + "'}]":  "its cost is 31, at most 15",
		"users: [{name: a, tokens: [secret]}]":                          "`tickmesh auth token` makes both",
		"users: [{name: a, tokens: [" + strings.Repeat("g", 64) + "]}]": "64 hexadecimal digits",
		"users: [{name: a, tokens: [" + strings.Repeat("0", 65) + "]}]": "64 hexadecimal digits",
		"users: [{name: a, tls-names: [n]}, {name: b, tls-names: [n]}]": `users[1].tls-names[0]: "n" is there already`,
		"users: [{name: a, rights: {x: owner}}]":                        `users[0].rights.x: "owner": expected one of read, write, admin, none`,
		"users: [{name: a, rights: {a/b: read}}]":                       "expected the name of a database, default, or \"*\" for all others",
		"users: [{name: a, rights: [read]}]":                            "expected lines of the form",
		"users: [{name: a, tokens: [" + secret.DigestOf("x").String() + "," + secret.DigestOf("x").String() + "]}]": "this token is there already",
	} {
		if _, err := Parse("auth.yaml", []byte(text)); !errors.Is(err, rulefile.ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := Parse("f", []byte("users: [{name: a, password-hash: hunter2}]")); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password that stands where a hash should is told: %v", err)
	}
}

// A password is checked once, however many show it and how often.
func TestChecksAreFew(t *testing.T) {
	w := newWorld(t, people(t))
	var checks atomic.Int64
	compare := w.gate.compare
	w.gate.compare = func(hash, password []byte) error {
		checks.Add(1)
		return compare(hash, password)
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if _, err := w.header(t, basic("ann", "ann's: word")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := checks.Load(); n != 1 {
		t.Errorf("%d checks of one password", n)
	}
	for range 10 {
		if _, err := w.header(t, basic("ann", "wrong")); !errors.Is(err, access.ErrUnauthenticated) {
			t.Error(err)
		}
	}
	dummies := int64(bcrypt.DefaultCost - bcrypt.MinCost) // for a wrong password to take as long as any
	if n := checks.Load(); n != 2+dummies {
		t.Errorf("%d checks of two passwords", n)
	}
	for i := range 2 * verifiedMax { // no variant of a header is another entry
		if _, err := w.header(t, "bAsIc "+strings.Repeat(" ", i%500)+basic("ann", "ann's: word")[6:]); err != nil {
			t.Fatal(err)
		}
	}
	if n := checks.Load(); n != 2+dummies || len(w.memory.verified) != 1 {
		t.Errorf("%d checks, %d entries for variants of one header", n, len(w.memory.verified))
	}
}

// One host has many IPv6 addresses, and none of them more than the others.
func TestNetworkOf(t *testing.T) {
	for of, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[::ffff:192.0.2.7]:80": "::ffff:192.0.2.7", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[2001:db8:1:2::1]:99": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "pipe": "pipe", "": "",
	} {
		if got := networkOf(address(of)); got != want {
			t.Errorf("%q: %q, want %q", of, got, want)
		}
	}
	if got := networkOf(nil); got != "" {
		t.Errorf("%q", got)
	}
}

// What is remembered is bounded, whatever is sent.
func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t, people(t))
	rules := w.rules.Load()
	for i := range 2 * verifiedMax {
		k := w.key('h', fmt.Append(nil, i), nil)
		w.remember(rules, k, w.principal("ann", proof{}))
		w.refuse(rules, k)
		if w.remembered(rules, k) == nil || !w.isRefused(rules, k) {
			t.Fatal("the last one is forgotten")
		}
	}
	if v, r := len(w.memory.verified), len(w.memory.refused); v > verifiedMax || r > refusedMax {
		t.Errorf("%d verified, %d refused", v, r)
	}
	w.rules.Store(rulesOf(t, "users: [{name: bob}]"))
	w.remember(rules, key{}, w.principal("ann", proof{})) // a check that began before
	if w.remembered(w.rules.Load(), key{}) != nil {
		t.Error("what was checked by older rules is remembered for the new ones")
	}
}

func TestTokens(t *testing.T) {
}

// The README's examples, which are parts of one file, mean what its text says.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples", len(blocks))
	}
	w := newWorld(t, blocks[0][1]+blocks[1][1])
	corp := w.rules.Load().issuers["https://login.example.com/corp"]
	if corp == nil || corp.name != "corp" || len(corp.grants) != 2 || !corp.grants[1].rights.may("metrics", access.Write) || corp.grants[1].rights.may("", access.Read) {
		t.Errorf("%+v", corp)
	}
	for _, c := range []struct {
		header, user  string
		reads, writes string
		administers   bool
	}{
		{basic("ann", "correct horse battery staple"), "ann", "metrics", "", false},
		{"Bearer tickmesh_example-token-of-telegraf", "telegraf", "metrics", "metrics", false},
		{"Token tickmesh_example-token-of-telegraf", "telegraf", "metrics", "metrics", false},
		{basic("admin", "another long password"), "admin", "metrics", "metrics", true},
	} {
		p, err := w.header(t, c.header)
		if err != nil || p.Name() != c.user {
			t.Errorf("%s: %v, %v", c.user, p, err)
			continue
		}
		if !p.May(c.reads, access.Read) || p.May("metrics", access.Write) != (c.writes != "") || p.May(access.Everything, access.Admin) != c.administers || p.May("payroll", access.Read) != c.administers {
			t.Errorf("%s may do something else", c.user)
		}
	}
	if p, err := w.Authenticate(t.Context(), access.Credentials{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "tickmesh-operator"}}}); err != nil || !p.May(access.Everything, access.Admin) {
		t.Errorf("the operator: %v, %v", p, err)
	}
}

func TestHash(t *testing.T) {
	hash, err := Hash("pass word")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, fmt.Sprintf("users: [{name: a, password-hash: %q}]", hash))
	if _, err := w.header(t, basic("a", "pass word")); err != nil {
		t.Error(err)
	}
	for _, password := range []string{"", strings.Repeat("x", 73)} {
		if _, err := Hash(password); err == nil {
			t.Errorf("%q is hashed", password)
		}
	}
}
