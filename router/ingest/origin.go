package ingest

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// Headers by which browsers say which page sends a request. No script of a page can set them,
// nor, without being asked for by a preflight, headerForwardedHost.
const (
	headerFetchSite     = "Sec-Fetch-Site"
	headerFetchMode     = "Sec-Fetch-Mode"
	headerFetchDest     = "Sec-Fetch-Dest"
	headerForwardedHost = "X-Forwarded-Host" // what the browser asked for, before a proxy changed it
)

var errOrigin = errors.New("a page of another origin may not use the rights that a browser keeps for this server: name the origin by --cors-origins")

// checkOrigin refuses what a browser sends for a page of another origin. Browsers add the
// password or the certificate of this server to it by themselves, so any page could write,
// delete, or read by jsonp with the rights of whoever looks at it. Pages of Options.Origins
// are let in, and so is a click that leads here, which shows the page nothing. Errors:
// errOrigin.
func (f *front) checkOrigin(request *fasthttp.RequestCtx) error {
	header := &request.Request.Header
	origin := header.Peek(fasthttp.HeaderOrigin)
	if f.isTrusted(origin) {
		return nil
	}
	switch string(header.Peek(headerFetchSite)) {
	case "same-origin", "none":
		return nil
	case "": // no browser, an old one, or one that does without where there is no TLS
		if len(origin) == 0 || isHost(origin, header.Host()) || isHost(origin, header.Peek(headerForwardedHost)) {
			return nil
		}
		return errOrigin
	}
	if (request.IsGet() || request.IsHead()) && string(header.Peek(headerFetchMode)) == "navigate" && string(header.Peek(headerFetchDest)) == "document" {
		return nil
	}
	return errOrigin
}

// isTrusted says whether an origin is one of Options.Origins.
func (f *front) isTrusted(origin []byte) bool {
	return len(origin) > 0 && slices.ContainsFunc(f.options.Origins, func(o string) bool { return o == "*" || strings.EqualFold(o, string(origin)) })
}

// preflightSeconds is how long a browser may keep the answer to a preflight.
const preflightSeconds = "600"

// answerPreflight answers what a browser asks before it sends a request for a page of another
// origin, and says whether it has. Such a question can have no credentials (WHATWG Fetch,
// CORS-preflight fetch), so it is answered to who is not known: for pages of Options.Origins
// only, and no more than that the request may be sent, which has to show who calls then, as
// any other. Writes are not for pages.
func (f *front) answerPreflight(request *fasthttp.RequestCtx) bool {
	header := &request.Request.Header
	origin, wanted := header.Peek(fasthttp.HeaderOrigin), header.Peek(fasthttp.HeaderAccessControlRequestMethod)
	if !request.IsOptions() || len(wanted) == 0 || !f.isTrusted(origin) || f.dialects[string(request.Path())] != nil {
		return false
	}
	leaveBody(request)
	respond(request, fasthttp.StatusNoContent, "", nil)
	f.nameOrigin(request)
	answer := &request.Response.Header
	answer.SetBytesV(fasthttp.HeaderAccessControlAllowMethods, wanted)
	if headers := header.Peek(fasthttp.HeaderAccessControlRequestHeaders); len(headers) > 0 {
		answer.SetBytesV(fasthttp.HeaderAccessControlAllowHeaders, headers)
	}
	answer.Set(fasthttp.HeaderAccessControlMaxAge, preflightSeconds)
	return true
}

// nameOrigin lets a page of Options.Origins read an answer that no handler has made.
func (f *front) nameOrigin(request *fasthttp.RequestCtx) {
	if origin := request.Request.Header.Peek(fasthttp.HeaderOrigin); f.isTrusted(origin) {
		request.Response.Header.Add(fasthttp.HeaderVary, fasthttp.HeaderOrigin)
		request.Response.Header.SetBytesV(fasthttp.HeaderAccessControlAllowOrigin, origin)
	}
}

// isHost says whether an origin is of a host, which may have a port.
func isHost(origin, host []byte) bool {
	_, of, ok := bytes.Cut(origin, []byte("://"))
	return ok && len(of) > 0 && bytes.EqualFold(of, host)
}
