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
	if len(origin) > 0 && slices.ContainsFunc(f.options.Origins, func(o string) bool { return o == "*" || strings.EqualFold(o, string(origin)) }) {
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

// isHost says whether an origin is of a host, which may have a port.
func isHost(origin, host []byte) bool {
	_, of, ok := bytes.Cut(origin, []byte("://"))
	return ok && len(of) > 0 && bytes.EqualFold(of, host)
}
