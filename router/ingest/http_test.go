package ingest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/tickmesh/tickmesh/api/series"
)

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func deflated(text string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

const (
	errorsPut = `{"error":{"code":400,"message":"One or more data points had errors",` +
		`"details":"Please see the TSD logs or append \"details\" to the put request"}}`
	onePoint = `{"metric":"sys.cpu","timestamp":1700000000,"value":1.5,"tags":{"host":"a"}}`
)

// The writes of dialects.md: literal bytes in, status, headers, body and samples
// out. A body that ends with "…" is a prefix.
var httpWrites = []struct {
	name, raw string
	status    int
	headers   map[string]string
	body      string
	stored    []string
}{
	// OpenTSDB /api/put
	{"put object", request("/api/put", onePoint), 204, map[string]string{headerCopies: "2"}, "",
		[]string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put array", request("/api/put", `[`+onePoint+`,{"metric":"m","timestamp":1700000000123,"value":"42","tags":{"a":"1"}}]`), 204, nil, "",
		[]string{"sys.cpu{host=a} 1700000000000 1.5", "m{a=1} 1700000000123 42"}},
	{"put by PUT", strings.Replace(request("/api/put", onePoint), "POST", "PUT", 1), 204, nil, "",
		[]string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put lines", request("/api/put", "put m 1700000000 2 a=b\nput n 1700000000 3\n"), 204, nil, "",
		[]string{"m{a=b} 1700000000000 2", "n{} 1700000000000 3"}},
	{"put lines after blanks", request("/api/put", "\r\n  put m 1700000000 2 a=b"), 204, nil, "",
		[]string{"m{a=b} 1700000000000 2"}},
	{"put JSON as a form", request("/api/put", onePoint, "Content-Type: application/x-www-form-urlencoded"), 204, nil, "",
		[]string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put gzip", request("/api/put", gzipped(onePoint), "content-ENCODING: gzip"), 204, nil, "",
		[]string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put deflate", request("/api/put", deflated(onePoint), "Content-Encoding: deflate"), 204, nil, "",
		[]string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put summary", request("/api/put?summary", onePoint), 200, map[string]string{"Content-Type": contentJSON},
		`{"success":1,"failed":0}`, []string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put details", request("/api/put?details", onePoint), 200, nil,
		`{"success":1,"failed":0,"errors":[]}`, []string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put sync", request("/api/put?sync&sync_timeout=60000&summary=true", onePoint), 200, nil,
		`{"success":1,"timeouts":0,"failed":0}`, []string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put one bad", request("/api/put", `[`+onePoint+`,{"metric":"m","timestamp":1700000000,"value":"x","tags":{"a":"1"}}]`), 400, nil,
		errorsPut, []string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put one bad, summary", request("/api/put?summary", `[`+onePoint+`,{"metric":"m","timestamp":1700000000,"value":"x","tags":{"a":"1"}}]`), 400, nil,
		`{"success":1,"failed":1}`, []string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put one bad, details", request("/api/put?details", `[`+onePoint+`,{"metric":"m","timestamp":1700000000,"value":"x","tags":{"a":"1"}}]`), 400, nil,
		`{"success":1,"failed":1,"errors":[{"error":"Unable to parse value to a number","datapoint":{"metric":"m","timestamp":1700000000,"value":"x","tags":{"a":"1"}}}]}`,
		[]string{"sys.cpu{host=a} 1700000000000 1.5"}},
	{"put lines, one bad, details", request("/api/put?details", "put m 1700000000 2 a=b\nput m x 2 a=b\nwhat is this\n"), 400, nil,
		`{"success":1,"failed":2,"errors":[{"error":"…`, []string{"m{a=b} 1700000000000 2"}},
	{"put empty", request("/api/put", ""), 400, nil, `{"error":{"code":400,"message":"Missing request content"}}`, nil},
	{"put no points", request("/api/put", "[]"), 400, nil, `{"error":{"code":400,"message":"No datapoints found in content"}}`, nil},
	{"put broken JSON", request("/api/put", `{"metric":`), 400, nil, `{"error":{"code":400,"message":"Unable to parse the given JSON","details":"…`, nil},
	{"put by GET", "GET /api/put HTTP/1.1\r\nHost: x\r\n\r\n", 405, nil,
		`{"error":{"code":405,"message":"Method not allowed","details":"The HTTP method [GET] is not permitted for this endpoint"}}`, nil},
	{"put unknown encoding", request("/api/put", onePoint, "Content-Encoding: br"), 415, nil, `{"error":{"code":415,"message":"…`, nil},
	{"put broken gzip", request("/api/put", "not gzip", "Content-Encoding: gzip"), 400, nil, `{"error":{"code":400,"message":"…`, nil},
	{"put cut gzip", request("/api/put", gzipped(onePoint)[:40], "Content-Encoding: gzip"), 400, nil, `{"error":{"code":400,"message":"…`, nil},
	{"unknown path", "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404, nil,
		`{"error":{"code":404,"message":"Endpoint not found","details":"The requested endpoint was not found"}}`, nil},

	// InfluxDB 1.x /write
	{"line", request("/write?db=telegraf&precision=s", "cpu,host=a usage=1.5,value=2i 1700000000\n"), 204,
		map[string]string{headerInfluxVersion: influxVersion, headerCopies: "2"}, "",
		[]string{"telegraf/cpu{_field=usage,host=a} 1700000000000 1.5", "telegraf/cpu{host=a} 1700000000000 2"}},
	{"line without database", request("/write", "m value=1 1700000000000000000"), 204, nil, "", []string{"m{} 1700000000000 1"}},
	{"line rp and consistency", request("/write?db=d&rp=autogen&consistency=one&precision=ms", "m value=1 1700000000000"), 204, nil, "",
		[]string{"d/m{} 1700000000000 1"}},
	{"line server time", request("/write?db=d", "m value=1"), 204, nil, "", []string{"d/m{} 1700000123456 1"}},
	{"line precision u", request("/write?db=d&precision=u", "m value=1 1700000000123456"), 204, nil, "", []string{"d/m{} 1700000000123 1"}},
	{"line precision µ", request("/write?db=d&precision=%C2%B5", "m value=1 1700000000123456"), 204, nil, "", []string{"d/m{} 1700000000123 1"}},
	{"line precision h", request("/write?db=d&precision=h", "m value=1 472222"), 204, nil, "", []string{"d/m{} 1699999200000 1"}},
	{"line gzip", request("/write?db=d", gzipped("m value=1 1700000000000000000"), "Content-Encoding: gzip"), 204, nil, "",
		[]string{"d/m{} 1700000000000 1"}},
	{"line text fields", request("/write?db=d", `m s="text",value=1 1700000000000000000`), 204, nil, "", []string{"d/m{} 1700000000000 1"}},
	{"line empty", request("/write?db=d", ""), 204, nil, "", nil},
	{"line all bad", request("/write?db=d", "m,\n"), 400, map[string]string{"Content-Type": contentInflux}, `{"error":"unable to parse 'm,'…`, nil},
	{"line partial", request("/write?db=d", "m value=1 1700000000000000000\nbad\nm value=2 1700000001000000000\n"), 400, nil,
		`{"error":"partial write: unable to parse 'bad': missing fields dropped=1"}` + "\n",
		[]string{"d/m{} 1700000000000 1", "d/m{} 1700000001000 2"}},
	{"line precision unknown", request("/write?db=d&precision=x", "m value=1"), 400,
		map[string]string{"X-InfluxDB-Error": `invalid precision "x" (use n, u, ms, s, m or h)`},
		`{"error":"invalid precision \"x\" (use n, u, ms, s, m or h)"}` + "\n", nil},
	{"line consistency unknown", request("/write?db=d&consistency=x", "m value=1"), 400, nil, `{"error":"invalid consistency level"}` + "\n", nil},
	{"line by GET", "GET /write HTTP/1.1\r\nHost: x\r\n\r\n", 405, map[string]string{"Allow": "POST"}, `{"error":"method not allowed"}` + "\n", nil},

	// InfluxDB 2.x
	{"v2", request("/api/v2/write?org=o&bucket=b/rp&precision=s", "m value=1 1700000000", "Authorization: Token t"), 204, nil, "",
		[]string{"b/m{} 1700000000000 1"}},
	{"v2 bad", request("/api/v2/write?org=o&bucket=b", "bad"), 400, nil,
		`{"code":"invalid","message":"unable to parse 'bad': missing fields"}`, nil},
	{"v2 by GET", "GET /api/v2/write HTTP/1.1\r\nHost: x\r\n\r\n", 405, nil, `{"code":"method not allowed","message":"method not allowed"}`, nil},

	// TickTock
	{"ticktock", request("/api/write", "m,a=b x=1 1700000000\nm,a=b x=2 1700000001000\nm,a=b x=3 1700000002000000\nm,a=b x=4 1700000003000000000\n"), 200, nil, "",
		[]string{"m{_field=x,a=b} 1700000000000 1", "m{_field=x,a=b} 1700000001000 2", "m{_field=x,a=b} 1700000002000 3", "m{_field=x,a=b} 1700000003000 4"}},

	// VictoriaMetrics
	{"import", request("/api/v1/import?db=d", `{"metric":{"__name__":"m","a":"b"},"values":[1,"-Infinity"],"timestamps":[1700000000000,1700000000001]}`+"\n"), 204, nil, "",
		[]string{"d/m{a=b} 1700000000000 1", "d/m{a=b} 1700000000001 -Inf"}},
	{"import gzip", request("/api/v1/import", gzipped(`{"metric":{"__name__":"m"},"values":[1],"timestamps":[5]}`), "Content-Encoding: gzip"), 204, nil, "", []string{"m{} 5 1"}},
	{"import one bad", request("/api/v1/import", "{}\n"+`{"metric":{"__name__":"m"},"values":[1],"timestamps":[5]}`), 400, map[string]string{"Content-Type": contentText},
		"series 1: \"metric\" must be an object of labels\n", []string{"m{} 5 1"}},
	{"import nameless", request("/api/v1/import", `{"metric":{"a":"b"},"values":[1],"timestamps":[5]}`), 400, nil, "series 1: invalid metric name or labels: no __name__\n", nil},
	{"import with extra labels", request("/api/v1/import?extra_label=host=x&extra_label=host=y&extra_label=none=", `{"metric":{"__name__":"m","host":"b","a":"b"},"values":[1],"timestamps":[5]}`), 204, nil, "",
		[]string{"m{a=b,host=y} 5 1"}},
	{"import with a bad extra label", request("/api/v1/import?extra_label=host", `{"metric":{"__name__":"m"},"values":[1],"timestamps":[5]}`), 400, nil,
		"bad argument: extra_label is not of the form name=value: \"host\"\n", nil},
	{"import text", request("/api/v1/import/prometheus?db=d", "# TYPE m gauge\nm{a=\"b\"} 1 1700000000000\nm{a=\"b\"} +Inf 1700000001\n"), 204, nil, "",
		[]string{"d/m{a=b} 1700000000000 1", "d/m{a=b} 1700000001000 +Inf"}},
	{"import text with a time", request("/api/v1/import/prometheus?timestamp=1700000000123&extra_label=job=x", "m 1\nm{job=\"y\"} 2 1700000000124"), 204, nil, "",
		[]string{"m{job=x} 1700000000123 1", "m{job=x} 1700000000124 2"}},
	{"import text gzip", request("/api/v1/import/prometheus", gzipped("m 1 1700000000000"), "Content-Encoding: gzip"), 204, nil, "", []string{"m{} 1700000000000 1"}},
	{"import text snappy", request("/api/v1/import/prometheus", string(snappy.Encode(nil, []byte("m 1 1700000000000"))), "Content-Encoding: snappy"), 204, nil, "", []string{"m{} 1700000000000 1"}},
	{"import text one bad", request("/api/v1/import/prometheus", "m 1 1700000000000\nm{a=\"b} 1\n"), 400, map[string]string{"Content-Type": contentText},
		"line 2: the value of the label \"a\" must be in double quotes (line 'm{a=\"b} 1')\n", []string{"m{} 1700000000000 1"}},
	{"import text twice a label", request("/api/v1/import/prometheus", "m{a=\"1\",a=\"2\"} 1 1700000000000"), 400, nil,
		"line 1: invalid labels for series, duplicated label a (line 'm{a=\"1\",a=\"2\"} 1 1700000000000')\n", nil},
	{"import text with a bad time", request("/api/v1/import/prometheus?timestamp=now", "m 1"), 400, nil, "bad argument: timestamp is \"now\", want milliseconds since 1970\n", nil},
	{"import CSV", request("/api/v1/import/csv?db=d&format=1:time:unix_s,3:label:room,2:metric:temp,4:metric:hum&extra_label=dc=x", "time,temp,room,hum\n1700000000,19.5,\"a \"\"b\"\"\",60\n1700000001,,attic,61,more\n"), 204, nil, "",
		[]string{`d/hum{dc=x,room=a "b"} 1700000000000 60`, "d/hum{dc=x,room=attic} 1700000001000 61", `d/temp{dc=x,room=a "b"} 1700000000000 19.5`}},
	{"import CSV one bad", request("/api/v1/import/csv?format=1:time:rfc3339,2:metric:m", "2023-11-14T22:13:20Z,1\nnow,2\n2023-11-14T22:13:20.5Z,3\n2023-11-14T22:13:21Z\n"), 400, map[string]string{"Content-Type": contentText},
		"line 2: column 1: the time \"now\" is not of the form \"2006-01-02T15:04:05Z07:00\" (line 'now,2')\nline 4: 1 columns, and the format wants 2 (line '2023-11-14T22:13:21Z')\n",
		[]string{"m{} 1700000000000 1", "m{} 1700000000500 3"}},
	{"import CSV without a format", request("/api/v1/import/csv", "1,2"), 400, nil, "bad argument: the query arg format must say what the columns are, as in format=1:time:unix_s,2:label:room,3:metric:temperature\n", nil},
	{"import CSV with a bad format", request("/api/v1/import/csv?format=1:time:unix_s", "1,2"), 400, nil, "bad argument: format: no column is a metric, as in 2:metric:temperature\n", nil},
	{"extra labels of line protocol", request("/write?extra_label=host=y", "m,host=x value=1 1700000000000000000\nm v=2 1700000000000000000"), 204, nil, "",
		[]string{"m{_field=v,host=y} 1700000000000 2", "m{host=y} 1700000000000 1"}},
	{"extra labels of put", request("/api/put?extra_label=host=y", onePoint), 204, nil, "", []string{"sys.cpu{host=y} 1700000000000 1.5"}},
	{"import by GET", "GET /api/v1/import HTTP/1.1\r\nHost: x\r\n\r\n", 405, map[string]string{"Allow": "POST"}, "method not allowed\n", nil},

	// What HTTP allows
	{"HTTP/1.0", "POST /write?db=d HTTP/1.0\r\nContent-Length: 31\r\n\r\nm value=1 1700000000000000000\n\n", 204, nil, "", []string{"d/m{} 1700000000000 1"}},
	{"chunked", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nm value=1\r\n14\r\n 1700000000000000000\r\n0\r\n\r\n", 204, nil, "",
		[]string{"d/m{} 1700000000000 1"}},
	{"lower-case headers", "POST /write?db=d HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\nm value=1 1700000000000000000\n\n", 204, nil, "", []string{"d/m{} 1700000000000 1"}},

	// InfluxDB's administration
	{"ping", "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n", 204, map[string]string{headerInfluxVersion: influxVersion}, "", nil},
	{"ping verbose", "GET /ping?verbose=true HTTP/1.1\r\nHost: x\r\n\r\n", 200, nil, `{"version":"1.8.10"}`, nil},
	{"health", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 200, nil,
		`{"checks":[],"message":"ready for queries and writes","name":"influxdb","status":"pass","version":"1.8.10"}`, nil},
}

func TestHTTPWrites(t *testing.T) {
	for _, c := range httpWrites {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil)
			response, body := r.post(t, c.raw)
			if response.StatusCode != c.status {
				t.Errorf("status is %d, want %d; body %s", response.StatusCode, c.status, body)
			}
			if prefix, cut := strings.CutSuffix(c.body, "…"); cut && !strings.HasPrefix(body, prefix) || !cut && body != c.body {
				t.Errorf("body:\n got %s\nwant %s", body, c.body)
			}
			for name, want := range c.headers {
				if got := response.Header.Get(name); got != want {
					t.Errorf("header %s is %q, want %q", name, got, want)
				}
			}
			if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") && !json.Valid([]byte(body)) {
				t.Errorf("not JSON: %s", body)
			}
			equalLines(t, "stored", r.stored(), c.stored)
		})
	}
}

// What another try may cure is never a 4xx, asks to come back, and never has the
// words that Telegraf takes for success.
func TestWriteErrorsAre503(t *testing.T) {
	bodies := map[string]string{
		"/api/put": onePoint, "/api/put?summary": onePoint, "/api/put?details&sync_timeout=5000": onePoint,
		"/write?db=d": "m value=1", "/api/v2/write?bucket=b": "m value=1", "/api/write": "m value=1",
	}
	for _, kind := range []error{series.ErrUnavailable, series.ErrOverloaded, series.ErrReadOnly, series.ErrSeriesLimit, http.ErrAbortHandler} {
		r := start(t, nil)
		r.beforeWrites(failing(kind, "partial write: hinted handoff queue not empty"))
		for target, body := range bodies {
			response, text := r.post(t, request(target, body))
			if response.StatusCode != 503 {
				t.Errorf("%s, %v: status is %d, want 503", target, kind, response.StatusCode)
			}
			if response.Header.Get("Retry-After") == "" {
				t.Errorf("%s, %v: no Retry-After", target, kind)
			}
			for _, misread := range []string{"partial write", "hinted handoff queue not empty"} {
				if strings.Contains(text, misread) {
					t.Errorf("%s, %v: the body says %q", target, kind, misread)
				}
			}
		}
		equalLines(t, "stored", r.stored(), nil)
		if got := r.metric(t, "tickmesh_ingest_points_total", "outcome=failed"); got != float64(len(bodies)) {
			t.Errorf("%v: %v points failed, want %d", kind, got, len(bodies))
		}
	}
}

// Text fields are left out without an error, and counted for who looks.
func TestTextFieldsAreCounted(t *testing.T) {
	for target, success := range map[string]int{"/write?db=d": 204, "/api/v2/write?bucket=d": 204, "/api/write?db=d": 200} {
		for body, want := range map[string]string{
			"m a=\"x\",b=1,c=\"y\" 1700000000000000000\nm a=\"x\" 1700000001000000000\n": "3",
			"m a=\"x\" 1700000000000000000\n":                                            "1",
			"m b=1 1700000000000000000\n":                                                "",
		} {
			r := start(t, nil)
			response, text := r.post(t, request(target, body))
			if got := response.Header.Get("X-Tickmesh-Text-Fields"); response.StatusCode != success || got != want {
				t.Errorf("%s %q: %d %q %s, not %q", target, body, response.StatusCode, got, text, want)
			}
		}
	}
}

// Text that is refused is told of as a part of the write, with its place and what to do; the other fields are written.
func TestTextFieldsRefused(t *testing.T) {
	const first = `unable to store 'm a=\"x\",b=1,c=\"y\" 1700000000000000000': the fields \"a\" and 1 more are text, and values are numbers: leave text out, or send it as a tag`
	const second = `unable to store 'm ä=\"x\" 1700000001000000000': the field \"ä\" is text, and values are numbers: leave text out, or send it as a tag`
	text := "m a=\"x\",b=1,c=\"y\" 1700000000000000000\nm ä=\"x\" 1700000001000000000\nm d=t,e=false 1700000002000000000\n"
	written := []string{`d/m{_field=b} 1700000000000 1`, `d/m{_field=d} 1700000002000 1`, `d/m{_field=e} 1700000002000 0`}
	for _, c := range []struct {
		target, body, want string
		status             int
		stored             []string
	}{
		{"/write?db=d", text, `{"error":"partial write: ` + first + `\n` + second + ` dropped=3"}` + "\n", 400, written},
		{"/write?db=d", strings.Split(text, "\n")[1], `{"error":"partial write: ` + second + ` dropped=1"}` + "\n", 400, nil},
		{"/write?db=d", strings.Split(text, "\n")[2], "", 204, written[1:]},
		{"/api/v2/write?bucket=d", text, `{"code":"invalid","message":"partial write: ` + first + `\n` + second + ` dropped=3"}`, 400, written},
		{"/api/write?db=d", text, `{"error":"partial write: ` + first + `\n` + second + ` dropped=3"}` + "\n", 400, written},
	} {
		r := start(t, func(o *Options) { o.RefuseText = true })
		response, answer := r.post(t, request(c.target, c.body))
		if got := response.Header.Get("X-Tickmesh-Text-Fields"); response.StatusCode != c.status || answer != c.want || got != "" {
			t.Errorf("%s: %d %q\n got %s\nwant %s", c.target, response.StatusCode, got, answer, c.want)
		}
		equalLines(t, c.target, r.stored(), c.stored)
	}
	r := start(t, func(o *Options) { o.RefuseText = true })
	if got, want := exchange(t, r.Addresses().Line, "m a=\"x\",b=1 1700000000\n"), "unable to store 'm a=\"x\",b=1 1700000000': the field \"a\" is text, and values are numbers: leave text out, or send it as a tag\n"; got != want {
		t.Errorf("the line port\n got %q\nwant %q", got, want)
	}
	equalLines(t, "the line port", r.stored(), []string{"m{_field=b} 1700000000000 1"})
}

// Series that the storage refuses are refused to the client; the rest is written.
func TestRefusedSeries(t *testing.T) {
	for target, want := range map[string]string{
		"/write?db=d":            `{"error":"partial write: `,
		"/api/v2/write?bucket=d": `{"code":"invalid","message":"partial write: `,
	} {
		r := start(t, nil)
		r.refuseNew(refusing("new"))
		response, body := r.post(t, request(target, "m value=1 1700000000000000000\nnew a=1,b=2 1700000000000000000\n"))
		if response.StatusCode != 400 || !strings.HasPrefix(body, want) || !strings.Contains(body, "dropped=2") {
			t.Errorf("%s: %d %s", target, response.StatusCode, body)
		}
		equalLines(t, "stored", r.stored(), []string{"d/m{} 1700000000000 1"})
		if accepted, refused := r.metric(t, "tickmesh_ingest_points_total", "outcome=accepted"), r.metric(t, "tickmesh_ingest_points_total", "outcome=refused"); accepted != 1 || refused != 2 {
			t.Errorf("%v accepted, %v refused; want 1, 2", accepted, refused)
		}
	}
	r := start(t, nil)
	r.refuseNew(refusing("new"))
	response, body := r.post(t, request("/api/put?summary", `[`+onePoint+`,{"metric":"new","timestamp":1,"value":1,"tags":{}}]`))
	if response.StatusCode != 400 || body != `{"success":1,"failed":1}` {
		t.Errorf("put: %d %s", response.StatusCode, body)
	}
}
