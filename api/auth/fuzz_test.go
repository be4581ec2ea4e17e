package auth

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/secret"
)

// A header Basic is read as net/http reads it, but for names that are empty.
func FuzzHeader(f *testing.F) {
	for _, header := range []string{
		"", "Basic", "Basic YTpi", "basic YTpi", "Basic  YTpi", "Basic YTpi=", "Basic OmI=", "Bearer x", "Token a:b", "Token x", "Token a:", "Token :b",
		"Bearer x y", "Basic \x00", "Basic YTpi\n", "\xff", "Bearer\tx",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		var room [basicBytesMax]byte
		read, ok := parseHeader([]byte(header), &room)
		s := struct{ token, user, password string }{string(read.token), string(read.user), string(read.password)}
		if !ok {
			if s.token != "" {
				t.Fatalf("%q: %+v", header, s)
			}
			return
		}
		if s.token == "" && s.user == "" || strings.ContainsAny(s.token, " \t") {
			t.Fatalf("%q: %+v", header, s)
		}
		if !strings.HasPrefix(strings.ToLower(header), "basic ") || header != strings.TrimSpace(header) || strings.Contains(header, "  ") {
			return
		}
		r := http.Request{Header: http.Header{"Authorization": {header}}}
		user, password, basic := r.BasicAuth()
		if !basic || user != s.user || password != s.password {
			t.Fatalf("%q: %+v, and net/http says %q %q %v", header, s, user, password, basic)
		}
	})
}

// Whatever is sent without knowing a secret is refused.
func FuzzAuthenticate(f *testing.F) {
	rules, err := Parse("f", []byte("users: [{name: ann, password-hash: '$2a$04$zzzzzzzzzzzzzzzzzzzzzuzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz', tokens: ["+secret.DigestOf("t").String()+"], tls-names: [n], rights: {'*': admin}}]"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer x", "ann", "x")
	f.Add("Token ann:x", "", "")
	f.Fuzz(func(t *testing.T, header, user, password string) {
		a := New(Options{Current: func() *Rules { return rules }})
		a.gate.compare = func([]byte, []byte) error { return errors.New("wrong") }
		for _, c := range []access.Credentials{{Authorization: []byte(header)}, {User: user, Password: password}, {Token: header + "t"}} {
			if c.Token == "t" || strings.HasSuffix(strings.TrimSpace(header), " t") {
				continue
			}
			p, err := a.Authenticate(t.Context(), c)
			if p != nil || !errors.Is(err, access.ErrUnauthenticated) && !errors.Is(err, access.ErrBusy) {
				t.Fatalf("%+v: %v, %v", c, p, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("users: [{name: ann, tokens: [" + secret.DigestOf("t").String() + "], rights: {'*': read, a: none}}]"))
	f.Add([]byte("users:\n- name: a\n  tls-names: [x]\n"))
	f.Add([]byte("issuers:\n- url: https://login.example.com\n  audiences: [tickmesh]\n  name-claim: email\n  algorithms: [RS256]\n  rights:\n  - {claim: groups, values: [ops], rights: {'*': admin}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse("f", text)
		if err != nil {
			if r != nil || !errors.Is(err, rulefile.ErrFile) {
				t.Fatalf("%v, %v", r, err)
			}
			return
		}
		for name, u := range r.users {
			if name != u.name || name == "" || strings.ContainsAny(name, ": \n") || u.otherwise > access.Admin {
				t.Fatalf("%+v", u)
			}
		}
		if len(r.users) == 0 && len(r.issuers) == 0 {
			t.Fatal("a file without users")
		}
	})
}
