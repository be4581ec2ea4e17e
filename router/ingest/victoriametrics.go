package ingest

import (
	"fmt"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
)

// pathImport is where VictoriaMetrics takes lines of JSON.
const pathImport = "/api/v1/import"

// parseImport takes the body of /api/v1/import, or a chunk of it.
func (f *front) parseImport(_ *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	rest, err := parse.JSONLines(&fl.worker.batch, body, parse.LineOptions{
		Limits: f.options.Limits.Line, Partial: fl.chunk.more, InsideLine: fl.chunk.insideLine,
	})
	fl.chunk.rest = rest
	return err
}

// answerImport answers with 204, or with plain text that says which lines are wrong: VictoriaMetrics only logs them.
func (f *front) answerImport(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	f.setCopies(request, r)
	if err != nil {
		respond(request, statusOf(err), contentText, append([]byte(messageOf(err)), '\n'))
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
