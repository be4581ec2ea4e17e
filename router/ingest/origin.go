package ingest

import (
	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/origin"
)

// senderOf returns whose page, if any, may have sent a request. Errors: origin.ErrHost,
// origin.ErrPage.
func (f *front) senderOf(request *fasthttp.RequestCtx) (origin.Sender, error) {
	header := &request.Request.Header
	r := origin.Request{
		Reads: request.IsGet() || request.IsHead(), Host: header.Host(),
		Origin: fieldOf(request, fasthttp.HeaderOrigin), FetchSite: fieldOf(request, origin.HeaderFetchSite),
	}
	if target := header.RequestURI(); len(target) > 0 && target[0] != '/' {
		r.Target = request.URI().Host()
	}
	if len(r.Origin) > 0 || len(r.FetchSite) > 0 { // only browsers send them
		r.ForwardedHost = fieldOf(request, origin.HeaderForwardedHost)
		r.FetchMode, r.FetchDest = fieldOf(request, origin.HeaderFetchMode), fieldOf(request, origin.HeaderFetchDest)
	}
	return f.options.Pages.Check(&r)
}

// preflightSeconds is how long a browser may keep the answer to a preflight.
const preflightSeconds = "600"

// answerPreflight answers what a browser asks before it sends a request for a page of another
// origin, and reports whether it has. Such a question can have no credentials (WHATWG Fetch,
// CORS-preflight fetch), so it is answered to who is not known: for pages that are let in
// only, and no more than that the request may be sent, which has to show who calls then, as
// any other. Writes are not for pages.
func (f *front) answerPreflight(request *fasthttp.RequestCtx, sender origin.Sender) bool {
	wanted := fieldOf(request, fasthttp.HeaderAccessControlRequestMethod)
	if sender == origin.Own || !request.IsOptions() || len(wanted) == 0 || f.dialects[string(request.Path())] != nil {
		return false
	}
	leaveBody(request)
	respond(request, fasthttp.StatusNoContent, "", nil)
	answer := &request.Response.Header
	if sender == origin.Any { // of which nothing is let through that changes data
		wanted = []byte("GET, HEAD, POST")
	}
	answer.SetBytesV(fasthttp.HeaderAccessControlAllowMethods, wanted)
	if headers := fieldOf(request, fasthttp.HeaderAccessControlRequestHeaders); len(headers) > 0 {
		answer.SetBytesV(fasthttp.HeaderAccessControlAllowHeaders, headers)
	}
	answer.Set(fasthttp.HeaderAccessControlMaxAge, preflightSeconds)
	return true
}

// exposedHeaders are those of answers that pages of other origins may look at.
const exposedHeaders = "Date, " + headerInfluxVersion + ", X-Influxdb-Error, X-Tickmesh-Missing-Shards"

// nameOrigin lets a page that was let in read the answer. Answers to requests to which the
// browser added credentials by itself stay closed to it: nothing says that it may see them.
func (f *front) nameOrigin(request *fasthttp.RequestCtx, sender origin.Sender) {
	if sender == origin.Own {
		return
	}
	header := &request.Response.Header
	header.Add(fasthttp.HeaderVary, fasthttp.HeaderOrigin)
	header.SetBytesV(fasthttp.HeaderAccessControlAllowOrigin, fieldOf(request, fasthttp.HeaderOrigin))
	header.Set(fasthttp.HeaderAccessControlExposeHeaders, exposedHeaders)
}

// checkRead refuses a write by a page that may read only. What else changes data looks at the
// rights of the principal, which are cut to reading.
func (f *front) checkRead(request *fasthttp.RequestCtx, sender origin.Sender) error {
	if sender == origin.Any && f.dialects[string(request.Path())] != nil {
		return origin.ErrReadOnly
	}
	return nil
}
