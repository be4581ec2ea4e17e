package ingest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/router/parse"
)

// The dialect's version, as clients choose their behaviour by it.
const (
	influxVersion       = "1.8.10"
	headerInfluxVersion = "X-Influxdb-Version"
	headerInfluxBuild   = "X-Influxdb-Build"
	headerInfluxError   = "X-Influxdb-Error"
	contentInflux       = "application/json"
)

// parseInflux1 takes the body of /write. `db` is the database, empty when it is
// missing; `rp` names a retention policy, of which there is one, and is ignored;
// `consistency` is checked but the cluster's own rule holds.
func (f *front) parseInflux1(request *fasthttp.RequestCtx, w *worker, body []byte) ([]byte, error) {
	args := request.QueryArgs()
	switch level := args.Peek("consistency"); string(bytes.ToLower(level)) {
	case "", "any", "one", "quorum", "all":
	default:
		return nil, fmt.Errorf("%w: invalid consistency level", errArgument)
	}
	return args.Peek("db"), f.parseLines(request, w, body, parse.PrecisionNs, "use n, u, ms, s, m or h")
}

// parseInflux2 takes the body of /api/v2/write. The bucket is "database" or
// "database/retention policy"; org and token are ignored.
func (f *front) parseInflux2(request *fasthttp.RequestCtx, w *worker, body []byte) ([]byte, error) {
	database, _, _ := bytes.Cut(request.QueryArgs().Peek("bucket"), []byte("/"))
	return database, f.parseLines(request, w, body, parse.PrecisionNs, "use ns, us, ms or s")
}

// parseTickTock takes the body of /api/write, whose unit of time is guessed from
// each timestamp unless precision says it.
func (f *front) parseTickTock(request *fasthttp.RequestCtx, w *worker, body []byte) ([]byte, error) {
	return request.QueryArgs().Peek("db"), f.parseLines(request, w, body, parse.PrecisionGuess, "use ns, us, ms, s, m or h")
}

func (f *front) parseLines(request *fasthttp.RequestCtx, w *worker, body []byte, precision parse.Precision, hint string) error {
	if text := request.QueryArgs().Peek("precision"); len(text) > 0 {
		var ok bool
		if precision, ok = parse.PrecisionOf(string(text)); !ok {
			return fmt.Errorf("%w: invalid precision %q (%s)", errArgument, text, hint)
		}
	}
	_, err := parse.Lines(&w.batch, body, parse.LineOptions{
		Limits: f.options.Limits.Line, Precision: precision, NowMs: f.options.Clock().UnixMilli(),
	})
	return err
}

// influxMessage words an error, or the lines that were left out, as InfluxDB 1.8
// does; empty means that all is well.
func influxMessage(dst []byte, b *parse.Batch, r result, err error) []byte {
	switch {
	case errors.Is(err, errArgument):
		return append(dst, err.Error()[len(errArgument.Error())+len(": "):]...)
	case err != nil:
		return append(dst, messageOf(err)...)
	case b.ErrorsTotal == 0:
		return dst
	}
	partial := r.accepted > 0 || b.Errors[0].Kind == parse.KindRefused
	if partial {
		dst = append(dst, "partial write: "...)
	}
	for i := range b.Errors {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = b.Errors[i].AppendTo(dst)
	}
	if more := b.ErrorsTotal - len(b.Errors); more > 0 {
		dst = fmt.Appendf(dst, "\nand %d more lines", more)
	}
	if partial {
		dst = fmt.Appendf(dst, " dropped=%d", r.refused)
	}
	return dst
}

// influxStatus gives the status of a write's answer.
func influxStatus(b *parse.Batch, err error) int {
	switch {
	case err != nil:
		return statusOf(err)
	case b.ErrorsTotal > 0:
		return fasthttp.StatusBadRequest
	default:
		return fasthttp.StatusNoContent
	}
}

// answerInflux1 answers as services/httpd/handler.go of InfluxDB 1.8.
func (f *front) answerInflux1(request *fasthttp.RequestCtx, w *worker, r result, err error) {
	header := &request.Response.Header
	header.Set(headerInfluxVersion, influxVersion)
	f.setCopies(request, r)
	var b *parse.Batch
	if w != nil {
		b = &w.batch
	}
	status := influxStatus(b, err)
	if status == fasthttp.StatusNoContent {
		request.SetStatusCode(status)
		return
	}
	message := string(influxMessage(nil, b, r, err))
	header.Set(headerInfluxError, oneLine(message))
	respond(request, status, contentInflux, append(appendJSONMember([]byte{'{'}, "error", message), "}\n"...))
}

// answerTickTock is answerInflux1 with TickTock's status of success.
func (f *front) answerTickTock(request *fasthttp.RequestCtx, w *worker, r result, err error) {
	f.answerInflux1(request, w, r, err)
	if request.Response.StatusCode() == fasthttp.StatusNoContent {
		request.SetStatusCode(fasthttp.StatusOK)
	}
}

// answerInflux2 answers as InfluxDB 2's http error encoder does.
func (f *front) answerInflux2(request *fasthttp.RequestCtx, w *worker, r result, err error) {
	f.setCopies(request, r)
	var b *parse.Batch
	if w != nil {
		b = &w.batch
	}
	status := influxStatus(b, err)
	if status == fasthttp.StatusNoContent {
		request.SetStatusCode(status)
		return
	}
	code := "invalid"
	switch status {
	case fasthttp.StatusMethodNotAllowed:
		code = "method not allowed"
	case fasthttp.StatusRequestEntityTooLarge:
		code = "request too large"
	case fasthttp.StatusServiceUnavailable:
		code = "unavailable"
	}
	request.Response.Header.Set("X-Platform-Error-Code", code)
	body := appendJSONMember([]byte{'{'}, "code", code)
	body = appendJSONMember(append(body, ','), "message", string(influxMessage(nil, b, r, err)))
	respond(request, status, contentJSON, append(body, '}'))
}
