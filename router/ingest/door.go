package ingest

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"
)

// Door is a document in which a person says who is there. It comes with the status 401, is the
// same for everybody, and has all that it needs within: nothing else is answered before it is
// known who calls.
type Door struct {
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

// wantsDoor reports whether a request is that of a browser for the page.
func (f *front) wantsDoor(request *fasthttp.RequestCtx) bool {
	if f.options.Door == nil || !request.IsGet() && !request.IsHead() {
		return false
	}
	switch string(request.Path()) {
	case "/", pathPage, pathPage + "/":
		return strings.Contains(strings.ToLower(string(fieldOf(request, fasthttp.HeaderAccept))), "text/html")
	}
	return false
}

func (f *front) showDoor(request *fasthttp.RequestCtx) {
	header := &request.Response.Header
	header.Set(fasthttp.HeaderContentSecurityPolicy, f.options.Door.Policy)
	header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	header.Set(fasthttp.HeaderReferrerPolicy, "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set(fasthttp.HeaderCacheControl, "no-store")
	header.Set(fasthttp.HeaderVary, "Accept, Authorization")
	respond(request, fasthttp.StatusUnauthorized, "text/html; charset=utf-8", f.options.Door.Body)
}

// challenge tells a client that nobody knows how it may show itself. Basic is not named where
// the page asks by itself: a browser would ask first, and knows no tokens.
func (f *front) challenge(request *fasthttp.RequestCtx) {
	if f.options.Door == nil || !isPage(request.Path()) {
		request.Response.Header.Add(fasthttp.HeaderWWWAuthenticate, `Basic realm="TickMesh", charset="UTF-8"`)
	}
	request.Response.Header.Add(fasthttp.HeaderWWWAuthenticate, "Bearer")
}
