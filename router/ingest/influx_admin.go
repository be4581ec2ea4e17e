package ingest

import "github.com/valyala/fasthttp"

// ping answers /ping: 204, or 200 with the version for ?verbose.
func (f *front) ping(request *fasthttp.RequestCtx) {
	leaveBody(request)
	header := &request.Response.Header
	header.Set(headerInfluxVersion, influxVersion)
	header.Set(headerInfluxBuild, "OSS")
	if !request.IsGet() && !request.IsHead() {
		f.influxMethod(request, "GET, HEAD")
		return
	}
	if verbose := request.QueryArgs().Peek("verbose"); len(verbose) == 0 || string(verbose) == "0" || string(verbose) == "false" {
		request.SetStatusCode(fasthttp.StatusNoContent)
		return
	}
	body := append(appendJSONMember([]byte{'{'}, "version", influxVersion), '}')
	respond(request, fasthttp.StatusOK, contentInflux, body)
}

// health answers /health: the process takes requests. Whether the storage takes
// writes is what a write is told.
func (f *front) health(request *fasthttp.RequestCtx) {
	leaveBody(request)
	request.Response.Header.Set(headerInfluxVersion, influxVersion)
	if !request.IsGet() && !request.IsHead() {
		f.influxMethod(request, "GET, HEAD")
		return
	}
	body := append([]byte(nil), `{"checks":[],"message":"ready for queries and writes","name":"influxdb","status":"pass",`...)
	body = append(appendJSONMember(body, "version", influxVersion), '}')
	respond(request, fasthttp.StatusOK, contentInflux, body)
}

func (f *front) influxMethod(request *fasthttp.RequestCtx, allowed string) {
	request.Response.Header.Set(fasthttp.HeaderAllow, allowed)
	leaveBody(request)
	respond(request, fasthttp.StatusMethodNotAllowed, contentInflux, []byte(`{"error":"method not allowed"}`+"\n"))
}

func (f *front) influxFail(request *fasthttp.RequestCtx, status int, message string) {
	request.Response.Header.Set(headerInfluxError, oneLine(message))
	respond(request, status, contentInflux, append(appendJSONMember([]byte{'{'}, "error", message), "}\n"...))
}
