package promql

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/consistency"
)

func success(data string) string { return `{"status":"success","data":` + data + `}` }

func failure(kind, text string) string {
	return fmt.Sprintf(`{"status":"error","errorType":%q,"error":%q}`, kind, text)
}

// TestAnswers: what clients get, byte for byte.
func TestAnswers(t *testing.T) {
	h := New(labOptions(t))
	for _, c := range []struct {
		target string
		status int
		want   string
	}{
		{"query?query=up", 200, success(`{"resultType":"vector","result":[{"metric":{"__name__":"up","instance":"a:9100","job":"node"},"value":[1750000000,"1"]}]}`)},
		{"query?query=up&time=1749999940.5", 200, success(`{"resultType":"vector","result":[` +
			`{"metric":{"__name__":"up","instance":"a:9100","job":"node"},"value":[1749999940.500,"1"]},{"metric":{"__name__":"up","instance":"b:9100","job":"node"},"value":[1749999940.500,"1"]}]}`)},
		{"query?query=up&db=other", 200, success(`{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"elsewhere"},"value":[1750000000,"42"]}]}`)},
		{"query?query=up&db=default&time=2025-06-15T15:10:40Z&lookback_delta=3m", 200, success(`{"resultType":"vector","result":[]}`)},
		{"query?query=1%2B1", 200, success(`{"resultType":"scalar","result":[1750000000,"2"]}`)},
		{"query?query=%22text%22&time=0.001", 200, success(`{"resultType":"string","result":[0.001,"text"]}`)},
		{"query?query=" + url.QueryEscape(`{"cpu.load"}[5m]`), 200, success(`{"resultType":"matrix","result":[{"metric":{"Zone":"eu","__name__":"cpu.load","_field":"idle","host":"ä \"quoted\"\n"},` +
			`"values":[[1749999760,"0.5"],[1749999820,"NaN"],[1749999880,"+Inf"],[1749999940,"-Inf"],[1750000000,"1e-07"]]}]}`)},
		{"query?query=odd", 200, success(`{"resultType":"vector","result":[{"metric":{"__name__":"odd"},"value":[1750000000,"7"]}]}`)},
		{"query?query=sum(up)&limit=5", 200, success(`{"resultType":"vector","result":[{"metric":{},"value":[1750000000,"1"]}]}`)},
		{"query?query=requests_total&limit=1&time=1749999760", 200,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"requests_total","code":"200","job":"api"},"value":[1749999760,"0"]}]},"warnings":["results truncated due to limit"]}`},
		{"query_range?query=up&start=1749999880&end=1750000060&step=60", 200, success(`{"resultType":"matrix","result":[` +
			`{"metric":{"__name__":"up","instance":"a:9100","job":"node"},"values":[[1749999880,"0"],[1749999940,"1"],[1750000000,"1"],[1750000060,"1"]]},` +
			`{"metric":{"__name__":"up","instance":"b:9100","job":"node"},"values":[[1749999880,"1"],[1749999940,"1"]]}]}`)},
		{"query_range?query=increase(requests_total[2m])&start=1750000000&end=1750000000&step=1m", 200, success(`{"resultType":"matrix","result":[` +
			`{"metric":{"code":"200","job":"api"},"values":[[1750000000,"90"]]},{"metric":{"code":"500","job":"api"},"values":[[1750000000,"12"]]}]}`)},
		{"query_range?query=rate(up[2m])&start=1750000000&end=1750000000&step=1m", 200,
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a:9100","job":"node"},"values":[[1750000000,"0"]]}]},` +
				`"infos":["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"up\" (1:6)"]}`},
		{"labels", 200, success(`["Zone","__name__","_field","code","empty","host","instance","job"]`)},
		{"labels?match[]=up", 200, success(`["__name__","instance","job"]`)},
		{"labels?match[]=lonely", 200, success(`["__name__"]`)},
		{"labels?match[]=nothing", 200, success(`[]`)},
		{"labels?match[]=up&match[]=requests_total%7Bcode=%22500%22%7D&limit=2", 200, `{"status":"success","data":["__name__","code"],"warnings":["results truncated due to limit"]}`},
		{"label/job/values", 200, success(`["api","node"]`)},
		{"label/job/values?db=other", 200, success(`["elsewhere"]`)},
		{"label/__name__/values?limit=40000", 200, success(`["cpu.load","lonely","odd","requests_total","up"]`)},
		{"label/__name__/values?match[]=%7Bjob=%22node%22%7D", 200, success(`["up"]`)},
		{"label/__name__/values?match[]=nothing", 200, success(`[]`)},
		{"label/code/values?match[]=requests_total&limit=1", 200, `{"status":"success","data":["200"],"warnings":["results truncated due to limit"]}`},
		{"label/code/values?match[]=%7Bcode!=%22200%22,job!=%22%22%7D", 200, success(`["500"]`)},
		{"label/empty/values", 200, success(`[]`)},
		{"label/U__host/values", 200, success(`["ä \"quoted\"\n"]`)},
		{"label/U___5f_field/values", 200, success(`["idle"]`)},
		{"series?match[]=up", 200, success(`[{"__name__":"up","instance":"a:9100","job":"node"},{"__name__":"up","instance":"b:9100","job":"node"}]`)},
		{"series?match[]=up&match[]=%7Binstance=~%22b.*%22%7D&match[]=lonely", 200,
			success(`[{"__name__":"lonely"},{"__name__":"up","instance":"a:9100","job":"node"},{"__name__":"up","instance":"b:9100","job":"node"}]`)},
		{"series?match[]=up&limit=1", 200, `{"status":"success","data":[{"__name__":"up","instance":"a:9100","job":"node"}],"warnings":["results truncated due to limit"]}`},
		{"metadata", 200, success(`{}`)},
		{"query_exemplars?query=up&start=0&end=1", 200, success(`[]`)},
		{"rules?type=alert", 200, success(`{"groups":[]}`)},
		{"rules?type=Bad", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"type\": not supported value \"bad\""}`},
		{"alerts", 200, success(`{"alerts":[]}`)},
		{"format_query?query=sum(up)by(job)", 200, success(`"sum by (job) (up)"`)},
		{"parse_query?query=1", 200, success(`{"type":"numberLiteral","val":"1"}`)},
		{"status/buildinfo", 200, success(`{"version":"` + APIVersion + `","revision":"","branch":"","buildUser":"","buildDate":"","goVersion":"go"}`)},
		{"status/config", 200, success(`{"yaml":""}`)},
		{"status/flags", 200, success(`{"query.lookback-delta":"5m0s","query.max-samples":"50000000"}`)},
		{"status/tsdb?limit=1", 200, success(`{"headStats":{"chunkCount":0,"maxTime":1750000000000,"minTime":0,"numLabelPairs":14,"numSeries":7},` +
			`"labelValueCountByLabelName":[{"name":"__name__","value":5}],"memoryInBytesByLabelName":[{"name":"host","value":12}],` +
			`"seriesCountByLabelValuePair":[{"name":"__name__=requests_total","value":2}],"seriesCountByMetricName":[{"name":"requests_total","value":2}]}`)},

		{"query", 400, failure("bad_data", `invalid parameter "query": unknown position: parse error: no expression found in input`)},
		{"query?query=up(", 400, failure("bad_data", `invalid parameter "query": 1:4: parse error: unclosed left parenthesis`)},
		{"query?query=up&time=soon", 400, failure("bad_data", `invalid parameter "time": invalid time value for 'time': cannot parse "soon" to a valid timestamp`)},
		{"query?query=up&time=NaN", 400, failure("bad_data", `invalid parameter "time": invalid time value for 'time': cannot parse "NaN" to a valid timestamp`)},
		{"query?query=up&limit=-1", 400, failure("bad_data", `invalid parameter "limit": limit must be non-negative`)},
		{"query?query=up&timeout=x", 400, failure("bad_data", `invalid parameter "timeout": cannot parse "x" to a valid duration`)},
		{"query?query=up&lookback_delta=x", 400, failure("bad_data", `error parsing lookback delta duration: cannot parse "x" to a valid duration`)},
		{"query_range?query=up&start=1&end=0&step=1", 400, failure("bad_data", `invalid parameter "end": end timestamp must not be before start time`)},
		{"query_range?query=up&start=0&end=1&step=0", 400, failure("bad_data", `invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer`)},
		{"query_range?query=up&start=0&end=11001&step=1", 400, failure("bad_data", `exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)`)},
		{"query_range?query=up[5m]&start=0&end=1&step=1", 400, failure("bad_data", `invalid parameter "query": invalid expression type "range vector" for range query, must be Scalar or instant Vector`)},
		{"query?query=up%20%2B%20on(job)%20up&time=1749999940", 422, failure("execution", `found duplicate series for the match group {job="node"} on the right hand-side of the operation: [{__name__="up", instance="b:9100", job="node"}, {__name__="up", instance="a:9100", job="node"}];many-to-many matching not allowed: matching labels must be unique on one side`)},
		{"query?query=up[1y:1ms]", 422, failure("execution", "a subquery has 2147483648 steps, more than 1000000: take a longer step or a shorter range")},
		{"query_range?query=max_over_time(max_over_time(up[20d:1m])[700d:1m])&start=0&end=1&step=1", 422, failure("execution", "a subquery has 1036801 steps, more than 1000000: take a longer step or a shorter range")},
		{"series", 400, failure("bad_data", `no match[] parameter provided`)},
		{"series?match[]=%7B__name__=~%22.*%22%7D", 400, failure("bad_data", `match[] must contain at least one non-empty matcher`)},
		{"label/a%FFb/values", 400, failure("bad_data", `invalid label name: "a\xffb"`)},
		{"query_exemplars?query=up(", 400, failure("bad_data", `1:4: parse error: unclosed left parenthesis`)},
		{"status/tsdb?limit=0", 400, failure("bad_data", `limit must be a positive number`)},
		{"metadata?limit=x", 400, failure("bad_data", `limit must be a number`)},
		{"nothing", 404, failure("not_found", `there is no /api/v1/nothing`)},
		{"read", 405, failure("bad_data", `/api/v1/read takes no GET`)},
	} {
		if got := get(h, c.target); got.status != c.status || got.body != c.want {
			t.Errorf("%s\n got %d %s\nwant %d %s", c.target, got.status, got.body, c.status, c.want)
		} else if got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", c.target, got.header)
		}
	}
}

// TestForms: the body's parameters win over the URL's, whatever the client calls the body.
func TestForms(t *testing.T) {
	h := New(labOptions(t))
	want := get(h, "query?query=sum(up)")
	if got := post(h, "query?query=nonsense(", url.Values{"query": {"sum(up)"}}); got.body != want.body {
		t.Error(got)
	}
	if got := post(h, "query?query=sum(up)", nil); got.body != want.body {
		t.Error(got)
	}
	got := post(h, "series", url.Values{"match[]": {"up", "lonely"}})
	if got.status != 200 || strings.Count(got.body, "__name__") != 3 {
		t.Error(got)
	}
	o := labOptions(t)
	o.BodyBytesMax = 10
	if got := post(New(o), "query", url.Values{"query": {"sum(up) + sum(up)"}}); got.status != http.StatusRequestEntityTooLarge {
		t.Error(got)
	}
}

// TestStatistics: what is asked for is there, and parses as Prometheus' own.
func TestStatistics(t *testing.T) {
	h := New(labOptions(t))
	for _, stats := range []string{"true", "all", "1"} {
		got := get(h, "query_range?query=up&start=1749999940&end=1750000000&step=60&stats="+stats)
		if got.status != 200 || !strings.Contains(got.body, `"totalQueryableSamples":3`) {
			t.Errorf("%s: %s", stats, got.body)
		}
		if strings.Contains(got.body, "PerStep") != (stats == "all") || strings.Contains(got.body, "deprecated") != (stats == "1") {
			t.Errorf("%s: %s", stats, got.body)
		}
	}
}

// failing is a source that fails.
type failing struct {
	scan.Source
	err error
}

func (f failing) Scan(context.Context, *scan.Request, scan.Visitor) error { return f.err }
func (f failing) Last(context.Context, *scan.Selector, int64, scan.Limits, func(scan.Point) error) error {
	return f.err
}
func (f failing) Series(context.Context, *scan.Selector, int, func(series.Key) error) (int64, error) {
	return 0, f.err
}

// TestFailures: each kind of failure has its status and type.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{fmt.Errorf("%w: no majority", series.ErrUnavailable), 503, "unavailable"},
		{series.ErrOverloaded, 503, "unavailable"},
		{&scan.LimitError{What: "series", Limit: 5}, 422, "execution"},
		{&admission.BusyError{Reason: "full"}, 503, "unavailable"},
		{context.DeadlineExceeded, 503, "timeout"},
		{context.Canceled, 499, "canceled"},
		{errors.New("a bad block"), 500, "internal"},
	} {
		o := labOptions(t)
		o.Source = failing{o.Source, c.err}
		h := New(o)
		for _, target := range []string{"query?query=up", "query_range?query=up&start=0&end=1&step=1", "series?match[]=up", "status/tsdb", "label/a/values?match[]=%7Bb=%22c%22%7D"} {
			got := get(h, target)
			if got.status != c.status || !strings.Contains(got.body, `"errorType":"`+c.kind+`"`) || !strings.Contains(got.body, c.err.Error()) {
				t.Errorf("%v: %s: %d %s", c.err, target, got.status, got.body)
			}
			if (got.header.Get("Retry-After") == "1") != (c.kind == "unavailable") {
				t.Errorf("%v: %v", c.err, got.header)
			}
		}
	}
}

// blocked is a source whose scans wait for the end of their context.
type blocked struct{ scan.Source }

func (blocked) Scan(ctx context.Context, _ *scan.Request, _ scan.Visitor) error {
	<-ctx.Done()
	return ctx.Err()
}

// panicking has a bug.
type panicking struct{ failing }

func (panicking) Series(context.Context, *scan.Selector, int, func(series.Key) error) (int64, error) {
	panic("a bug")
}

// A query that panics, which net/http survives, gives its place back, and what it has so
// far does not look like an answer.
func TestPanicGivesThePlaceBack(t *testing.T) {
	l := admission.New(admission.Options{})
	h := New(Options{Source: panicking{}, Admission: l})
	w := httptest.NewRecorder()
	func() {
		defer func() { _ = recover() }()
		access.Open(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/series?match[]=up", nil))
		t.Error("nothing panicked")
	}()
	if n := len(l.Running()); n != 0 || w.Body.Len() > 0 {
		t.Errorf("%d queries are left in admission control; %d bytes of an answer", n, w.Body.Len())
	}
}

// TestTimeout: the parameter and admission control's limit end a query.
func TestTimeout(t *testing.T) {
	o := labOptions(t)
	o.Source = blocked{o.Source}
	got := get(New(o), "query_range?query=up&start=0&end=1&step=1&timeout=10ms")
	if got.status != 503 || !strings.Contains(got.body, `"errorType":"timeout"`) {
		t.Error(got)
	}
	o.Admission = admission.New(admission.Options{Limits: admission.Limits{Timeout: 10 * time.Millisecond}})
	o.Source = o.Admission.Source(o.Source)
	if got := get(New(o), "query_range?query=up&start=0&end=1&step=1"); got.status != 503 || got.body != failure("timeout", admission.ErrTimeout.Error()) {
		t.Error(got)
	}
}

// TestLimits: admission control bounds memory, series and samples, and gets all of it back.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limits admission.Limits
		what   string
	}{
		{admission.Limits{BytesMax: 6000}, "bytes"}, {admission.Limits{SeriesMax: 1}, "series"}, {admission.Limits{SamplesMax: 8}, "samples"},
	} {
		o := labOptions(t)
		o.Admission = admission.New(admission.Options{Limits: c.limits})
		o.Source = o.Admission.Source(o.Source)
		got := get(New(o), "query?query=sum(requests_total[1h:1m])")
		if got.status != 400 { // a range vector cannot be summed
			t.Error(got)
		}
		got = get(New(o), "query_range?query=max_over_time(requests_total[1h])&start=1749999000&end=1750001000&step=1")
		if got.status != 422 || !strings.Contains(got.body, c.what) {
			t.Error(c.what, got)
		}
		if running := o.Admission.Running(); len(running) != 0 {
			t.Error(running)
		}
	}
	o := labOptions(t)
	o.SamplesMax = 3
	if got := get(New(o), "query?query=up[1h]"); got.status != 422 || !strings.Contains(got.body, "query processing would load too many samples into memory") {
		t.Error(got)
	}
}

// somebody may read one database.
type somebody struct{}

func (somebody) Name() string { return "ann" }
func (somebody) May(database string, right access.Right) bool {
	return database == "other" && right <= access.Read
}

func TestRights(t *testing.T) {
	o := labOptions(t)
	o.Deleter = o.Source.(*scantest.Memory)
	h := New(o)
	as := func(method, target string) answered {
		r := httptest.NewRequest(method, pathPrefix+target, nil)
		return do(h, r.WithContext(access.With(r.Context(), somebody{})))
	}
	for _, target := range []string{"query?query=up", "labels", "label/job/values", "series?match[]=up", "status/tsdb", "metadata"} {
		if got := as("GET", target); got.status != 403 || !strings.Contains(got.body, `"errorType":"forbidden"`) {
			t.Errorf("%s: %v", target, got)
		}
		with := target + "?db=other"
		if strings.Contains(target, "?") {
			with = target + "&db=other"
		}
		if got := as("GET", with); got.status != 200 {
			t.Errorf("%s: %v", with, got)
		}
	}
	if got := as("GET", "status/buildinfo"); got.status != 200 {
		t.Error(got)
	}
	if got := as("POST", "admin/tsdb/delete_series?db=other&match[]=up"); got.status != 403 {
		t.Error(got)
	}
}

func TestDelete(t *testing.T) {
	o := labOptions(t)
	if got := do(New(o), httptest.NewRequest("POST", pathPrefix+"admin/tsdb/delete_series?match[]=up", nil)); got.status != 503 || got.body != failure("unavailable", "admin APIs disabled") {
		t.Error(got)
	}
	o.Deleter = o.Source.(*scantest.Memory)
	h := New(o)
	if got := do(h, httptest.NewRequest("POST", pathPrefix+"admin/tsdb/delete_series?match[]=%7B__name__=~%22up|lonely%22%7D&end=1749999940", nil)); got.status != 204 || got.body != "" {
		t.Error(got)
	}
	if got := get(h, "query?query=count(up[1h]%20or%20lonely)"); got.status != 400 {
		t.Error(got)
	}
	if got := get(h, "query?query=sum(count_over_time(%7B__name__=~%22up|lonely%22%7D[1h]))%20by%20(job)"); !strings.Contains(got.body, `{"job":"node"},"value":[1750000000,"1"]`) {
		t.Error(got)
	}
}

// TestMissing: an answer without some shards says so.
func TestMissing(t *testing.T) {
	o := labOptions(t)
	var asked scan.Consistency
	o.WithConsistency = func(r scan.Consistency) (scan.Source, func() []uint16) {
		asked = r
		return o.Source, func() []uint16 { return []uint16{3, 7} }
	}
	got := get(New(o), "query?query=sum(up)&partial&stale_ms=1500")
	if got.header.Get(consistency.MissingHeader) != "3,7" || !strings.HasSuffix(got.body, `"warnings":["the answer is partial: nobody answers for shards 3,7"]}`) ||
		asked != (scan.Consistency{Partial: true, StalenessMax: 1500 * time.Millisecond}) {
		t.Error(got, asked)
	}
	if got := get(New(o), "query?query=up&stale_ms=-1"); got.status != 400 {
		t.Error(got)
	}
}

// broken is a ResponseWriter whose client goes away after some bytes.
type broken struct {
	http.ResponseWriter
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("gone")
	}
	return b.ResponseWriter.Write(p)
}

// TestCut: an answer that cannot be completed ends the connection, so that nobody takes
// the part for the whole.
func TestCut(t *testing.T) {
	o := labOptions(t)
	memory := o.Source.(*scantest.Memory)
	for i := range 5000 {
		put(t, memory, "", "many", []float64{float64(i)}, "n", strings.Repeat("x", i%40)+strconv.Itoa(i))
	}
	defer func() {
		if r := recover(); r != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			t.Errorf("the handler ended with %v", r)
		}
		if running := o.Admission.Running(); len(running) != 0 {
			t.Error(running)
		}
	}()
	o.Admission = admission.New(admission.Options{})
	access.Open(New(o)).ServeHTTP(&broken{httptest.NewRecorder(), 100_000}, httptest.NewRequest("GET", pathPrefix+"query?query=many", nil))
}

// TestNothingScraped: what a server answers that scrapes nothing and has no rules.
func TestNothingScraped(t *testing.T) {
	o := labOptions(t)
	o.Deleter = o.Source.(*scantest.Memory)
	h := New(o)
	for target, want := range map[string]string{
		"targets":          `{"activeTargets":[],"droppedTargetCounts":{},"droppedTargets":[]}`,
		"targets/metadata": `[]`,
		"alertmanagers":    `{"activeAlertmanagers":[],"droppedAlertmanagers":[]}`,
	} {
		if got := get(h, target); got.body != success(want) {
			t.Errorf("%s: %s", target, got.body)
		}
	}
	if got := get(h, "status/runtimeinfo"); got.status != 200 || !strings.Contains(got.body, `"serverTime":"2025-06-15T15:06:40Z"`) {
		t.Error(got)
	}
	if got := do(h, httptest.NewRequest("POST", pathPrefix+"admin/tsdb/clean_tombstones", nil)); got.status != 204 {
		t.Error(got)
	}
}
