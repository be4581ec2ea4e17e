package ingest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A browser that asks for the page and that nobody knows gets the document in which a person
// signs in, with 401, and is not told of Basic: it would ask by itself. Others get a line.
func TestSignInPage(t *testing.T) {
	authority, _ := users(t)
	var reached atomic.Int64
	r := start(t, func(o *Options) {
		o.Authenticator = authority
		o.SignInPage = &SignInPage{Body: []byte("<form>"), Policy: "default-src 'none'"}
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	})
	const html, any = "Accept: text/html,application/xhtml+xml;q=0.9", "Accept: */*"
	for _, c := range []struct {
		line, header string
		page, basic  bool
	}{
		{"GET /", html, true, false},
		{"GET /?x=y", "Accept: TEXT/HTML", true, false},
		{"GET /", html + "\r\nAuthorization: Bearer wrong", true, false},
		{"GET /db/a/", html, true, false},
		{"GET /ui", html, true, false},
		{"GET /ui/", html, true, false},
		{"GET /", any, false, false},
		{"POST /", html, false, false},
		{"GET /ui/api/about", html, false, false},
		{"GET /ui/assets/x.js", any, false, false},
		{"GET /uix", html, false, true},
		{"GET /metrics", html, false, true},
		{"GET /query", html, false, true},
	} {
		answer, body := r.post(t, c.line+" HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n\r\n")
		challenges := strings.Join(answer.Header.Values("WWW-Authenticate"), ", ")
		if answer.StatusCode != http.StatusUnauthorized || !strings.HasSuffix(challenges, "Bearer") || strings.Contains(challenges, "Basic") != c.basic {
			t.Errorf("%s, %s: %d, %s", c.line, c.header, answer.StatusCode, challenges)
		}
		if isPage := body == "<form>"; isPage != c.page {
			t.Errorf("%s, %s: %s", c.line, c.header, body)
		}
		if c.page && (answer.Header.Get("Content-Security-Policy") != "default-src 'none'" || answer.Header.Get("Cache-Control") != "no-store" ||
			answer.Header.Get("Content-Type") != "text/html; charset=utf-8") {
			t.Errorf("%s: %v", c.line, answer.Header)
		}
	}
	if reached.Load() > 0 {
		t.Error("a handler was reached")
	}
	if answer, _ := r.post(t, "GET / HTTP/1.1\r\nHost: x\r\n"+html+"\r\n"+bearer("reader")+"\r\n\r\n"); answer.StatusCode != http.StatusOK || reached.Load() != 1 {
		t.Errorf("who is known: %d", answer.StatusCode)
	}
}
