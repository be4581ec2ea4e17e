package ingest

import (
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// Where VictoriaMetrics takes lines of JSON, comma-separated values, and Prometheus' text format.
const (
	pathImport           = "/api/v1/import"
	pathImportCSV        = "/api/v1/import/csv"
	pathImportPrometheus = "/api/v1/import/prometheus"
)

// Query args of imports.
const (
	argumentFormat    = "format"    // of CSV: what its columns are
	argumentTimestamp = "timestamp" // of text: the time of samples that have none
)

// lineOptions returns how the body of an import, or a chunk of it, is parsed.
func (f *front) lineOptions(fl *inFlightWrite) parse.LineOptions {
	return parse.LineOptions{
		Limits: f.options.Limits.Line, NowMs: f.options.Clock().UnixMilli(),
		Partial: fl.chunk.more, LinesBefore: fl.chunk.lines, InsideLine: fl.chunk.insideLine,
	}
}

// parseImport takes the body of /api/v1/import, or a chunk of it.
func (f *front) parseImport(_ *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) (err error) {
	o := f.lineOptions(fl)
	o.Limits.LineBytesMax = max(o.Limits.LineBytesMax, parse.JSONLineBytesMax)
	fl.chunk.rest, err = parse.JSONLines(&fl.worker.batch, body, o)
	return err
}

// parseImportPrometheus takes the body of /api/v1/import/prometheus, or a chunk of it.
func (f *front) parseImportPrometheus(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) (err error) {
	o := f.lineOptions(fl)
	if text := request.QueryArgs().Peek(argumentTimestamp); len(text) > 0 {
		ms, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || !parse.Reachable(ms) {
			return fmt.Errorf("%w: timestamp is %q, want milliseconds since 1970", refusal.ErrArgument, text)
		}
		if ms != 0 { // which VictoriaMetrics takes for none
			o.NowMs = ms
		}
	}
	fl.chunk.rest, err = parse.Exposition(&fl.worker.batch, body, o)
	return err
}

// parseImportCSV takes the body of /api/v1/import/csv, or a chunk of it.
func (f *front) parseImportCSV(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	text := request.QueryArgs().Peek(argumentFormat)
	if len(text) == 0 {
		return fmt.Errorf("%w: the query arg format must say what the columns are, as in format=1:time:unix_s,2:label:room,3:metric:temperature", refusal.ErrArgument)
	}
	format, err := parse.ParseCSVFormat(string(text))
	if err != nil {
		return fmt.Errorf("%w: %w", refusal.ErrArgument, err)
	}
	fl.chunk.rest, err = parse.CSV(&fl.worker.batch, body, format, f.lineOptions(fl))
	return err
}

// answerImport answers with 204, or with plain text that says which lines are wrong: VictoriaMetrics only logs them.
func (f *front) answerImport(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	f.setCopies(request, r)
	if err != nil {
		respond(request, refusal.Status(err), contentText, append([]byte(refusal.Message(err)), '\n'))
		return
	}
	f.answerLabelled(request, fl, "lines")
}

// answerLabelled answers a write of series by their labels of which something was parsed.
func (f *front) answerLabelled(request *fasthttp.RequestCtx, fl *inFlightWrite, what string) {
	b := fl.batch()
	if b.ErrorsTotal == 0 {
		request.SetStatusCode(fasthttp.StatusNoContent)
		return
	}
	text := fl.text[:0]
	for i := range b.Errors {
		text = append(b.Errors[i].AppendTo(text), '\n')
	}
	if more := b.ErrorsTotal - len(b.Errors); more > 0 {
		text = fmt.Appendf(text, "and %d more %s\n", more, what)
	}
	fl.text = text
	respond(request, fasthttp.StatusBadRequest, contentText, text)
}
