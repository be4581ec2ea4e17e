package ingest

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

const (
	contentJSON = "application/json; charset=UTF-8"
	contentText = "text/plain; charset=utf-8"
)

// parsePut takes a JSON datapoint, an array of them, or put lines.
func (f *front) parsePut(_ *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	switch isJSON, empty := looksLikeJSON(body); {
	case fl.chunk.number > 0: // JSON is never cut
	case empty:
		return refusal.ErrNoContent
	case isJSON:
		return parse.JSON(&fl.worker.batch, body, f.options.Limits.Line)
	}
	rest, err := parse.Puts(&fl.worker.batch, body, parse.PutOptions{
		Limits: f.options.Limits.Line, PutsOnly: true, Partial: fl.chunk.more, InsideLine: fl.chunk.insideLine,
	})
	fl.chunk.rest = rest
	return err
}

// looksLikeJSON reports whether a body, or the start of one, is JSON and no lines, or nothing.
func looksLikeJSON(body []byte) (is, empty bool) {
	for _, c := range body {
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return c == '{' || c == '[', false
		}
	}
	return false, true
}

// syncTimeoutMs returns the argument sync_timeout, 0 if there is none.
func syncTimeoutMs(request *fasthttp.RequestCtx) int {
	text := request.QueryArgs().Peek("sync_timeout")
	if len(text) == 0 {
		return 0
	}
	ms, err := strconv.Atoi(string(text))
	if err != nil || ms < 0 {
		return 0
	}
	return ms
}

// putTimeout is sync_timeout if that is less than the server's own.
func putTimeout(request *fasthttp.RequestCtx, timeout time.Duration) time.Duration {
	if ms := int64(syncTimeoutMs(request)); ms > 0 && ms < timeout.Milliseconds() {
		return time.Duration(ms) * time.Millisecond
	}
	return timeout
}

// answerPut answers /api/put as OpenTSDB 2.4 does (PutDataPointRpc.java), but
// for a write that timed out or was refused as a whole: that is 503, not 400, as
// Telegraf and TCollector throw a batch away on 400.
func (f *front) answerPut(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	args := request.QueryArgs()
	details := args.Has("details")
	withSummary := details || args.Has("summary")
	if err != nil && (r.failed == 0 || !withSummary) {
		f.answerPutError(request, r, err)
		return
	}
	b := fl.batch()
	if err == nil && r.lines == 0 && b.ErrorsTotal == 0 {
		respond(request, fasthttp.StatusBadRequest, contentJSON,
			appendPutError(nil, fasthttp.StatusBadRequest, "No datapoints found in content", ""))
		return
	}
	status := fasthttp.StatusOK
	switch {
	case err != nil:
		status = fasthttp.StatusServiceUnavailable
	case r.refused > 0:
		status = fasthttp.StatusBadRequest
	}
	f.setCopies(request, r)
	switch {
	case withSummary:
		fl.text = appendPutSummary(fl.text[:0], b, r, syncTimeoutMs(request) > 0, details)
		respond(request, status, contentJSON, fl.text)
	case r.refused > 0:
		respond(request, status, contentJSON, appendPutError(fl.text[:0], status, "One or more data points had errors",
			`Please see the TSD logs or append "details" to the put request`))
	default:
		request.SetStatusCode(fasthttp.StatusNoContent)
	}
}

func (f *front) answerPutError(request *fasthttp.RequestCtx, r result, err error) {
	status, message, details := refusal.Status(err), refusal.Message(err), ""
	f.setCopies(request, r)
	switch {
	case errors.Is(err, refusal.ErrMethod):
		message, details = "Method not allowed",
			fmt.Sprintf("The HTTP method [%s] is not permitted for this endpoint", request.Method())
	case errors.Is(err, refusal.ErrNoContent):
		message = "Missing request content"
	case errors.Is(err, parse.ErrMalformed):
		message, details = "Unable to parse the given JSON", err.Error()
	case r.failed > 0 && refusal.KindOf(err) == refusal.TimedOut:
		message, details = fmt.Sprintf("The put call has timedout with %d successful writes, %d failed writes and %d timed out writes.",
			r.accepted, r.refused, r.failed), refusal.Explain(err)
	}
	respond(request, status, contentJSON, appendPutError(nil, status, message, details))
}

// appendPutSummary appends the answer to ?summary and ?details.
func appendPutSummary(dst []byte, b *parse.Batch, r result, timed, details bool) []byte {
	dst = appendJSONCount(append(dst, '{'), "success", r.accepted)
	failed := r.refused
	if timed {
		dst = appendJSONCount(append(dst, ','), "timeouts", r.failed)
	} else {
		failed += r.failed
	}
	dst = appendJSONCount(append(dst, ','), "failed", failed)
	if !details {
		return append(dst, '}')
	}
	dst = append(dst, `,"errors":[`...)
	for i := range b.Errors {
		if i > 0 {
			dst = append(dst, ',')
		}
		e := &b.Errors[i]
		dst = appendDetail(dst, e.Detail, e.Text)
	}
	return append(dst, "]}"...)
}

const headerCopies = "X-Tickmesh-Copies"
