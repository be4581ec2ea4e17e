package ingest

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/router/tenant"
)

// retryAfterSeconds is what clients are asked to wait after a 503.
const retryAfterSeconds = "1"

// respond sets status and body. A 503 asks the client to come back.
func respond(request *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	request.SetStatusCode(status)
	if contentType != "" {
		request.SetContentType(contentType)
	}
	if status == fasthttp.StatusServiceUnavailable {
		request.Response.Header.Set(fasthttp.HeaderRetryAfter, retryAfterSeconds)
	}
	request.SetBody(body)
}

// setRetryAfter sets when the client of a database that is written too fast should come back.
func setRetryAfter(request *fasthttp.RequestCtx, err error) {
	if late := (*tenant.RateError)(nil); errors.As(err, &late) {
		seconds := max(1, int(math.Ceil(float64(late.RetryAfter)/float64(time.Second))))
		request.Response.Header.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(seconds))
	}
}

// setCopies sets the header that counts the replicas that have the points in their logs.
func (f *front) setCopies(request *fasthttp.RequestCtx, r result) {
	if r.copies > 0 && (r.accepted > 0 || r.failed > 0) {
		var digits [20]byte
		setField(request, headerCopies, strconv.AppendInt(digits[:0], int64(r.copies), 10))
	}
}

// leaveBody notes that the rest of a request's body is not read, so that its
// connection cannot go on.
func leaveBody(request *fasthttp.RequestCtx) {
	if request.RequestBodyStream() == nil || request.Request.Header.ContentLength() == 0 {
		return
	}
	request.SetConnectionClose()
	lingerAfter(request)
}

// lingerAfter lets a client that is still sending read its answer.
func lingerAfter(request *fasthttp.RequestCtx) {
	if c, ok := request.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// challenge names the ways in which a client that nobody knows may show itself. Basic is not named where
// the page asks by itself: a browser would ask first, and knows no tokens.
func (f *front) challenge(answer answerHeader, path []byte) {
	if f.options.SignInPage == nil || !isPage(path) {
		answer.Add(fasthttp.HeaderWWWAuthenticate, `Basic realm="TickMesh", charset="UTF-8"`)
	}
	answer.Add(fasthttp.HeaderWWWAuthenticate, "Bearer")
}
