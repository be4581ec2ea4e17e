package ingest

import "github.com/valyala/fasthttp"

// headerDatabase is access.DatabaseHeader as fasthttp keeps it.
const headerDatabase = "X-Scope-Orgid"

// fieldOf returns the first value of a request's header field, nil when it was not sent. The name
// is in fasthttp's canonical form, as in all functions here: Peek brings it there at each look-up,
// which took 3 % of what a write of 200 points costs on its way through this package.
func fieldOf(request *fasthttp.RequestCtx, name string) []byte {
	return request.Request.Header.PeekCanonical([]byte(name))
}

// fieldsOf returns all values of a request's header field.
func fieldsOf(request *fasthttp.RequestCtx, name string) [][]byte {
	if fieldOf(request, name) == nil {
		return nil
	}
	return request.Request.Header.PeekAll(name)
}

// setField sets a header field of the answer.
func setField(request *fasthttp.RequestCtx, name string, value []byte) {
	request.Response.Header.SetCanonical([]byte(name), value)
}
