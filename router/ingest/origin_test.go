package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/origin"
)

// What browsers send for pages of other origins is refused, whatever credentials they add.
func TestPagesOfOtherOrigins(t *testing.T) {
	authority, _ := users(t)
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Authenticator, o.Pages = authority, pagesOf("https://grafana.example")
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	})
	for _, c := range []struct {
		method, headers string // with semicolons between
		refused         bool
	}{
		{"POST", "A: b", false}, {"GET", "A: b", false},
		{"POST", "Sec-Fetch-Site: same-origin", false}, {"POST", "Sec-Fetch-Site: none", false},
		{"POST", "Sec-Fetch-Site: same-origin;Origin: https://elsewhere.example", false}, // behind a proxy with another name
		{"POST", "Sec-Fetch-Site: cross-site", true}, {"POST", "Sec-Fetch-Site: same-site", true}, {"POST", "Sec-Fetch-Site: new-word", true},
		{"GET", "Sec-Fetch-Site: cross-site;Sec-Fetch-Mode: no-cors;Sec-Fetch-Dest: script", true},
		{"GET", "Sec-Fetch-Site: cross-site;Sec-Fetch-Mode: navigate;Sec-Fetch-Dest: iframe", true},
		{"GET", "Sec-Fetch-Site: cross-site;Sec-Fetch-Mode: navigate;Sec-Fetch-Dest: document", false},
		{"POST", "Sec-Fetch-Site: cross-site;Sec-Fetch-Mode: navigate;Sec-Fetch-Dest: document", true},
		{"POST", "Sec-Fetch-Site: cross-site;Origin: https://grafana.example", false},
		{"POST", "Sec-Fetch-Site: cross-site;Origin: https://evil.example", true},
		{"POST", "Origin: http://tick.example:6182", false}, {"POST", "Origin: https://TICK.example:6182", false},
		{"POST", "Origin: http://tick.example", true}, {"POST", "Origin: http://evil.example", true}, {"POST", "Origin: null", true}, {"POST", "Origin: http://", true},
		{"POST", "Origin: https://front.example;X-Forwarded-Host: front.example", false},
	} {
		for _, path := range []string{"/write", "/query", "/api/query", "/db/a/api/put", "/ui/api/cancel"} {
			before := reached.Load()
			answer, body := r.post(t, c.method+" "+path+" HTTP/1.1\r\nHost: tick.example:6182\r\n"+bearer("admin")+"\r\n"+
				strings.ReplaceAll(c.headers, ";", "\r\n")+"\r\nContent-Length: 0\r\n\r\n")
			if refused := answer.StatusCode == http.StatusForbidden; refused != c.refused || refused && (!strings.Contains(body, "origin") || reached.Load() != before) {
				t.Errorf("%s %s with %s: %d %s", c.method, path, c.headers, answer.StatusCode, body)
			}
		}
	}
}

// A page of an origin that is let in may ask whether it may send a request, without saying who
// it is; no other may, nothing runs, and writes are not for pages. What the page is refused
// later it can read.
func TestPreflight(t *testing.T) {
	authority, _ := users(t)
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Authenticator, o.Pages = authority, pagesOf("https://grafana.example")
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	})
	const let, asks = "Origin: https://Grafana.example\r\n", "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-scope-orgid\r\n"
	for _, c := range []struct {
		line, headers string
		status        int
	}{
		{"OPTIONS /api/v1/query", let + asks, http.StatusNoContent}, {"OPTIONS /db/a/query?q=x", let + asks, http.StatusNoContent}, {"OPTIONS /api/query", let + asks, http.StatusNoContent},
		{"OPTIONS /api/v1/query", "Origin: https://evil.example\r\n" + asks, http.StatusForbidden}, {"OPTIONS /api/v1/query", asks, http.StatusUnauthorized},
		{"OPTIONS /api/v1/query", let, http.StatusUnauthorized}, {"GET /api/v1/query", let + asks, http.StatusUnauthorized}, {"POST /api/v1/query", let + asks, http.StatusUnauthorized},
		{"OPTIONS /write", let + asks, http.StatusUnauthorized}, {"OPTIONS /db/a/write", let + asks, http.StatusUnauthorized}, {"OPTIONS /api/v1/write", let + asks, http.StatusUnauthorized},
		{"OPTIONS /db/../query", let + asks, http.StatusBadRequest},
	} {
		answer, body := r.post(t, c.line+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"+c.headers+"\r\n")
		origin := ""
		if strings.HasPrefix(c.headers, let) {
			origin = "https://Grafana.example"
		}
		if h := answer.Header; answer.StatusCode != c.status || h.Get("Access-Control-Allow-Origin") != origin || origin != "" && h.Get("Vary") != "Origin" ||
			c.status == http.StatusNoContent && (h.Get("Access-Control-Allow-Methods") != "POST" || h.Get("Access-Control-Allow-Headers") != "authorization,x-scope-orgid") {
			t.Errorf("%s %q: %d %v %s", c.line, c.headers, answer.StatusCode, answer.Header, body)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests of nobody have reached a handler", n)
	}
}

// BenchmarkSenderOf is what each request pays that is of no browser.
func BenchmarkSenderOf(b *testing.B) {
	f := &front{options: &Options{Pages: pagesOf()}}
	var request fasthttp.RequestCtx
	for _, name := range []string{"User-Agent", "Authorization", "Content-Type", "Accept-Encoding", "X-Scope-Orgid"} {
		request.Request.Header.Set(name, "some value")
	}
	request.Request.Header.Set("Host", "127.0.0.1:6182")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.senderOf(headOf(&request)); err != nil {
			b.Fatal(err)
		}
	}
}

// pagesOf lets in pages of origins, and takes "tick.example" for this server.
func pagesOf(origins ...string) *origin.Policy {
	p, err := origin.New(origin.Options{Origins: origins, Hosts: []string{"tick.example"}})
	if err != nil {
		panic(err)
	}
	return p
}

// Without users, too, a page of another origin neither writes nor deletes nor reads, and a
// name that a stranger has pointed at this server is not answered, whatever is asked.
func TestStrangersWithoutUsers(t *testing.T) {
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Pages = pagesOf()
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	})
	for _, target := range []string{
		"/write", "/api/v2/write", "/api/put", "/api/v1/write", "/db/a/write", "/query?q=DROP+DATABASE+x", "/api/query?method_override=delete", "/api/v1/admin/tsdb/delete_series",
		"/metrics", "/healthz", "/ping", "/health", "/", "/nowhere", "/admin/settle",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
			for headers, want := range map[string]int{
				"Host: localhost\r\nOrigin: https://evil.example\r\nContent-Type: text/plain": 403, "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Type: text/plain": 403,
				"Host: localhost\r\nOrigin: null\r\nSec-Fetch-Site: cross-site": 403, "Host: evil.example:6182": 421, "Host: evil.example\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin": 421,
			} {
				c := dial(t, r.Addresses().HTTP)
				answer, err := sendAll(c, method+" "+target+" HTTP/1.1\r\n"+headers+"\r\nContent-Length: 20\r\n\r\nm value=1 1700000000")
				if err != nil || !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", want)) || strings.Contains(string(answer), "Access-Control") {
					t.Errorf("%s %s with %q: %q, %v", method, target, headers, answer, err)
				}
			}
		}
	}
	if answer, _ := r.post(t, "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); answer.StatusCode != 421 {
		t.Errorf("a target in absolute form: %d", answer.StatusCode)
	}
	equalLines(t, "stored", r.stored(), nil)
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests have reached a handler", n)
	}
	// A page of this server, and what is no browser, are served as ever.
	for _, headers := range []string{"A: b", "Origin: http://localhost:6182\r\nSec-Fetch-Site: same-origin", "Origin: http://x"} {
		if answer, body := r.post(t, request("/write", "m value=1 1", headers)); answer.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %d %s", headers, answer.StatusCode, body)
		}
	}
}

// "*" lets every page read what needs no credentials, or such as the page itself has, and
// never write or delete, whatever the browser adds.
func TestAnyOriginOnlyReads(t *testing.T) {
	authority, _ := users(t)
	for _, known := range []access.Authenticator{nil, authority} {
		var may, mayNot atomic.Int64
		r := start(t, func(o *Options) {
			o.Authenticator, o.Pages = known, pagesOf("*")
			o.Other = http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				if access.Check(q.Context(), "", access.Read) == nil {
					may.Add(1)
				}
				for _, right := range []access.Right{access.Write, access.Admin} {
					if access.Check(q.Context(), "", right) == nil || access.Check(q.Context(), access.Everything, right) == nil {
						mayNot.Add(1)
					}
				}
			})
		})
		const page = "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n"
		for _, target := range []string{"/write", "/db/a/write", "/api/put", "/api/v1/write", "/api/v2/write", "/api/write"} {
			if answer, body := r.post(t, request(target, "m value=1 1", page+bearer("admin"))); answer.StatusCode != 403 || !strings.Contains(body, "cors-origins") {
				t.Errorf("%s: %d %s", target, answer.StatusCode, body)
			}
		}
		for _, method := range []string{"GET", "POST", "DELETE", "PUT"} {
			answer, body := r.post(t, method+" /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"+page+bearer("admin")+"\r\n\r\n")
			if answer.StatusCode != 200 || answer.Header.Get("Access-Control-Allow-Origin") != "https://evil.example" || answer.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: %d %v %s", method, answer.StatusCode, answer.Header, body)
			}
		}
		if may.Load() != 4 || mayNot.Load() != 0 {
			t.Errorf("of 4 requests %d may read, and %d more than that", may.Load(), mayNot.Load())
		}
		equalLines(t, "stored", r.stored(), nil)
	}
}
