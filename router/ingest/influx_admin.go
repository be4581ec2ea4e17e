package ingest

import (
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/router/access"
)

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

// influxQuery answers the statements that clients send before they write:
// CREATE DATABASE, which succeeds, as a database exists once it has a series,
// and SHOW DATABASES.
func (f *front) influxQuery(request *fasthttp.RequestCtx, c *caller) {
	request.Response.Header.Set(headerInfluxVersion, influxVersion)
	if !request.IsGet() && !request.IsPost() {
		f.influxMethod(request, "GET, POST")
		return
	}
	text := string(request.QueryArgs().Peek("q"))
	if request.IsGet() {
		leaveBody(request)
	} else {
		b := f.takeBody()
		defer f.restBody(b)
		body, err := b.read(f.base, request, "")
		if err != nil {
			leaveBody(request)
			f.influxFail(request, statusOf(err), messageOf(err))
			return
		}
		if text == "" {
			var form fasthttp.Args
			form.ParseBytes(body)
			text = string(form.Peek("q"))
		}
	}
	if strings.TrimSpace(text) == "" {
		f.influxFail(request, fasthttp.StatusBadRequest, `missing required parameter "q"`)
		return
	}
	f.answerStatements(request, c, text)
}

func (f *front) influxFail(request *fasthttp.RequestCtx, status int, message string) {
	request.Response.Header.Set(headerInfluxError, oneLine(message))
	respond(request, status, contentInflux, append(appendJSONMember([]byte{'{'}, "error", message), "}\n"...))
}

func (f *front) answerStatements(request *fasthttp.RequestCtx, c *caller, text string) {
	body := []byte(`{"results":[`)
	for i, statement := range statements(text) {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendJSONCount(append(body, '{'), "statement_id", i)
		words := strings.Fields(strings.ToUpper(statement))
		switch {
		case len(words) >= 3 && words[0] == "CREATE" && words[1] == "DATABASE":
			if err := c.may(access.Everything, access.Admin); err != nil {
				f.influxFail(request, statusOf(err), err.Error())
				return
			}
		case len(words) == 2 && words[0] == "SHOW" && words[1] == "DATABASES":
			names, err := f.options.Databases(f.base)
			if err != nil {
				f.influxFail(request, fasthttp.StatusServiceUnavailable, explain(err))
				return
			}
			body = appendDatabases(body, slices.DeleteFunc(names, func(name string) bool { return c.may(name, access.Read) != nil }))
		default:
			f.influxFail(request, fasthttp.StatusBadRequest, "not supported: "+strings.TrimSpace(statement))
			return
		}
		body = append(body, '}')
	}
	respond(request, fasthttp.StatusOK, contentInflux, append(body, "]}\n"...))
}

// statements cuts a query at its semicolons, those in quotes left alone.
func statements(text string) []string {
	const statementsMax = 100
	var all []string
	var quote byte
	start := 0
	for i := 0; i < len(text) && len(all) < statementsMax; i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == ';':
			if strings.TrimSpace(text[start:i]) != "" {
				all = append(all, text[start:i])
			}
			start = i + 1
		}
	}
	if rest := text[start:]; strings.TrimSpace(rest) != "" {
		all = append(all, rest)
	}
	return all
}

func appendDatabases(dst []byte, names []string) []byte {
	dst = append(dst, `,"series":[{"name":"databases","columns":["name"]`...)
	for i, name := range names {
		if i == 0 {
			dst = append(dst, `,"values":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(appendJSONString(append(dst, '['), name), ']')
	}
	if len(names) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, `}]`...)
}
