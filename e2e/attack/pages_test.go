package attack

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// page is a page of another site, as its requests look to the server.
type page struct {
	name   string
	header http.Header
}

func pages(address string) []page {
	return []page{
		{"another origin", http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"cors"}}},
		{"an origin only", http.Header{"Origin": {"https://evil.example"}}},
		{"a form", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"text/plain"}}},
		{"a picture", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"image"}}},
		{"another port", http.Header{"Origin": {"http://127.0.0.1:1"}, "Sec-Fetch-Site": {"same-site"}}},
		{"a name bound to this address", http.Header{"Host": {"rebound.evil.example"}, "Origin": {"http://rebound.evil.example"}, "Sec-Fetch-Site": {"same-origin"}}},
		{"a name bound to this address, with its port", http.Header{"Host": {"rebound.evil.example:" + address[strings.LastIndex(address, ":")+1:]}}},
	}
}

// tryPages sends what changes data, and what reads, as pages of other sites can.
func (g *ground) tryPages(t *testing.T) {
	client := clientFrom(attacker(2), true)
	defer client.CloseIdleConnections()
	vault := g.vault()
	changes := []struct{ method, target, body string }{
		{"GET", "/query?q=" + url.QueryEscape("DROP DATABASE "+vault), ""}, {"GET", "/query?db=" + vault + "&q=" + url.QueryEscape("DROP SERIES FROM canary"), ""},
		{"POST", "/query", "q=" + url.QueryEscape("DROP DATABASE "+vault)}, {"POST", "/query?q=" + url.QueryEscape("DROP DATABASE "+vault), ""},
		{"GET", "/api/query?start=1d-ago&m=sum:canary&method_override=delete&db=" + vault, ""}, {"DELETE", "/api/query?start=1d-ago&m=sum:canary&db=" + vault, ""},
		{"POST", "/api/query?db=" + vault, `{"start":"1d-ago","delete":true,"queries":[{"aggregator":"sum","metric":"canary"}]}`},
		{"POST", "/api/v1/admin/tsdb/delete_series?match[]=canary&db=" + vault, ""}, {"PUT", "/api/v1/admin/tsdb/delete_series?match[]=canary&db=" + vault, ""},
		{"POST", "/write?db=" + vault, "canary,host=page value=1000000\n"}, {"POST", "/api/v2/write?bucket=" + vault, "canary,host=page value=1000000\n"},
		{"POST", "/api/put?db=" + vault, `[{"metric":"canary","timestamp":1700000000,"value":1000000,"tags":{"host":"page"}}]`},
		{"POST", "/api/write?db=" + vault, "put canary 1700000000 1000000 host=page\n"}, {"POST", "/admin/settle", ""},
	}
	for _, p := range pages(g.at.HTTP) {
		for _, change := range changes {
			a := g.callBy(t.Context(), client, userAdmin, change.method, "http://"+g.at.HTTP+change.target, p.header, change.body)
			if a.err != nil || a.status < http.StatusBadRequest && !failsInside(a) {
				t.Errorf("%s: %s %.60s: %d %v %.100s", p.name, change.method, change.target, a.status, a.err, a.body)
			}
		}
		for _, read := range []string{
			"/api/v1/query?db=" + vault + "&query=canary", "/query?db=" + vault + "&q=select+*+from+canary", "/api/query?start=1d-ago&m=sum:canary&db=" + vault,
			"/api/query?start=1d-ago&m=none:canary&jsonp=steal&db=" + vault, "/api/suggest?type=metrics&jsonp=steal&db=" + vault, "/metrics", "/ui/api/databases",
		} {
			a := g.callBy(t.Context(), client, userAdmin, http.MethodGet, "http://"+g.at.HTTP+read, p.header, "")
			allowed := a.header.Get("Access-Control-Allow-Origin") != ""
			rebound := p.header.Get("Host") != "" && a.status < http.StatusBadRequest
			script := strings.HasPrefix(string(a.body), "steal(")
			if a.err != nil || allowed || rebound || script {
				t.Errorf("%s reads %.60s: %d %v, allowed by CORS: %v, as a script: %v", p.name, read, a.status, a.err, allowed, script)
			}
		}
	}
	g.checkVault(t)
	// Without any page, a link that is followed, or an address that is typed, changes nothing.
	for _, change := range changes {
		if change.method == http.MethodGet {
			a := g.callBy(t.Context(), client, userAdmin, change.method, "http://"+g.at.HTTP+change.target, nil, "")
			if a.err != nil || a.status < http.StatusBadRequest && !failsInside(a) {
				t.Errorf("GET changes data: %.60s: %d %v %.100s", change.target, a.status, a.err, a.body)
			}
		}
	}
	g.checkVault(t)
}
