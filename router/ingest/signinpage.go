package ingest

import (
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
