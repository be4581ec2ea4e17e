package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// The dialect's version, as clients choose their behaviour by it.
const (
	influxVersion       = "1.8.10"
	headerInfluxVersion = "X-Influxdb-Version"
	headerInfluxBuild   = "X-Influxdb-Build"
	headerInfluxError   = "X-Influxdb-Error"
	headerInflux2Error  = "X-Platform-Error-Code"
	// headerTextFields counts the fields that were left out because they hold text, which is no error without
	// Options.RefuseText: collectors send such beside numbers, and some drop all of what was refused in part.
	headerTextFields = "X-Tickmesh-Text-Fields"
	contentInflux    = "application/json"
)

// parseInflux1 takes the body of /write. `rp` names a retention policy, of which there is
// one, and is ignored; `consistency` is checked, "all" is LevelAll, and of the others none
// is less than a majority.
func (f *front) parseInflux1(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	switch level := request.QueryArgs().Peek("consistency"); string(bytes.ToLower(level)) {
	case "", "any", "one", "quorum":
	case "all":
		fl.options.level = series.LevelAll
	default:
		return fmt.Errorf("%w: invalid consistency level", refusal.ErrArgument)
	}
	return f.parseLines(request, fl, body, parse.PrecisionNs, "use n, u, ms, s, m or h")
}

// parseInflux2 takes the body of /api/v2/write; org is ignored.
func (f *front) parseInflux2(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	return f.parseLines(request, fl, body, parse.PrecisionNs, "use ns, us, ms or s")
}

// parseTickTock takes the body of /api/write, whose unit of time is guessed from
// each timestamp unless precision says it.
func (f *front) parseTickTock(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	return f.parseLines(request, fl, body, parse.PrecisionGuess, "use ns, us, ms, s, m or h")
}

func (f *front) parseLines(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte, precision parse.Precision, hint string) error {
	if text := request.QueryArgs().Peek("precision"); len(text) > 0 {
		var ok bool
		if precision, ok = parse.PrecisionOf(string(text)); !ok {
			return fmt.Errorf("%w: invalid precision %q (%s)", refusal.ErrArgument, text, hint)
		}
	}
	rest, err := parse.Lines(&fl.worker.batch, body, parse.LineOptions{
		Limits: f.options.Limits.Line, Precision: precision, NowMs: f.options.Clock().UnixMilli(),
		Partial: fl.chunk.more, InsideLine: fl.chunk.insideLine, RefuseText: f.options.RefuseText,
	})
	fl.chunk.rest = rest
	return err
}

// influxMessage words an error, or the lines that were left out, as InfluxDB 1.8
// does; empty means that all is well.
func influxMessage(dst []byte, b *parse.Batch, r result, err error) []byte {
	switch {
	case errors.Is(err, refusal.ErrArgument):
		return append(dst, err.Error()[len(refusal.ErrArgument.Error())+len(": "):]...)
	case err != nil:
		return append(dst, refusal.Message(err)...)
	case b.ErrorsTotal == 0:
		return dst
	}
	partial := r.accepted > 0 || slices.ContainsFunc(b.Errors, func(e parse.LineError) bool {
		return e.Kind == parse.KindRefused || e.Kind == parse.KindUnsupported
	})
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

// influxStatus returns the status of a write's answer.
func influxStatus(b *parse.Batch, err error) int {
	switch {
	case err != nil:
		return refusal.Status(err)
	case b.ErrorsTotal > 0:
		return fasthttp.StatusBadRequest
	default:
		return fasthttp.StatusNoContent
	}
}

// answerLines answers a write of line protocol; fail words an answer that is no
// success in the dialect of the path.
func (f *front) answerLines(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error, success int, fail func(status int, message string)) {
	f.setCopies(request, r)
	if r.skipped > 0 {
		setField(request, headerTextFields, strconv.AppendInt(nil, int64(r.skipped), 10))
	}
	var b *parse.Batch
	if fl != nil { // else err says why there was no room
		b = fl.batch()
	}
	if status := influxStatus(b, err); status != fasthttp.StatusNoContent {
		fail(status, string(influxMessage(nil, b, r, err)))
		return
	}
	request.SetStatusCode(success)
}

// answerInflux1 answers as services/httpd/handler.go of InfluxDB 1.8.
func (f *front) answerInflux1(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	setField(request, headerInfluxVersion, []byte(influxVersion))
	f.answerLines(request, fl, r, err, fasthttp.StatusNoContent, func(status int, message string) {
		influxFail(request, status, message)
	})
}

// answerTickTock is answerInflux1 with TickTock's status of success.
func (f *front) answerTickTock(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	f.answerLines(request, fl, r, err, fasthttp.StatusOK, func(status int, message string) {
		influxFail(request, status, message)
	})
}

// answerInflux2 answers as InfluxDB 2's http error encoder does.
func (f *front) answerInflux2(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	f.answerLines(request, fl, r, err, fasthttp.StatusNoContent, func(status int, message string) {
		influx2Fail(request, status, message)
	})
}

// influx2Fail answers an error as InfluxDB 2 does.
func influx2Fail(request *fasthttp.RequestCtx, status int, message string) {
	code, body := influx2Error(status, message)
	request.Response.Header.Set(headerInflux2Error, code)
	respond(request, status, contentJSON, body)
}

// influxFail answers an error as InfluxDB 1 does.
func influxFail(request *fasthttp.RequestCtx, status int, message string) {
	request.Response.Header.Set(headerInfluxError, refusal.OneLine(message))
	respond(request, status, contentInflux, influxError(message))
}
