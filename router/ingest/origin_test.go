package ingest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
)

// What browsers send for pages of other origins is refused, whatever credentials they add.
func TestPagesOfOtherOrigins(t *testing.T) {
	authority, _ := users(t)
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Authority, o.Origins = authority, []string{"https://grafana.example"}
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
		for _, path := range []string{"/write", "/query", "/api/query", "/db/a/api/put"} {
			before := reached.Load()
			answer, body := r.post(t, c.method+" "+path+" HTTP/1.1\r\nHost: tick.example:6182\r\n"+bearer("admin")+"\r\n"+
				strings.ReplaceAll(c.headers, ";", "\r\n")+"\r\nContent-Length: 0\r\n\r\n")
			if refused := answer.StatusCode == http.StatusForbidden; refused != c.refused || refused && (!strings.Contains(body, "origin") || reached.Load() != before) {
				t.Errorf("%s %s with %s: %d %s", c.method, path, c.headers, answer.StatusCode, body)
			}
		}
	}
	// Who is not known hears that first, and without an authority everybody may do everything.
	if answer, _ := r.post(t, "POST /write HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d", answer.StatusCode)
	}
	r = start(t, nil)
	if answer, body := r.post(t, request("/write", "m value=1 1", "Sec-Fetch-Site: cross-site")); answer.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
}

// A page of an origin that is let in may ask whether it may send a request, without saying who
// it is; no other may, nothing runs, and writes are not for pages. What the page is refused
// later it can read.
func TestPreflight(t *testing.T) {
	authority, _ := users(t)
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Authority, o.Origins = authority, []string{"https://grafana.example"}
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	})
	const let, asks = "Origin: https://Grafana.example\r\n", "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-scope-orgid\r\n"
	for _, c := range []struct {
		line, headers string
		status        int
	}{
		{"OPTIONS /api/v1/query", let + asks, http.StatusNoContent}, {"OPTIONS /db/a/query?q=x", let + asks, http.StatusNoContent}, {"OPTIONS /api/query", let + asks, http.StatusNoContent},
		{"OPTIONS /api/v1/query", "Origin: https://evil.example\r\n" + asks, http.StatusUnauthorized}, {"OPTIONS /api/v1/query", asks, http.StatusUnauthorized},
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

// BenchmarkCheckOrigin is what each request of a known caller that is no browser pays.
func BenchmarkCheckOrigin(b *testing.B) {
	f := &front{options: &Options{}}
	var request fasthttp.RequestCtx
	for _, name := range []string{"Host", "User-Agent", "Authorization", "Content-Type", "Accept-Encoding", "X-Scope-Orgid"} {
		request.Request.Header.Set(name, "some value")
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.checkOrigin(&request); err != nil {
			b.Fatal(err)
		}
	}
}
