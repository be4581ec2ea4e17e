package ingest

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// TestDatabaseOf says by each way, and by several, which database a write goes to.
func TestDatabaseOf(t *testing.T) {
	const line, put = "m value=1 1700000000000000000", "put m 1700000000 1"
	for _, c := range []struct {
		target, header, body string
		want                 string // of the database; "?": 400
	}{
		{"/write", "", line, ""}, {"/write?db=a", "", line, "a"}, {"/write?db=default", "", line, ""}, {"/write?db=", "tenant", line, "?"}, {"/write?db=", "", line, ""},
		{"/write", "tenant", line, "tenant"}, {"/write", "default", line, ""}, {"/db/p/write", "tenant", line, "?"}, {"/db/p/write?db=a", "", line, "?"},
		{"/write?db=a", "tenant", line, "?"}, {"/write?db=a&db=b", "", line, "?"}, {"/db/a/write?db=a&db=a", "a", line, "a"}, {"/api/v2/write?bucket=a&db=b", "", line, "?"},
		{"/api/put?db=a", "tenant", put, "?"}, {"/api/v2/write?bucket=a", "tenant", line, "?"}, {"/api/write?db=a", "tenant", line, "?"}, {"/api/v1/write?db=a", "tenant", line, "?"},
		{"/db/default/write", "tenant", line, "?"}, {"/db/default/write?db=default", "", line, ""},
		{"/api/v2/write?bucket=b/autogen", "b", line, "b"}, {"/api/v2/write?bucket=default/autogen", "", line, ""}, {"/db/p/api/v2/write?bucket=b", "", line, "?"},
		{"/api/v2/write", "tenant", line, "tenant"}, {"/db/p/api/v2/write", "", line, "p"},
		{"/api/write?db=a", "", line, "a"}, {"/db/p/api/write", "", line, "p"}, {"/api/write", "tenant", line, "tenant"},
		{"/api/put", "", put, ""}, {"/api/put?db=a", "", put, "a"}, {"/api/put", "tenant", put, "tenant"}, {"/db/p/api/put", "", put, "p"}, {"/db/p/api/v1/put", "", put, "p"},
		{"/db/a%20b/write", "", line, "a b"}, {"/db/a%2520/write", "", line, "a%20"}, {"/db/s%C3%BCd/write", "", line, "süd"},
		{"/write?db=a/b", "", line, "?"}, {"/write?db=..", "", line, "?"}, {"/write?db=*", "", line, "?"}, {"/write?db=" + strings.Repeat("x", 129), "", line, "?"},
		{"/write", "a/b", line, "?"}, {"/api/put?db=a%00", "", put, "?"}, {"/write?db=a%0Ab", "", line, "?"},
		{"/db/a%2fb/write", "", line, "?"}, {"/db/%2e%2e/write", "", line, "?"}, {"/db/../write", "", line, "?"}, {"/db//write", "", line, "?"},
		{"/db/x/../write", "", line, "?"}, {"/db/x/%2e%2e/write", "", line, "?"}, {"/db/x/./write", "", line, "?"}, {"/db/x//write", "", line, "?"},
		{"/db/x%/write", "", line, "?"}, {"/db/x%zz/write", "", line, "?"}, {"/db/x/..%2fwrite", "", line, "?"}, {"/db/x/db%5c/write", "", line, "?"},
		{"/db/*/write", "", line, "?"}, {"/db/x", "", line, "?"},
	} {
		r := start(t, nil)
		var headers []string
		if c.header != "" {
			headers = []string{"X-Scope-OrgID: " + c.header}
		}
		answer, body := r.post(t, request(c.target, c.body, headers...))
		want := []string{series.AppendKey(nil, []byte(c.want), []byte("m"), nil).String() + " 1700000000000 1"}
		if c.want == "?" {
			want = nil
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s, %s: %d %s", c.target, c.header, answer.StatusCode, body)
			}
		}
		equalLines(t, c.target+" "+c.header, r.stored(), want)
	}
}

// A client that asks before it sends its body is in the same database.
func TestExpectKeepsTheDatabase(t *testing.T) {
	for _, target := range []string{"/db/a/write", "/db/a/other"} {
		var seen atomic.Pointer[string]
		r := withOther(t, func(_ http.ResponseWriter, request *http.Request) {
			database, err := access.Database(request, nil)
			text := fmt.Sprint(request.URL.Path, " ", database, err)
			seen.Store(&text)
		})
		c := dial(t, r.Addresses().HTTP)
		send(t, c, "POST "+target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n")
		from := bufio.NewReader(c)
		if answer, _ := readAnswer(t, from); answer.StatusCode != http.StatusContinue {
			t.Fatal(answer.StatusCode)
		}
		send(t, c, "m value=1 1")
		if answer, body := readAnswer(t, from); answer.StatusCode >= 300 {
			t.Fatalf("%d %s", answer.StatusCode, body)
		}
		if target == "/db/a/write" {
			equalLines(t, "stored", r.stored(), []string{"a/m{} 0 1"})
		} else if text := *seen.Load(); text != "/other a<nil>" {
			t.Errorf("%s", text)
		}
	}
}

// Other handlers get the path behind the database, and the database in their context.
func TestOtherSeesTheDatabase(t *testing.T) {
	type seen struct{ path, query, database string }
	var last atomic.Pointer[seen]
	r := withOther(t, func(_ http.ResponseWriter, request *http.Request) {
		database, err := access.Database(request, nil)
		if err != nil {
			database = "?"
		}
		last.Store(&seen{request.URL.Path, request.URL.RawQuery, database})
	})
	for target, want := range map[string]seen{
		"/db/a/api/query?m=x&start=1": {"/api/query", "m=x&start=1", "a"}, "/db/a%20b/ui/": {"/ui/", "", "a b"}, "/db/a/": {"/", "", "a"},
		"/db/a/db/b/x": {"/db/b/x", "", "a"}, "/api/query?db=c": {"/api/query", "db=c", "c"}, "/db/default/x": {"/x", "", ""}, "/dbx/y": {"/dbx/y", "", ""},
		"/db/a/p%2525": {"/p%25", "", "a"}, "/api/query?db=c;d&m=x": {"/api/query", "db=c%3Bd&m=x", "c;d"}, "/db/a/query?db=c;d": {"/query", "db=c%3Bd", "?"},
	} {
		answer, body := r.post(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := last.Load(); answer.StatusCode != http.StatusOK || *got != want {
			t.Errorf("%s: %d %s, %+v, want %+v", target, answer.StatusCode, body, got, want)
		}
	}
}

// Where only the header counts, nothing else names a database, and what names another one is refused.
func TestDatabaseFromHeader(t *testing.T) {
	var seen atomic.Pointer[string]
	r := start(t, func(o *Options) {
		o.DatabaseFromHeader = true
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			database, err := access.Database(request, nil)
			text := fmt.Sprint(database, err == nil, access.Of(request.Context()).May("b", access.Read), access.Of(request.Context()).May(access.Everything, access.Admin))
			seen.Store(&text)
		})
	})
	const line = "m value=1 1700000000000000000"
	for _, c := range []struct {
		target, header string
		status         int
	}{
		{"/write", "a", 204}, {"/write?db=a", "a", 204}, {"/db/a/write", "a", 204}, {"/write", "", 400}, {"/write?db=a", "", 400}, {"/db/a/write", "", 400},
		{"/write?db=b", "a", 400}, {"/db/b/write", "a", 400}, {"/api/v2/write?bucket=b", "a", 400}, {"/write", "../a", 400},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"X-Scope-OrgID: " + c.header}
		}
		answer, body := r.post(t, request(c.target, line, headers...))
		if answer.StatusCode != c.status {
			t.Errorf("%s, %q: %d %s", c.target, c.header, answer.StatusCode, body)
		}
	}
	for header, want := range map[string]string{"": "false false true", "X-Scope-OrgID: b\r\n": "btrue true false", "X-Scope-OrgID: a\r\n": "atrue false false"} {
		r.post(t, "GET /x HTTP/1.1\r\nHost: x\r\n"+header+"\r\n")
		if got := *seen.Load(); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// FuzzSplitDatabase: what is taken names a valid database, and the rest is a path that no
// other reading can lead out of it.
func FuzzSplitDatabase(f *testing.F) {
	for _, path := range []string{"/db/a/write", "/db//write", "/db/x/../y", "/db/%2e%2e/x", "/db/a%2fb/x", "/db/%2525/x", "/db/a/%2e%2e/%2e", "/db/a/b%5c..", "/db/"} {
		f.Add([]byte(path))
	}
	f.Fuzz(func(t *testing.T, path []byte) {
		if !strings.HasPrefix(string(path), databasePrefix) {
			return
		}
		database, rest, err := splitDatabase(path)
		if err != nil {
			if !errors.Is(err, refusal.ErrArgument) {
				t.Fatal(err)
			}
			return
		}
		if series.ValidateDatabase(database) != nil || string(database) == "default" || rest[0] != '/' {
			t.Fatalf("%q: %q %q", path, database, rest)
		}
		var uri fasthttp.URI
		uri.SetPathBytes(rest)
		decoded, ok := unescape(rest)
		if !ok || string(uri.Path()) != string(decoded) {
			t.Fatalf("%q: the rest %q is read as %q too", path, rest, uri.Path())
		}
	})
}

func FuzzUnescape(f *testing.F) {
	f.Add([]byte("a%20b%2"))
	f.Add([]byte("%zz%25"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := unescape(text)
		want, err := pathUnescape(string(text))
		if ok != (err == nil) || ok && string(got) != want {
			t.Fatalf("%q: %q %v, net/url says %q %v", text, got, ok, want, err)
		}
	})
}

// FuzzIntroduction: what is taken shows exactly one thing, all of it from the line.
func FuzzIntroduction(f *testing.F) {
	for _, line := range []string{"auth a b", "auth token t", "auth basic a b", "auth\ta\tb\r", "auth", "auth token", "AUTH a b", "put m 1 1", "auth a b c", "auth \x00 \xff"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, ok := parseIntroduction(line)
		if c.Authorization != nil || c.Certificate != nil || ok != (c.Token != "" || c.User != "") || c.Token != "" && c.User != "" || (c.User == "") != (c.Password == "") {
			t.Fatalf("%q: %+v, %v", line, c, ok)
		}
		for _, word := range []string{c.Token, c.User, c.Password} {
			if !strings.Contains(string(line), word) || strings.ContainsAny(word, " \n\r\t") {
				t.Fatalf("%q: %q", line, word)
			}
		}
	})
}

// users returns the authority of the tests: tokens are names of users, as are passwords.
func users(t testing.TB) (*auth.Authenticator, *atomic.Pointer[auth.Rules]) {
	t.Helper()
	rules := &atomic.Pointer[auth.Rules]{}
	rules.Store(usersOf(t, map[string]string{"writer": "default: write, a: write", "reader": "'*': read", "admin": "'*': admin"}))
	return auth.New(auth.Options{Current: rules.Load}), rules
}

func usersOf(t testing.TB, rights map[string]string) *auth.Rules {
	t.Helper()
	text := "users:\n"
	for name, right := range rights {
		hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  - {name: %s, password-hash: %q, tokens: [%s], rights: {%s}}\n", name, hash, secret.DigestOf("t-"+name).String(), right)
	}
	text += "  - {name: certified, tls-names: [agent], rights: {default: write}}\n"
	r, err := auth.Parse("auth.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func bearer(user string) string { return "Authorization: Bearer t-" + user }

// Nothing but health is answered to who is not known: every path of the front, in its
// dialect's words, by any method.
func TestEveryPathWantsToKnowWhoCalls(t *testing.T) {
	authority, _ := users(t)
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Authenticator = authority
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reached.Add(1) })
	})
	words := map[string]string{
		"/write": `{"error":"authentication failed`, "/api/v2/write": `{"code":"unauthorized","message":"authentication failed`, "/api/write": `{"error":"authentication failed`,
		"/api/put": `{"error":{"code":401,"message":"authentication failed`, "/api/v1/write": "authentication failed", "/query": `{"error":"authentication failed`,
		"/api/v1/query": `{"status":"error","errorType":"unauthorized","error":"authentication failed`, "/api/v2/query": `{"code":"unauthorized"`,
		"/api/query": `{"error":{"code":401,`, "/metrics": "authentication failed", "/": "authentication failed", "/debug/pprof/": "authentication failed",
	}
	var paths []string
	for path := range r.front.dialects {
		paths = append(paths, path)
	}
	for path := range words {
		paths = append(paths, path)
	}
	paths = append(paths, "/db/a/write", "/db/a/healthz", "//healthz", "/healthz/", "/healthz/../metrics", "/./healthz", "/healthz%2f", "/%68ealthz", "/healthz#x", "/ping/", "/x/../ping",
		"/health;x", "http://h/healthz")
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "X"} {
			for _, header := range []string{"A: b", "Authorization: Bearer wrong", "Authorization:", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("nobody:"))} {
				c := dial(t, r.Addresses().HTTP)
				send(t, c, method+" "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"+header+"\r\n\r\nx")
				answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
				if err != nil {
					t.Fatal(path, method, err)
				}
				_ = answer.Body.Close()
				if answer.StatusCode != http.StatusUnauthorized || len(answer.Header.Values("WWW-Authenticate")) != 2 {
					t.Errorf("%s %s with %s: %d %v", method, path, header, answer.StatusCode, answer.Header)
				}
				_ = c.Close()
			}
		}
	}
	for path, want := range words {
		if _, body := r.post(t, request(path, "x")); !strings.HasPrefix(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	if reached.Load() > 0 {
		t.Errorf("a handler was reached")
	}
	for _, target := range []string{"/ping", "/health", "/healthz", "/readyz", "/-/healthy", "/-/ready", "/ping?verbose=true"} {
		if answer, _ := r.post(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"); answer.StatusCode >= 300 {
			t.Errorf("%s: %d", target, answer.StatusCode)
		}
	}
	if n := reached.Load(); n != 4 { // healthz and readyz, under two names each
		t.Errorf("%d requests reached a handler", n)
	}
	equalLines(t, "stored", r.stored(), nil)
}

func TestRightsOfWrites(t *testing.T) {
	authority, rules := users(t)
	r := start(t, func(o *Options) { o.Authenticator = authority })
	write := func(target, header string) int {
		t.Helper()
		answer, _ := r.post(t, request(target, "m value=1 1", header))
		return answer.StatusCode
	}
	basic := func(user, password string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range []struct {
		target, header string
		want           int
	}{
		{"/write", bearer("writer"), 204}, {"/write?db=a", bearer("writer"), 204}, {"/write?db=b", bearer("writer"), 403}, {"/db/b/write", bearer("writer"), 403},
		{"/db/a/write?db=a", bearer("writer"), 204}, {"/write?db=default", bearer("writer"), 204}, {"/write", bearer("reader"), 403}, {"/write?db=b", bearer("admin"), 204},
		{"/write?db=a", "Authorization: Token t-writer", 204}, {"/write?db=a", "Authorization: Token writer:writer", 204}, {"/write?db=a", basic("writer", "writer"), 204},
		{"/write?db=a", basic("writer", "x"), 401}, {"/write?u=writer&p=writer", "A: b", 204}, {"/write?u=writer&p=x", bearer("writer"), 401},
		{"/db/a/write?u=writer&p=writer", "A: b", 204}, {"/api/v2/write?u=writer&p=writer", "A: b", 401}, {"/api/v2/write?bucket=a", bearer("writer"), 204},
		{"/write", "X-Scope-OrgID: b\r\n" + bearer("writer"), 403}, {"/api/v2/write?bucket=b/a", bearer("writer"), 403},
	} {
		if got := write(c.target, c.header); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.target, c.header, got, c.want)
		}
	}
	if a := r.options.Meter.Find([]byte("nobody's")); a != nil {
		t.Error("an account")
	}
	if got := write("/write?db=nobody%27s", bearer("writer")); got != 403 || r.options.Meter.Find([]byte("nobody's")) != nil {
		t.Errorf("%d, or a name that nobody may write to has an account", got)
	}
	rules.Store(usersOf(t, map[string]string{"reader": "'*': read"}))
	if got := write("/write", bearer("writer")); got != 401 {
		t.Errorf("a user that is gone: %d", got)
	}
	answer, _ := r.post(t, "POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if answer.StatusCode != 401 || answer.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("a body is asked for: %d", answer.StatusCode)
	}
}

// The first line of a TCP connection says who writes.
func TestIntroductions(t *testing.T) {
	authority, rules := users(t)
	const fail = "AUTH_FAIL: …\n"
	for _, c := range []struct{ in, out, stored string }{
		{"auth token t-writer\nput m 1700000000 1 a=b\n", "AUTH_SUCCESS\n", "m{a=b} 1700000000000 1"},
		{"auth writer writer\r\nput m 1700000000 1 a=b\r\nversion\r\n", "AUTH_SUCCESS\n" + versionAnswer, "m{a=b} 1700000000000 1"},
		{"auth basic writer writer\nput m 1700000000 1 a=b\nput m 1700000001 2", "AUTH_SUCCESS\nput: the last line is dropped: …\n", "m{a=b} 1700000000000 1"},
		{"auth token t-writer\n\nauth token x\nput m 1700000000 1 a=b\n", "AUTH_SUCCESS\nAUTH_FAIL: …\n", "m{a=b} 1700000000000 1"},
		{"auth token t-writer\n", "AUTH_SUCCESS\n", ""},
		{"auth token t-writer", fail, ""}, // perhaps there was more
		{"auth token " + strings.Repeat("x", 5000) + "\n", fail, ""},
		{"auth token wrong\nput m 1700000000 1 a=b\n", fail, ""},
		{"auth writer wrong\nversion\n", fail, ""},
		{"auth token t-reader\nput m 1700000000 1 a=b\n", fail, ""}, // may not write
		{"put m 1700000000 1 a=b\n", fail, ""},
		{"version\n", fail, ""}, {"stats\n", fail, ""}, {"\n", fail, ""}, {"auth\n", fail, ""}, {"auth token\n", fail, ""},
		{strings.Repeat("x", 50_000) + "\n", fail, ""},
		{strings.Repeat("x", 200), fail, ""},
		{"", "", ""},
	} {
		r := start(t, func(o *Options) { o.Authenticator = authority })
		var want []string
		if c.stored != "" {
			want = []string{c.stored}
		}
		if out := exchange(t, r.Addresses().Put, c.in); !matches(out, c.out) {
			t.Errorf("%q:\n got %q\nwant %q", c.in, out, c.out)
		}
		equalLines(t, c.in, r.stored(), want)
	}
	r := start(t, func(o *Options) { o.Authenticator = authority; o.LineDatabase = "a" })
	if out := exchange(t, r.Addresses().Line, "auth token t-writer\nm value=1 1700000000\n"); out != "AUTH_SUCCESS\n" {
		t.Errorf("%q", out)
	}
	answer, _ := r.post(t, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	if answer.StatusCode != 401 {
		t.Errorf("%d", answer.StatusCode)
	}
	if r.total() != 1 || !strings.Contains(r.stored()[0], "m{} ") {
		t.Errorf("%q", r.stored())
	}
	// HTTP on the put port has its own way.
	c := dial(t, r.Addresses().Put)
	send(t, c, request("/write", "m value=1 1", bearer("writer")))
	if answer, body := readAnswer(t, bufio.NewReader(c)); answer.StatusCode != 204 {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	// Rights that are taken back end a connection at its next lines.
	c = dial(t, r.Addresses().Put)
	from := bufio.NewReader(c)
	send(t, c, "auth token t-writer\nput x 1700000000 1\nversion\n")
	for range 3 {
		if _, err := from.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	rules.Store(usersOf(t, map[string]string{"reader": "'*': read"}))
	send(t, c, "put y 1700000000 1\n")
	if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "AUTH_FAIL: user \"writer\" has no write right") {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := from.ReadString('\n'); err == nil {
		t.Error("the connection goes on")
	}
	if n := r.metric(t, "tickmesh_ingest_dropped_total", "cause=denied"); n != 1 {
		t.Errorf("%v points", n)
	}
}

// Without an authority the command is no harm.
func TestIntroductionsWithoutAuthority(t *testing.T) {
	r := start(t, nil)
	if out := exchange(t, r.Addresses().Put, "auth ann x\nput m 1700000000 1 a=b\n"); out != "AUTH_SUCCESS\n" {
		t.Errorf("%q", out)
	}
	equalLines(t, "stored", r.stored(), []string{"m{a=b} 1700000000000 1"})
}

// A certificate's name is as good as a token.
func TestCertificatesSayWhoCalls(t *testing.T) {
	authority, _ := users(t)
	s := startSecured(t, func(o *Options) { o.Authenticator = authority })
	c := s.dial(t, s.Addresses().HTTP)
	send(t, c, request("/write", "m value=1 1"))
	if answer, body := readAnswer(t, bufio.NewReader(c)); answer.StatusCode != 204 {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	c = s.dial(t, s.Addresses().HTTP)
	send(t, c, request("/write?db=a", "m value=1 1"))
	if answer, body := readAnswer(t, bufio.NewReader(c)); answer.StatusCode != 403 {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	c = s.dial(t, s.Addresses().Put)
	send(t, c, "put m 1700000000 2\nversion\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "tickmesh") {
		t.Errorf("%q, %v", line, err)
	}
}

func TestUDPUser(t *testing.T) {
	authority, rules := users(t)
	m := newMemory(testShards)
	if _, err := New(Options{UDPAddress: "127.0.0.1:0", Authenticator: authority, Writer: m, Resolver: m, Shards: testShards}); !errors.Is(err, ErrOptions) {
		t.Errorf("UDP without a user: %v", err)
	}
	s, err := New(Options{UDPAddress: "127.0.0.1:0", UDP: UDPOptions{User: "eve"}, Authenticator: authority, Writer: m, Resolver: m, Shards: testShards})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("an unknown user: %v", err)
	}
	s.stop()
	r := start(t, func(o *Options) {
		o.UDPAddress, o.UDP.User, o.UDP.Database, o.Authenticator = "127.0.0.1:0", "writer", "a", authority
	})
	sendDatagrams(t, r.Addresses().UDP, "put m 1700000000 1")
	eventually(t, "a point", func() bool { return r.total() == 1 })
	rules.Store(usersOf(t, map[string]string{"writer": "b: write"}))
	sendDatagrams(t, r.Addresses().UDP, "put m 1700000000 1")
	eventually(t, "a point dropped", func() bool { return r.metric(t, "tickmesh_ingest_dropped_total", "cause=denied") == 1 })
	if r.total() != 1 {
		t.Error("it was written")
	}
}

func slowMeter(t *testing.T) *tenant.Meter {
	t.Helper()
	rules, err := tenancy.Parse("f", []byte("databases: {slow: {samples-per-second-max: 1}}"))
	if err != nil {
		t.Fatal(err)
	}
	m := tenant.NewMeter(tenant.MeterOptions{})
	m.SetRules(rules)
	return m
}

// Beyond a database's rate HTTP is 503 with a time to come back, and what is written is not.
func TestRateOverHTTP(t *testing.T) {
	r := start(t, func(o *Options) { o.Meter = slowMeter(t) })
	body := strings.Repeat("m value=1 1\n", 1000)
	if answer, text := r.post(t, request("/write?db=slow", body)); answer.StatusCode != 204 {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	for target, words := range map[string]string{"/write?db=slow": `{"error":"too fast: database`, "/api/put?db=slow": `{"error":{"code":503,"message":"too fast`,
		"/db/slow/api/v2/write": `{"code":"unavailable"`, "/api/put?db=slow&details": `{"success":0,"failed":1,"errors":[]}`} {
		content := "m value=1 1"
		if strings.HasPrefix(target, "/api/put") {
			content = "put m 1700000000 1"
		}
		answer, text := r.post(t, request(target, content))
		seconds := 0
		_, err := fmt.Sscan(answer.Header.Get("Retry-After"), &seconds)
		if answer.StatusCode != 503 || err != nil || seconds < 900 || seconds > 1000 || !strings.HasPrefix(text, words) {
			t.Errorf("%s: %d %v %s", target, answer.StatusCode, answer.Header, text)
		}
	}
	if answer, _ := r.post(t, request("/write?db=other", body)); answer.StatusCode != 204 {
		t.Errorf("%d", answer.StatusCode)
	}
	if n := r.total(); n != 2000 {
		t.Errorf("%d points", n)
	}
	if n := r.metric(t, "tickmesh_ingest_write_errors_total", "kind=sample_rate"); n != 4 {
		t.Errorf("%v errors", n)
	}
}

// A write that fails is given back to the rate.
func TestRateOfFailedWrites(t *testing.T) {
	r := start(t, func(o *Options) { o.Meter = slowMeter(t) })
	r.beforeWrites(failing(series.ErrUnavailable, "down"))
	for range 3 {
		if answer, _ := r.post(t, request("/write?db=slow", strings.Repeat("m value=1 1\n", 1000))); answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %v", answer.StatusCode, answer.Header)
		}
	}
	if ahead := r.options.Meter.Open("slow").Ahead(); ahead != 0 {
		t.Errorf("%v", ahead)
	}
}

// TCP is not read on while its database is ahead of its rate, and nothing is lost; a drain
// does not wait for it. Datagrams are dropped.
func TestRateOverTCPAndUDP(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Meter, o.PutDatabase, o.UDPAddress, o.UDP.Database = slowMeter(t), "slow", "127.0.0.1:0", "slow"
		o.TCP.ChunkBytes = 1 << 10
	})
	const lines = 200
	c := dial(t, r.Addresses().Put)
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "put m %d 1\n", 1_700_000_000+i)
	}
	send(t, c, text.String())
	account := r.options.Meter.Open("slow")
	eventually(t, "the connection is slowed", func() bool { return account.Ahead() > 0 })
	sendDatagrams(t, r.Addresses().UDP, "put x 1700000000 1")
	eventually(t, "a datagram dropped", func() bool { return r.metric(t, "tickmesh_ingest_dropped_total", "cause=rate") == 1 })
	if n := r.total(); n >= lines {
		t.Errorf("all of %d points are written", n)
	}
	r.stop(t)
	if n := r.total(); n != lines {
		t.Errorf("%d points of %d", n, lines)
	}
	if slices.ContainsFunc(r.stored(), func(s string) bool { return !strings.HasPrefix(s, "slow") && !strings.Contains(s, "slow") }) {
		t.Errorf("%q", r.stored()[0])
	}
}

// pathUnescape is net/url's.
func pathUnescape(s string) (string, error) { return url.PathUnescape(s) }
