package endpoint_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/tickmesh/tickmesh/api/endpoint"
)

// lists of patterns as the servers have them, and harder ones.
func patternLists() [][]string {
	return [][]string{
		{"/", "/api/", "GET /metrics", "GET /-/ready", "POST /admin/settle", "/debug/pprof/", "/debug/pprof/cmdline"},
		{"GET /{$}", "/ui/", "GET /ui", "/", "/api/v1/", "/federate", "/query", "/api/v2/query"},
		{"/a/", "GET /a/b", "/a/b/c/", "POST /a/b/c/"},
		{"/a/{name}", "/a/"},
		{"/query", "GET /a/b", "POST /a/b", "GET /a/b/{id}", "DELETE /a/b/{id}", "/a/{name}/c/{$}"},
		{"example.com/a", "/a"},
		{"/{$}", "/a/{$}", "/a/b"},
		{"/", "/a/{$}", "GET /ui/{$}"},
	}
}

// serve returns what a handler answers.
func serve(handler http.Handler, method, target string) string {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return "no target"
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, &http.Request{Method: method, URL: u, Host: "example.com", RequestURI: target, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1})
	return fmt.Sprint(recorder.Code, recorder.Header(), recorder.Body)
}

// FuzzMux: a Mux answers as http.ServeMux does.
func FuzzMux(f *testing.F) {
	for list := range patternLists() {
		for _, method := range []string{"GET", "POST", "HEAD", "CONNECT"} {
			for _, target := range []string{
				"/", "/a", "/a/", "/a/b", "/a/b/", "/a/b/c", "/a/b/c/d", "/ui", "/ui/x", "/api", "/api/", "/api/v1/query?a=b", "/api/v1", "/api/v2/query",
				"/query", "/query/", "/a/b/7", "/a/b/{id}", "/a/x/c/", "/metrics", "/metrics/x", "//", "//api/x", "/api//x", "/api/../x", "/api/./x", "/api/.x", "/api/v1%2Fquery", "/%61pi/v1/x",
				"/a%20b", "/api/x/..", "/admin/settle", "/debug/pprof", "/debug/pprof/heap", "*", "/a/b?x=/..", "/a/%2e%2e/b",
			} {
				f.Add(list, method, target)
			}
		}
	}
	f.Fuzz(func(t *testing.T, list int, method, target string) {
		lists := patternLists()
		if list < 0 || list >= len(lists) {
			return
		}
		var mux endpoint.Mux
		var want http.ServeMux
		for _, pattern := range lists[list] {
			answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pattern) }
			mux.HandleFunc(pattern, answer)
			want.HandleFunc(pattern, answer)
		}
		if got, want := serve(&mux, method, target), serve(&want, method, target); got != want {
			t.Errorf("%q: %s %s is answered %s, want %s", lists[list], method, target, got, want)
		}
	})
}

func BenchmarkMux(b *testing.B) {
	for name, c := range map[string]struct {
		patterns []string
		target   string
	}{
		"subtree":          {patternLists()[1], "/api/v1/query?query=up"},
		"beside wildcards": {patternLists()[4], "/query?q=up"},
	} {
		b.Run(name, func(b *testing.B) {
			var mux endpoint.Mux
			for _, pattern := range c.patterns {
				mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
			}
			r := httptest.NewRequest(http.MethodGet, c.target, nil)
			b.ReportAllocs()
			for b.Loop() {
				mux.ServeHTTP(nil, r)
			}
		})
	}
}
