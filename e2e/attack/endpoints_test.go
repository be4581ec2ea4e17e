package attack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
)

// expectation is one line of testdata/endpoints.txt.
type expectation struct {
	port, right string
	methods     []string
	path, query string
}

func expectations(t *testing.T) (all []expectation) {
	t.Helper()
	content, err := os.ReadFile("testdata/endpoints.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		e := expectation{port: fields[0], right: fields[1], methods: strings.Split(fields[2], ","), path: fields[3]}
		if len(fields) > 4 {
			now := time.Now().Unix()
			e.query = strings.NewReplacer("{now}", fmt.Sprint(now), "{hour}", fmt.Sprint(now-3600)).Replace(fields[4])
		}
		if e.methods[0] == "ANY" {
			e.methods = []string{http.MethodGet, http.MethodPost}
		}
		e.path = strings.NewReplacer("{$}", "", "{name}", "host", "{id}", "0").Replace(e.path)
		all = append(all, e)
	}
	return all
}

// has reports whether a user has a right, where the question is about the victim's database.
func has(user, right string) bool {
	if right == "open" {
		return true
	}
	switch user {
	case userAdmin:
		return true
	case userReader:
		return right == "known" || right == "read"
	case userWriter:
		return right == "known" || right == "read" || right == "write"
	case userOther, userGone:
		return right == "known"
	}
	return false
}

// bodyOf is what an endpoint is sent so that it goes as far as the data.
func bodyOf(e expectation, method string) (header http.Header, body string) {
	if method == http.MethodGet || method == http.MethodHead {
		return nil, ""
	}
	const put = `{"metric":"extra","timestamp":1700000000,"value":1,"tags":{"a":"b"}}`
	switch strings.TrimSuffix(e.path, "/") {
	case "/write", "/api/v2/write":
		return nil, "extra,a=b value=1\n"
	case "/api/write":
		return nil, "put extra 1700000000 1 a=b\n"
	case "/api/put", "/api/v1/put":
		return asJSON, put
	case "/api/query":
		return asJSON, `{"start":"2h-ago","queries":[{"aggregator":"sum","metric":"canary","tags":{"host":"*"}}]}`
	case "/api/query/last":
		return asJSON, `{"queries":[{"metric":"canary"}],"resolveNames":true}`
	case "/api/search/lookup":
		return asJSON, `{"metric":"canary"}`
	case "/v1/metrics", "/api/v1/otlp/v1/metrics":
		return asJSON, `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"extra","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}`
	case "/api/v1/write":
		return asRemote, string(snappy.Encode(nil, []byte("\x0a\x20\x0a\x11\x0a\x08__name__\x12\x05extra\x12\x0b\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x01")))
	case "/api/v1/import":
		return nil, `{"metric":{"__name__":"extra"},"values":[1],"timestamps":[1700000000000]}` + "\n"
	case "/api/v1/import/csv":
		return nil, "1,1700000000000\n"
	case "/api/v1/import/prometheus":
		return nil, "extra 1 1700000000000\n"
	case "/api/v1/read":
		return asRemote, string(snappy.Encode(nil, []byte("\x0a\x20\x08\x00\x10\x80\x80\x80\x80\x80\x80\x40\x1a\x14\x08\x00\x12\x08__name__\x1a\x06canary")))
	}
	return asForm, e.query
}

// naming is one way in which a request says which database it means.
type naming struct {
	name string
	put  func(target string, header http.Header) string
}

func (g *ground) namings() []naming {
	parameter := func(name, database string) func(string, http.Header) string {
		return func(target string, _ http.Header) string {
			joint := "?"
			if strings.Contains(target, "?") {
				joint = "&"
			}
			return target + joint + name + "=" + url.QueryEscape(database)
		}
	}
	byHeader := func(target string, h http.Header) string { h["X-Scope-OrgID"] = []string{g.vault()}; return target }
	byPath := func(target string, _ http.Header) string { return "/db/" + g.vault() + target }
	own := func(inner func(string, http.Header) string) func(string, http.Header) string {
		return func(target string, h http.Header) string { return inner(parameter("db", "evil")(target, h), h) }
	}
	return []naming{
		{"parameter db", parameter("db", g.vault())}, {"parameter bucket", parameter("bucket", g.vault())}, {"header", byHeader}, {"path", byPath},
		{"own parameter, its header", own(byHeader)}, {"own parameter, its path", own(byPath)}, {"its database twice", func(target string, h http.Header) string {
			return parameter("db", g.vault())(parameter("db", "evil")(target, h), h)
		}},
		{"none", func(target string, _ http.Header) string { return target }},
	}
}

// tryEndpoints calls everything of HTTP as everybody.
func (g *ground) tryEndpoints(t *testing.T) {
	client := clientFrom(attacker(0), true)
	defer client.CloseIdleConnections()
	calls := 0
	addresses := map[string]string{"http": g.at.HTTP, "metrics": g.metrics}
	for _, e := range expectations(t) {
		address := addresses[e.port]
		if address == "" {
			continue
		}
		for _, method := range e.methods {
			for n, naming := range g.namings() {
				for _, user := range []string{"", userOther, userReader, userWriter, userAdmin} {
					// The administrator shows that the request is one; it must not change anything.
					if user == userAdmin && (n > 0 || e.right == "admin" || e.right == "everything") {
						continue
					}
					g.tryEndpoint(t, client, address, e, method, naming, user)
					calls++
				}
			}
		}
	}
	t.Logf("%d calls", calls)
}

func (g *ground) tryEndpoint(t *testing.T, client *http.Client, address string, e expectation, method string, naming naming, user string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	header, body := bodyOf(e, method)
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	target := e.path
	if e.query != "" {
		target += "?" + e.query
	}
	target = naming.put(target, header)
	what := fmt.Sprintf("%s %s %s as %q, database by %s", e.port, method, e.path, user, naming.name)
	a := g.callBy(ctx, client, user, method, "http://"+address+target, header, body)
	if user == "" || user == userOther {
		sent := ""
		if a.status >= http.StatusBadRequest || failsInside(a) || e.path == "/ui/api/about" {
			sent = g.vault() // who is refused is told what was asked for, and the page repeats it
		}
		g.spy.seeAnswer(what, sent, a)
	}
	own := naming.name == "none" || strings.HasPrefix(naming.name, "own") || strings.HasPrefix(naming.name, "its") || strings.HasSuffix(naming.name, "bucket")
	switch {
	case a.err != nil && ctx.Err() == nil:
		t.Errorf("%s: %v", what, a.err)
	case a.status >= http.StatusInternalServerError && a.status != http.StatusServiceUnavailable && a.status != http.StatusNotImplemented:
		t.Errorf("%s: %d %.200s", what, a.status, a.body)
	case user == "" && e.right != "open" && a.status != http.StatusUnauthorized:
		t.Errorf("%s: %d, want 401: %.200s", what, a.status, a.body)
	case has(user, e.right) && n(naming) && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden && e.right != "known"):
		t.Errorf("%s: is refused with %d %.200s", what, a.status, a.body)
	case !has(user, e.right) && !own && a.status < http.StatusBadRequest && !failsInside(a):
		t.Errorf("%s: is served with %d %.200s", what, a.status, a.body)
	}
}

// n reports whether a naming is the one that all dialects know.
func n(naming naming) bool { return naming.name == "parameter db" }

// failsInside reports whether an answer of 200 tells of an error, as InfluxQL's do.
func failsInside(a answer) bool { return strings.Contains(string(a.body), `"error":`) }

// tryToDestroy asks for the end of the victim's data in all ways, as all who may not.
func (g *ground) tryToDestroy(t *testing.T) {
	client := clientFrom(attacker(1), true)
	defer client.CloseIdleConnections()
	vault := g.vault()
	for _, user := range []string{"", userOther, userReader, userWriter} {
		for _, statement := range []string{
			"DROP DATABASE " + vault, "DELETE FROM canary", "DROP MEASUREMENT canary", "DROP SERIES FROM canary", "DROP SHARD 1",
			"DELETE FROM " + vault + ".autogen.canary", "SELECT value INTO " + vault + ".autogen.canary FROM wide", "CREATE DATABASE " + vault + "2",
		} {
			for _, database := range []string{vault, "evil", ""} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					form := url.Values{"db": {database}, "q": {statement}}.Encode()
					target, body := "/query?"+form, ""
					if method == http.MethodPost {
						target, body = "/query", form
					}
					a := g.callBy(t.Context(), client, user, method, "http://"+g.at.HTTP+target, asForm, body)
					if a.err != nil || user == "" && a.status != http.StatusUnauthorized {
						t.Errorf("%s as %q: %d %v %.200s", statement, user, a.status, a.err, a.body)
					}
				}
			}
		}
		for _, target := range []string{
			"/api/query?start=1d-ago&m=sum:canary&db=" + vault, "/api/query?start=1d-ago&m=sum:canary&method_override=delete&db=" + vault,
			"/api/v1/admin/tsdb/delete_series?match[]=canary&db=" + vault,
		} {
			for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut} {
				a := g.callBy(t.Context(), client, user, method, "http://"+g.at.HTTP+target, nil, "")
				if a.err != nil {
					t.Errorf("%s %s as %q: %v", method, target, user, a.err)
				}
			}
		}
	}
	g.checkVault(t)
}
