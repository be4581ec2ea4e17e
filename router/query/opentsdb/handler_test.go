package opentsdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// now is the time of every test: 2023-11-14 22:13:20 UTC.
var now = time.Unix(1_700_000_000, 0)

// server is a handler over memory.
type server struct {
	t       testing.TB
	memory  *scantest.Memory
	handler http.Handler
}

func newServer(t testing.TB, change ...func(*Options)) *server {
	t.Helper()
	memory := scantest.NewMemory()
	options := Options{Source: memory, Deleter: memory, Clock: func() time.Time { return now }, Registerer: prometheus.NewRegistry()}
	for _, c := range change {
		c(&options)
	}
	if options.Admission == nil {
		bounded(admission.Limits{BytesMax: 512 << 20})(&options)
	}
	options.Source = options.Admission.Source(options.Source)
	return &server{t: t, memory: memory, handler: New(options)}
}

// bounded returns each query these limits.
func bounded(limits admission.Limits) func(*Options) {
	return func(o *Options) { o.Admission = admission.New(admission.Options{Limits: limits}) }
}

// put writes points of one series: time in seconds, value, time, value, ….
func (s *server) put(key series.Key, timesAndValues ...float64) {
	s.t.Helper()
	var samples []series.Sample
	for i := 0; i < len(timesAndValues); i += 2 {
		samples = append(samples, series.Sample{TimeMs: int64(timesAndValues[i] * 1000), Value: timesAndValues[i+1]})
	}
	s.putSamples(key, samples)
}

func (s *server) putSamples(key series.Key, samples []series.Sample) {
	s.t.Helper()
	if err := s.memory.Put(key, samples...); err != nil {
		s.t.Fatal(err)
	}
}

// ramp returns count samples of value 1, one a second.
func ramp(count int) []series.Sample {
	samples := make([]series.Sample, count)
	for i := range samples {
		samples[i] = series.Sample{TimeMs: int64(i) * 1000, Value: 1}
	}
	return samples
}

// do sends a request. The query of the target may hold characters that have to
// be escaped.
func (s *server) do(method, target, body string, headers ...string) (int, string) {
	s.t.Helper()
	path, query, _ := strings.Cut(target, "?")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	var escaped []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, has := strings.Cut(part, "=")
		if has {
			name += "=" + url.QueryEscape(value)
		}
		escaped = append(escaped, name)
	}
	r.URL.RawQuery = strings.Join(escaped, "&")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.serve(w, r)
	return w.Code, w.Body.String()
}

// serve serves a request, and reports whether the connection is to be cut.
func (s *server) serve(w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() {
		if cause := recover(); cause == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			cut = true
		} else if cause != nil {
			panic(cause)
		}
	}()
	access.Open(s.handler).ServeHTTP(w, r)
	return false
}

// want sends a request and compares the whole answer.
func (s *server) want(method, target, body string, status int, answer string, headers ...string) {
	s.t.Helper()
	gotStatus, got := s.do(method, target, body, headers...)
	if gotStatus != status || got != answer {
		s.t.Errorf("%s %s %s\ngot  %d %s\nwant %d %s", method, target, body, gotStatus, got, status, answer)
	}
	if got != "" && !json.Valid([]byte(got)) {
		s.t.Errorf("%s %s: not JSON: %s", method, target, got)
	}
}

func TestErrors(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Deleter = nil; o.Limits.BodyBytesMax = 300; o.Limits.SubQueriesMax = 2 })
	s.put(scantest.Key("", "m", "host", "a"), 1, 1)
	for _, test := range []struct {
		name, method, target, body string
		status                     int
		answer                     string
	}{
		{"unknown metric", "GET", "/api/query?start=0&m=sum:x", "", 400, `{"error":{"code":400,"message":"No such name for 'metrics': 'x'"}}`},
		{"metric that begins another", "GET", "/api/query?start=0&m=sum:", "", 400, `{"error":{"code":400,"message":"Missing the metric or tsuids, provide at least one"}}`},
		{"no start", "GET", "/api/query?m=sum:m", "", 400, `{"error":{"code":400,"message":"Missing parameter","details":"The \"start\" query parameter is missing"}}`},
		{"no m", "GET", "/api/query?start=0", "", 400, `{"error":{"code":400,"message":"Missing sub queries"}}`},
		{"no queries", "POST", "/api/query", `{"start":1}`, 400, `{"error":{"code":400,"message":"Missing queries"}}`},
		{"no body", "POST", "/api/query", ``, 400, `{"error":{"code":400,"message":"Missing request content"}}`},
		{"not JSON", "POST", "/api/query", `{`, 400, `{"error":{"code":400,"message":"Unable to parse the given JSON","details":"unexpected end of JSON input"}}`},
		{"end before start", "GET", "/api/query?start=20&end=10&m=sum:m", "", 400, `{"error":{"code":400,"message":"End time [10000] must be greater than or equal to the start time [20000]"}}`},
		{"bad time", "GET", "/api/query?start=yesterday&m=sum:m", "", 400, `{"error":{"code":400,"message":"Invalid time: yesterday"}}`},
		{"aggregator", "GET", "/api/query?start=0&m=total:m", "", 400, `{"error":{"code":400,"message":"No such aggregation function: total"}}`},
		{"downsampler", "GET", "/api/query?start=0&m=sum:1m-none:m", "", 400, `{"error":{"code":400,"message":"cannot use the NONE aggregator for downsampling"}}`},
		{"filter kind", "GET", "/api/query?start=0&m=sum:m{host=like(a)}", "", 400, `{"error":{"code":400,"message":"Could not find a tag value filter of the type: like"}}`},
		{"expression", "GET", "/api/query?start=0&m=sum:m{host=regexp(a[)}", "", 400, "{\"error\":{\"code\":400,\"message\":\"Invalid regular expression 'a[': error parsing regexp: missing closing ]: `[`\"}}"},
		{"zone", "GET", "/api/query?start=0&tz=Mars/Base&m=sum:m", "", 400, `{"error":{"code":400,"message":"Invalid timezone name: Mars/Base"}}`},
		{"histograms", "GET", "/api/query?start=0&m=sum:percentiles[99]:m", "", 400, `{"error":{"code":400,"message":"Histograms are not stored, so percentiles of their buckets cannot be queried: use the aggregators p50 to p999"}}`},
		{"tsuid", "GET", "/api/query?start=0&tsuid=sum:xyz", "", 400, `{"error":{"code":400,"message":"Invalid TSUID: 'xyz'"}}`},
		{"too many queries", "GET", "/api/query?start=0&m=sum:m&m=avg:m&m=max:m", "", 400, `{"error":{"code":400,"message":"3 sub queries are more than 2"}}`},
		{"long body", "POST", "/api/query", strings.Repeat(" ", 301), 413, `{"error":{"code":413,"message":"the body of the request is longer than 300 bytes"}}`},
		{"method", "PUT", "/api/query", "", 405, `{"error":{"code":405,"message":"Method not allowed","details":"The HTTP method [PUT] is not permitted for this endpoint"}}`},
		{"delete not enabled", "DELETE", "/api/query?start=0&m=sum:m", "", 400, `{"error":{"code":400,"message":"Bad request","details":"Deleting data is not enabled (tsd.http.query.allow_delete=false)"}}`},
		{"unknown path", "GET", "/api/nothing", "", 404, `{"error":{"code":404,"message":"Endpoint not found"}}`},
		{"uids", "GET", "/api/uid/assign?metric=x", "", 501, `{"error":{"code":501,"message":"Not implemented","details":"Names have no ids and need no assignment: a name is there with its first sample"}}`},
		{"trees", "GET", "/api/tree/branch?branch=1", "", 501, `{"error":{"code":501,"message":"Not implemented","details":"There are no trees: group series by their tags"}}`},
		{"annotations", "POST", "/api/annotation", `{"startTime":1}`, 501, `{"error":{"code":501,"message":"Not implemented","details":"Annotations are not stored: keep them in Grafana, or as series of events"}}`},
		{"meta data", "GET", "/api/search/tsmeta?query=x", "", 501, `{"error":{"code":501,"message":"Not implemented","details":"Names have no meta data of their own: use /api/search/lookup or /api/suggest"}}`},
		{"lookup of unknown", "GET", "/api/search/lookup?m=x", "", 404, `{"error":{"code":404,"message":"Unable to resolve one or more UIDs","details":"No such name for 'metrics': 'x'"}}`},
		{"suggest of nothing", "GET", "/api/suggest", "", 400, `{"error":{"code":400,"message":"Missing parameter","details":"The \"type\" query parameter is missing"}}`},
		{"suggest of something", "GET", "/api/suggest?type=hosts", "", 400, `{"error":{"code":400,"message":"Invalid 'type' parameter:hosts"}}`},
		{"last of unknown", "GET", "/api/query/last?timeseries=x", "", 400, `{"error":{"code":400,"message":"No such name for 'metrics': 'x'"}}`},
		{"last of nothing", "GET", "/api/query/last", "", 400, `{"error":{"code":400,"message":"Missing sub queries"}}`},
		{"preflight without origins", "OPTIONS", "/api/query", "", 405, `{"error":{"code":405,"message":"Method not allowed","details":"The HTTP method [OPTIONS] is not permitted"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.t = t
			s.want(test.method, test.target, test.body, test.status, test.answer)
		})
	}
	s.t = t
	// A name that is there in another database is not there in this one.
	s.want("GET", "/api/query?start=0&m=sum:m&db=other", "", 400, `{"error":{"code":400,"message":"No such name for 'metrics': 'm'"}}`)
	s.want("GET", "/api/query?start=0&m=sum:m", "", 400, `{"error":{"code":400,"message":"No such name for 'metrics': 'm'"}}`, "X-Scope-OrgID", "other")
	// A known metric without data in the range, or without a series that matches known names, is no error.
	s.want("GET", "/api/query?start=100&m=sum:m", "", 200, `[]`)
	s.put(scantest.Key("", "n", "peer", "zzz"), 1, 1)
	s.want("GET", "/api/query?start=0&m=sum:m{host=zzz}", "", 200, `[]`)
	// A tag or a value that no series has is one, like an unknown metric, so that what is written amiss is noticed.
	s.want("GET", "/api/query?start=0&m=sum:m{host=zz}", "", 400, `{"error":{"code":400,"message":"No such name for 'tagv': 'zz'"}}`)
	s.want("GET", `/api/query?start=0&m=sum:m{"host"="zzz"}`, "", 400, `{"error":{"code":400,"message":"No such name for 'tagk': '\"host\"'"}}`)
	s.want("GET", `/api/query?start=0&m=sum:m{host=regexp(^zz$)}`, "", 200, `[]`)
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(*Options)
	}{
		{"series", bounded(admission.Limits{SeriesMax: 9})},
		{"samples", bounded(admission.Limits{SamplesMax: 500})},
		{"bytes", bounded(admission.Limits{BytesMax: 10_000})},
		{"points", func(o *Options) { o.Limits.PointsMax = 99 }},
	} {
		t.Run(test.what, func(t *testing.T) {
			s := newServer(t, test.change)
			for i := range 10 {
				s.putSamples(scantest.Key("", "m", "n", string(rune('a'+i))), ramp(100))
			}
			status, body := s.do("GET", "/api/query?start=0&m=sum:m", "")
			if status != 413 || !strings.Contains(body, test.what+": narrow its time range") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	// A fill of a thousand years of milliseconds is refused, not tried.
	s := newServer(t)
	s.put(scantest.Key("", "m"), 1, 1)
	status, body := s.do("GET", "/api/query?start=0&end=4000000000000&ms&m=sum:1ms-sum-zero:m", "")
	if status != 413 {
		t.Errorf("%d %s", status, body)
	}
}

// slowSource blocks until its context ends.
type slowSource struct{ scan.Source }

func (slowSource) Scan(ctx context.Context, _ *scan.Request, _ scan.Visitor) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTimeout(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Source = slowSource{o.Source} }, bounded(admission.Limits{Timeout: time.Millisecond}))
	s.want("GET", "/api/query?start=0&m=sum:m", "", 504, `{"error":{"code":504,"message":"Sorry, your query timed out. `+
		`Please try filtering using more tags or decrease your time range.","details":"`+admission.ErrTimeout.Error()+`"}}`)
}

func TestClientGone(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newServer(t, func(o *Options) { o.Source = slowSource{o.Source}; o.Registerer = registry })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w := httptest.NewRecorder()
	go func() {
		defer close(done)
		s.serve(w, httptest.NewRequest("GET", "/api/query?start=0&m=sum:m", nil).WithContext(ctx))
	}()
	cancel()
	<-done
	if w.Body.Len() > 0 {
		t.Errorf("an answer for nobody: %s", w.Body)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tickmesh_opentsdb_requests_total" && f.GetMetric()[0].GetLabel()[1].GetValue() == "499" {
			return
		}
	}
	t.Error("the status 499 is not counted")
}

// TestQueriesAtOnce: a query beyond the bound is refused, and its place is free
// again when another has ended.
func TestQueriesAtOnce(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(o *Options) { o.Source = heldSource{o.Source, inside, leave} }, bounded(admission.Limits{RunningMax: 1}))
	s.put(scantest.Key("", "m"), 1, 1)
	const target, answer = "/api/query?start=0&m=sum:m", `[{"metric":"m","tags":{},"aggregateTags":[],"dps":{"1":1}}]`
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.want("GET", target, "", 200, answer)
	}()
	<-inside
	s.want("GET", target, "", 503, `{"error":{"code":503,"message":"1 queries of this database are running or waiting, the most that it may have: try again later"}}`)
	s.want("GET", "/api/aggregators", "", 200, string(appendStrings(nil, aggregatorNames)))
	leave <- struct{}{}
	<-done
	go func() { <-inside; leave <- struct{}{} }()
	s.want("GET", target, "", 200, answer)
}

// friend may read the database a and administer b.
type friend struct{}

func (friend) Name() string { return "friend" }
func (friend) May(database string, right access.Right) bool {
	return database == "a" && right == access.Read || database == "b"
}

// TestRights: every endpoint that reads asks for the right to read, and who deletes has
// to be an administrator.
func TestRights(t *testing.T) {
	s := newServer(t)
	for _, database := range []string{"", "a", "b"} {
		s.put(scantest.Key(database, "m"), 1, 1)
	}
	with := func(method, target string) int {
		r := httptest.NewRequest(method, target, strings.NewReader(""))
		w := httptest.NewRecorder()
		s.serve(w, r.WithContext(access.With(r.Context(), friend{})))
		return w.Code
	}
	for _, path := range []string{"query?start=0&m=sum:m", "query/last?timeseries=m", "suggest?type=metrics", "search/lookup?m=m"} {
		if with("GET", "/api/"+path) != 403 || with("GET", "/api/"+path+"&db=default") != 403 || with("GET", "/api/"+path+"&db=a") != 200 {
			t.Error(path)
		}
	}
	if with("DELETE", "/api/query?start=0&m=sum:m&db=a") != 403 || with("DELETE", "/api/query?start=0&m=sum:m&db=b") != 200 {
		t.Error("delete")
	}
	if with("GET", "/api/query?start=0&m=sum:m&db=b&method_override=delete") != 405 {
		t.Error("delete by a link")
	}
	s.want("GET", "/api/query?start=0&m=sum:m&db=a", "", 200, `[{"metric":"m","tags":{},"aggregateTags":[],"dps":{"1":1}}]`)
	s.want("GET", "/api/query?start=0&m=sum:m&db=b", "", 200, `[]`)
}

// heldSource describes when a scan has begun and waits before it goes on.
type heldSource struct {
	scan.Source
	inside, leave chan struct{}
}

func (s heldSource) Scan(ctx context.Context, r *scan.Request, visit scan.Visitor) error {
	s.inside <- struct{}{}
	<-s.leave
	return s.Source.Scan(ctx, r, visit)
}

// TestCutAnswer checks that a client cannot take a part of an answer for the whole.
func TestCutAnswer(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Limits.PointsMax = 50_000 })
	s.putSamples(scantest.Key("", "m"), ramp(30_000))
	web := httptest.NewServer(access.Open(s.handler))
	defer web.Close()
	response, err := http.Get(web.URL + "/api/query?start=0&m=sum:m&m=avg:m")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil || json.Valid(body) {
		t.Errorf("%d bytes of a cut answer were read without an error", len(body))
	}
	// Whatever the server is made of, it is told to cut.
	if cut := s.serve(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/query?start=0&m=sum:m&m=avg:m", nil)); !cut {
		t.Error("the end of a part looks like that of an answer")
	}
}

func TestBodies(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "host", "a"), 10, 1.5)
	const body = `{"start":1,"end":"20","queries":[{"aggregator":"sum","metric":"m","rate":"false","rateOptions":null,"tags":null}]}`
	const answer = `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":{"10":1.5}}]`
	s.want("POST", "/api/query", body, 200, answer)
	s.want("POST", "/api/query", body, 200, answer, "Content-Type", "application/x-www-form-urlencoded")
	s.want("POST", "/api/query?arrays=true", body, 200, `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":[[10,1.5]]}]`)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s.want("POST", "/api/query", packed.String(), 200, answer, "Content-Encoding", "gzip")
	s.want("POST", "/api/query", packed.String()[:20], 400, `{"error":{"code":400,"message":"Unable to read the body","details":"unexpected EOF"}}`, "Content-Encoding", "gzip")
	s.want("POST", "/api/query", "xx", 400, `{"error":{"code":400,"message":"Unable to decompress the body","details":"unexpected EOF"}}`, "Content-Encoding", "gzip")
}

func TestForms(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "host", "a\"b<"), 10, 1, 11, -2.5)
	s.want("GET", "/api/query?start=1&m=sum:m&jsonp=app.show", "", 200, // which is no JSON that a page of any origin could run
		`[{"metric":"m","tags":{"host":"a\"b\u003c"},"aggregateTags":[],"dps":{"10":1.0,"11":-2.5}}]`)
	s.want("GET", "/api/query?start=1&m=none:m&pretty&arrays", "", 200, `[
  {
    "metric": "m",
    "tags": {
      "host": "a\"b\u003c"
    },
    "aggregateTags": [],
    "dps": [
      [
        10,
        1.0
      ],
      [
        11,
        -2.5
      ]
    ]
  }
]`)
}

func TestNotANumber(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m"), 10, math.NaN(), 11, math.Inf(1), 12, math.Inf(-1), 13, math.Copysign(0, -1), 14, 1e300, 15, 1e-7)
	const head, tail = `[{"metric":"m","tags":{},"aggregateTags":[],"dps":{`, `,"13":-0.0,"14":1e+300,"15":1e-07}}]`
	s.want("GET", "/api/query?start=1&m=none:m", "", 200, head+`"10":null,"11":null,"12":null`+tail)
	s.want("GET", "/api/query?start=1&m=none:m&nan=string", "", 200, head+`"10":"NaN","11":"Infinity","12":"-Infinity"`+tail)
	// As in OpenTSDB the policy nan is NaN and the policy null is null; both are null here until asked for.
	s.want("GET", "/api/query?start=13&end=17&m=none:1s-max-nan:m&nan=string", "", 200, head+`"13":-0.0,"14":1e+300,"15":1e-07,"16":"NaN","17":"NaN"}}]`)
	s.want("GET", "/api/query?start=13&end=17&m=none:1s-max-null:m&nan=string", "", 200, head+`"13":-0.0,"14":1e+300,"15":1e-07,"16":null,"17":null}}]`)
	s.want("GET", "/api/query?start=13&end=17&m=none:1s-max-nan:m", "", 200, head+`"13":-0.0,"14":1e+300,"15":1e-07,"16":null,"17":null}}]`)
}

func TestDelete(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "host", "a"), 10, 1, 20, 2, 30, 3)
	s.put(scantest.Key("", "m", "host", "b"), 10, 1, 20, 2, 30, 3)
	const answer = `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":{"20":2}}]`
	s.want("DELETE", "/api/query?start=15&end=25&m=sum:m{host=a}", "", 200, answer)
	s.want("GET", "/api/query?start=1&m=sum:m{host=a}", "", 200, `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":{"10":1,"30":3}}]`)
	s.want("GET", "/api/query?start=1&m=none:m{host=b}", "", 200, `[{"metric":"m","tags":{"host":"b"},"aggregateTags":[],"dps":{"10":1,"20":2,"30":3}}]`)
	s.want("POST", "/api/query", `{"start":1,"end":100,"delete":true,"queries":[{"aggregator":"none","metric":"m","tags":{"host":"b"}}]}`, 200,
		`[{"metric":"m","tags":{"host":"b"},"aggregateTags":[],"dps":{"10":1,"20":2,"30":3}}]`)
	s.want("GET", "/api/query?start=1&m=sum:m{host=b}", "", 200, `[]`)
	const byLink = `{"error":{"code":405,"message":"Method not allowed","details":"Data is deleted by DELETE or POST: browsers follow any link, with the password that they keep"}}`
	s.want("GET", "/api/query?start=1&end=15&m=sum:m{host=a}&method_override=delete", "", 405, byLink)
	s.want("GET", "/api/query?start=1&m=sum:m{host=a}", "", 200, `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":{"10":1,"30":3}}]`)
}

// failingWriter is a client that goes away in the middle.
type failingWriter struct {
	http.ResponseWriter
	left int
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("connection reset")
	}
	return len(p), nil
}

func TestClientGoneWhileAnswering(t *testing.T) {
	s := newServer(t)
	s.putSamples(scantest.Key("", "m"), ramp(20_000))
	w := &failingWriter{ResponseWriter: httptest.NewRecorder(), left: 50_000}
	s.serve(w, httptest.NewRequest("GET", "/api/query?start=0&m=sum:m", nil))
	if w.left < -2*answerBytesFlush {
		t.Errorf("%d bytes were written to a client that had gone", -w.left)
	}
}
