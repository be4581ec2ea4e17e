package ingest

import (
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// turnAway answers a question that is not let in, in the words of the dialect of its path.
func (f *front) turnAway(w *answer, h head, err error) {
	w.leaveBody()
	f.metrics.failures.noteEarly(err)
	path, status, message := string(h.path()), refusal.Status(err), refusal.Message(err)
	switch {
	case path == pathQuery:
		w.header.Set(headerInfluxError, refusal.OneLine(message))
		w.respond(status, contentInflux, influxError(message))
	case strings.HasPrefix(path, "/api/v1/"):
		body := appendJSONMember([]byte(`{"status":"error",`), "errorType", influx2Code(status))
		w.respond(status, contentInflux, append(appendJSONMember(append(body, ','), "error", message), '}'))
	case strings.HasPrefix(path, "/api/v2/"):
		code, body := influx2Error(status, message)
		w.header.Set(headerInflux2Error, code)
		w.respond(status, contentJSON, body)
	case strings.HasPrefix(path, "/api/"):
		w.respond(status, contentJSON, appendPutError(nil, status, message, ""))
	case status == fasthttp.StatusUnauthorized && f.wantsSignInPage(h):
		f.showSignInPage(w)
	default:
		w.respond(status, contentText, append([]byte(message), '\n'))
	}
}
