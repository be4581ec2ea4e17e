package ingest

import (
	"net/http"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/origin"
)

// senderOf returns whose page, if any, may have sent a request. Errors: origin.ErrHost,
// origin.ErrPage.
func (f *front) senderOf(h head) (origin.Sender, error) {
	r := origin.Request{
		Reads: h.reads(), Host: h.host(), Target: h.authority(),
		Origin: h.field(fasthttp.HeaderOrigin), FetchSite: h.field(origin.HeaderFetchSite),
	}
	if len(r.Origin) > 0 || len(r.FetchSite) > 0 { // only browsers send them
		r.ForwardedHost = h.field(origin.HeaderForwardedHost)
		r.FetchMode, r.FetchDest = h.field(origin.HeaderFetchMode), h.field(origin.HeaderFetchDest)
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
func answerPreflight(w *answer, r *http.Request, sender origin.Sender) bool {
	wanted := r.Header.Get(fasthttp.HeaderAccessControlRequestMethod)
	if sender == origin.Own || r.Method != http.MethodOptions || wanted == "" {
		return false
	}
	if sender == origin.Any { // of which nothing is let through that changes data
		wanted = "GET, HEAD, POST"
	}
	w.header.Set(fasthttp.HeaderAccessControlAllowMethods, wanted)
	if headers := r.Header.Get(fasthttp.HeaderAccessControlRequestHeaders); headers != "" {
		w.header.Set(fasthttp.HeaderAccessControlAllowHeaders, headers)
	}
	w.header.Set(fasthttp.HeaderAccessControlMaxAge, preflightSeconds)
	w.leaveBody()
	w.WriteHeader(http.StatusNoContent)
	return true
}

// exposedHeaders are those of answers that pages of other origins may look at.
const exposedHeaders = "Date, " + headerInfluxVersion + ", X-Influxdb-Error, X-Tickmesh-Missing-Shards"

// nameOrigin lets a page that was let in read the answer. Answers to requests to which the
// browser added credentials by itself stay closed to it: nothing says that it may see them.
func nameOrigin(answer answerHeader, h head, sender origin.Sender) {
	if sender == origin.Own {
		return
	}
	answer.Add(fasthttp.HeaderVary, fasthttp.HeaderOrigin)
	answer.Set(fasthttp.HeaderAccessControlAllowOrigin, string(h.field(fasthttp.HeaderOrigin)))
	answer.Set(fasthttp.HeaderAccessControlExposeHeaders, exposedHeaders)
}

// checkRead refuses a write by a page that may read only. What else changes data looks at the
// rights of the principal, which are cut to reading.
func (f *front) checkRead(h head, sender origin.Sender) error {
	if sender == origin.Any && f.dialects[string(h.path())] != nil {
		return origin.ErrReadOnly
	}
	return nil
}
