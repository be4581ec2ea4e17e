package ingest

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"
)

// SignInPage is a document in which a person says who is there. It comes with the status 401, is the
// same for everybody, and has all that it needs within: nothing else is answered before it is
// known who calls.
type SignInPage struct {
	Body   []byte // HTML
	Policy string // its Content-Security-Policy
}

// pathPage begins the paths of the page for browsers, besides "/".
const pathPage = "/ui"

// isPage reports whether a path is one of the page for browsers, which asks by itself who is there.
func isPage(path []byte) bool {
	rest, found := bytes.CutPrefix(path, []byte(pathPage))
	return string(path) == "/" || found && (len(rest) == 0 || rest[0] == '/')
}

// wantsSignInPage reports whether a request is that of a browser for the page.
func (f *front) wantsSignInPage(h head) bool {
	if f.options.SignInPage == nil || !h.reads() {
		return false
	}
	switch string(h.path()) {
	case "/", pathPage, pathPage + "/":
		return strings.Contains(strings.ToLower(string(h.field(fasthttp.HeaderAccept))), "text/html")
	}
	return false
}

func (f *front) showSignInPage(w *answer) {
	header := w.header
	header.Set(fasthttp.HeaderContentSecurityPolicy, f.options.SignInPage.Policy)
	header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	header.Set(fasthttp.HeaderReferrerPolicy, "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set(fasthttp.HeaderCacheControl, "no-store")
	header.Set(fasthttp.HeaderVary, "Accept, Authorization")
	w.respond(http.StatusUnauthorized, "text/html; charset=utf-8", f.options.SignInPage.Body)
}

// challenge names the ways in which a client that nobody knows may show itself. Basic is not named where
// the page asks by itself: a browser would ask first, and knows no tokens.
func (f *front) challenge(answer answerHeader, path []byte) {
	if f.options.SignInPage == nil || !isPage(path) {
		answer.Add(fasthttp.HeaderWWWAuthenticate, `Basic realm="TickMesh", charset="UTF-8"`)
	}
	answer.Add(fasthttp.HeaderWWWAuthenticate, "Bearer")
}
