package opentsdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// TestWireFacts goes through what unmodified clients send and expect, fact by fact: the
// names of the subtests are the facts. What they write is tested in router/ingest.
func TestWireFacts(t *testing.T) {
	const body = `{"error":{"code":%d,"message":%q}}`
	const head, tail = `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":{`, `}}]`
	for _, fact := range []struct {
		name                 string
		method, target, body string
		status               int
		want                 string
	}{
		{"unknown path 404 Endpoint not found", "GET", "/api/none", "", 404, fmt.Sprintf(body, 404, "Endpoint not found")},
		{"wrong verb 405", "PUT", "/api/aggregators", "", 405, `{"error":{"code":405,"message":"Method not allowed","details":"The HTTP method [PUT] is not permitted for this endpoint"}}`},
		{"rate", "GET", "/api/query?start=0&m=sum:rate:m{host=a}", "", 200, head + `"20":0.2,"30":-0.1` + tail},
		{"rate of a counter", "GET", "/api/query?start=0&m=sum:rate{counter}:m{host=a}", "", 200, head + `"20":0.2,"30":922337203685477600.0` + tail},
		{"rate of a counter with max", "GET", "/api/query?start=0&m=sum:rate{counter,9}:m{host=a}", "", 200, head + `"20":0.2,"30":0.8` + tail},
		{"rate of a counter with max and reset", "GET", "/api/query?start=0&m=sum:rate{counter,9,0.5}:m{host=a}", "", 200, head + `"20":0.2,"30":0.0` + tail},
		{"rate with dropcounter", "GET", "/api/query?start=0&m=sum:rate{dropcounter}:m{host=a}", "", 200, head + `"20":0.2` + tail},
		{"1m-avg", "GET", "/api/query?start=0&m=sum:1m-avg:m{host=a}", "", 200, head + `"0":2.0` + tail},
		{"1m-avg-nan", "GET", "/api/query?start=0&end=60&m=sum:1m-avg-nan:m{host=a}", "", 200, head + `"0":2.0,"60":null` + tail},
		{"explicit_tags", "GET", "/api/query?start=0&m=sum:explicit_tags:m{host=*}", "", 200, head + `"10":1,"20":3,"30":2` + tail},
		{"group filters and others", "GET", "/api/query?start=0&end=15&m=sum:m{host=*}{dc=literal_or(x)}", "", 200,
			`[{"metric":"m","tags":{"dc":"x","host":"b"},"aggregateTags":[],"dps":{"10":5}}]`},
		{"repeatable m", "GET", "/api/query?start=0&end=15&m=sum:m{host=a}&m=count:m{host=a}", "", 200, head + `"10":1}},{` + head[2:] + `"10":1` + tail},
		{"ms", "GET", "/api/query?start=0&end=15&ms&m=sum:m{host=a}", "", 200, head + `"10000":1` + tail},
		{"arrays", "GET", "/api/query?start=0&end=15&arrays&m=sum:m{host=a}", "", 200, strings.TrimSuffix(head, "{") + `[[10,1]]}]`},
		{"times in epoch s and ms", "GET", "/api/query?start=15&end=1600000000000&m=sum:m{host=a}", "", 200, head + `"20":3,"30":2` + tail},
		{"times 1h-ago and now", "GET", "/api/query?start=1h-ago&end=now&m=sum:fresh", "", 200, `[{"metric":"fresh","tags":{},"aggregateTags":[],"dps":{"1699999999":8}}]`},
		{"times yyyy/MM/dd", "GET", "/api/query?start=1970/01/01&end=1970/01/01-00:00:20&m=sum:m{host=a}", "", 200, head + `"10":1,"20":3` + tail},
		{"times yyyy/MM/dd-HH:mm", "GET", "/api/query?start=1970/01/01-00:00&end=1970/01/01-00:01&m=sum:m{host=a}", "", 200, head + `"10":1,"20":3,"30":2` + tail},
		{"0all-count", "GET", "/api/query?start=1&m=sum:0all-count:m{host=a}", "", 200, head + `"1":3.0` + tail},
		{"1dc-sum", "POST", "/api/query", `{"start":"1969/12/31","timezone":"America/New_York","queries":[{"metric":"m","aggregator":"sum","downsample":"1dc-sum","tags":{"host":"a"}}]}`,
			200, head + `"-68400":6.0` + tail},
		{"fill zero", "GET", "/api/query?start=0&end=60&m=sum:1m-avg-zero:m{host=a}", "", 200, head + `"0":2.0,"60":0.0` + tail},
		{"fill null", "GET", "/api/query?start=0&end=60&m=sum:1m-avg-null:m{host=a}", "", 200, head + `"0":2.0,"60":null` + tail},
		{"fill scalar", "GET", "/api/query?start=0&end=60&m=sum:1m-avg-scalar(7):m{host=a}", "", 200, head + `"0":2.0,"60":7.0` + tail},
		{"fill none", "GET", "/api/query?start=0&end=60&m=sum:1m-avg-none:m{host=a}", "", 200, head + `"0":2.0` + tail},
		{"NaN is the text NaN, but null by default", "GET", "/api/query?start=0&end=60&nan=string&m=sum:1m-avg-nan:m{host=a}", "", 200, head + `"0":2.0,"60":"NaN"` + tail},
		{"legacy tags *", "POST", "/api/query", `{"start":0,"end":15,"queries":[{"metric":"m","aggregator":"sum","tags":{"host":"*"}}]}`, 200,
			head + `"10":1}},{"metric":"m","tags":{"dc":"x","host":"b"},"aggregateTags":[],"dps":{"10":5` + tail},
		{"legacy tags a|b", "POST", "/api/query", `{"start":0,"end":15,"queries":[{"metric":"m","aggregator":"sum","tags":{"host":"a|c"}}]}`, 200, head + `"10":1` + tail},
		{"filter with groupBy", "POST", "/api/query", `{"start":0,"end":15,"queries":[{"metric":"m","aggregator":"sum","explicitTags":true,"filters":[{"type":"wildcard","tagk":"host","filter":"*","groupBy":true}]}]}`,
			200, head + `"10":1` + tail},
		{"percentiles are of histograms", "POST", "/api/query", `{"start":0,"queries":[{"metric":"m","aggregator":"sum","percentiles":[99.9]}]}`, 400,
			fmt.Sprintf(body, 400, "Histograms are not stored, so percentiles of their buckets cannot be queried: use the aggregators p50 to p999")},
		{"rollupUsage", "POST", "/api/query", `{"start":0,"end":15,"queries":[{"metric":"m","aggregator":"sum","rollupUsage":"ROLLUP_FALLBACK_RAW","tags":{"host":"a"}}]}`, 200, head + `"10":1` + tail},
		{"rollupUsage in m", "GET", "/api/query?start=0&end=15&m=sum:rollup_raw:m{host=a}", "", 200, head + `"10":1` + tail},
		{"topN of TickTock", "GET", "/api/query?start=0&end=15&m=top1:m{host=*}", "", 200, `[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":{"10":1}},` +
			`{"metric":"m","tags":{"dc":"x","host":"b"},"aggregateTags":[],"dps":{"10":5}}]`},
		{"query/last with resolve", "GET", "/api/query/last?timeseries=m{host=a}&back_scan=0&resolve", "", 200,
			`[{"metric":"m","timestamp":30000,"value":"2","tags":{"host":"a"},"tsuid":"00016D04686F73740161"}]`},
		{"suggest, q optional", "GET", "/api/suggest?type=metrics", "", 200, `["fresh","m"]`},
		{"suggest by POST", "POST", "/api/suggest", `{"type":"tagv","q":"b"}`, 200, `["b"]`},
		{"globalAnnotations and noAnnotations", "POST", "/api/query", `{"start":0,"end":15,"globalAnnotations":true,"noAnnotations":false,"queries":[{"metric":"m","aggregator":"sum","tags":{"host":"a"}}]}`,
			200, head + `"10":1` + tail},
		{"dropcaches", "GET", "/api/dropcaches", "", 200, `{"message":"Caches dropped","status":"200"}`},
		{"query/exp", "POST", "/api/query/exp", "{}", 404, `{"error":{"code":404,"message":"Endpoint not found",` +
			`"details":"Expressions are not served here: write them in PromQL, at /api/v1/query_range, over the same series"}}`},
		{"query/gexp", "GET", "/api/query/gexp?start=0&exp=scale(sum:m,2)", "", 404, `{"error":{"code":404,"message":"Endpoint not found",` +
			`"details":"Functions over series are not served here: write them in PromQL, at /api/v1/query_range, over the same series"}}`},
		{"stats/jvm", "GET", "/api/stats/jvm", "", 404, `{"error":{"code":404,"message":"Endpoint not found",` +
			`"details":"There is no JVM: /metrics tells of memory and garbage collection"}}`},
	} {
		t.Run(fact.name, func(t *testing.T) {
			s := newServer(t)
			s.put(scantest.Key("", "m", "host", "a"), 10, 1, 20, 3, 30, 2)
			s.put(scantest.Key("", "m", "host", "b", "dc", "x"), 10, 5)
			s.put(scantest.Key("", "fresh"), 1_699_999_999, 8)
			s.want(fact.method, fact.target, fact.body, fact.status, fact.want)
		})
	}
}

// TestAggregatorNames: /api/aggregators tells every function that clients know.
func TestAggregatorNames(t *testing.T) {
	for name := range strings.FieldsSeq("sum pfsum min max avg median none mult dev diff zimsum mimmin mimmax squareSum count first last " +
		"p50 p75 p90 p95 p99 p999 ep50r3 ep50r7 ep75r3 ep75r7 ep90r3 ep90r7 ep95r3 ep95r7 ep99r3 ep99r7 ep999r3 ep999r7 top1 top3 top5 top9 bottom1 bottom3 bottom5 bottom9") {
		if _, ok := findAggregator(name); !ok || !slices.Contains(aggregatorNames, name) {
			t.Error(name)
		}
	}
}

// TestStatsOfQueries: who asks sees the query that is being answered, and the slow ones.
func TestStatsOfQueries(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(o *Options) {
		o.Source = heldSource{o.Source, inside, leave}
		o.Admission = admission.New(admission.Options{SlowerThan: 1})
	})
	s.put(scantest.Key("", "m"), 1, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.do("GET", "/api/query?start=0&m=sum:m", "")
	}()
	<-inside
	list := func() (texts map[string][]string) {
		_, body := s.do("GET", "/api/stats/query", "")
		var all map[string][]struct{ Query, Database, Dialect string }
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		texts = map[string][]string{}
		for name, queries := range all {
			for _, q := range queries {
				texts[name] = append(texts[name], q.Dialect+" "+q.Database+" "+q.Query)
			}
		}
		return texts
	}
	const text = "opentsdb default /api/query?start=0&m=sum:m"
	if got := list(); !slices.Equal(got["running"], []string{text}) || len(got["completed"]) > 0 {
		t.Errorf("%q", got)
	}
	leave <- struct{}{}
	<-done
	if got := list(); !slices.Equal(got["completed"], []string{text}) || len(got["running"]) > 0 {
		t.Errorf("%q", got)
	}
	_, body := s.do("GET", "/api/serializers", "")
	var serializers []map[string]any
	if err := json.Unmarshal([]byte(body), &serializers); err != nil || serializers[0]["serializer"] != "json" {
		t.Errorf("%v: %s", err, body)
	}
}

// What Grafana's backend decodes (pkg/tsdb/opentsdb/types.go): dps are an object, and for
// version 2.4 arrays. A text in place of a number fails the whole panel (grafana#13048).
type (
	grafanaCommon struct {
		Metric        string            `json:"metric"`
		Tags          map[string]string `json:"tags"`
		AggregateTags []string          `json:"aggregateTags"`
	}
	grafanaResponse struct {
		grafanaCommon
		DataPoints map[string]float64 `json:"dps"`
	}
	grafanaResponse24 struct {
		grafanaCommon
		DataPoints [][]float64 `json:"dps"`
	}
)

// TestGrafanaBackend sends what BuildMetric and CreateRequest of pkg/tsdb/opentsdb make of
// panels, and decodes as ParseResponse does.
func TestGrafanaBackend(t *testing.T) {
	s := grafanaServer(t)
	for name, queries := range map[string]string{
		"plain":          `{"aggregator":"sum","downsample":"1m-avg","metric":"cpu.user"}`,
		"no fill policy": `{"aggregator":"sum","downsample":"1m-avg-","metric":"cpu.user"}`,
		"no downsample":  `{"aggregator":"avg","metric":"cpu.user"}`,
		"fill":           `{"aggregator":"sum","downsample":"15s-avg-nan","metric":"cpu.user"}`,
		"fill null":      `{"aggregator":"sum","downsample":"1500ms-avg-null","metric":"cpu.user"}`,
		"rate":           `{"aggregator":"sum","downsample":"1m-avg","metric":"cpu.user","rate":true,"rateOptions":{"counter":true,"dropResets":true}}`,
		"rate with max":  `{"aggregator":"sum","downsample":"1m-avg","metric":"cpu.user","rate":true,"rateOptions":{"counter":true,"counterMax":45,"resetValue":60}}`,
		"tags":           `{"aggregator":"sum","downsample":"1m-avg","metric":"cpu.user","tags":{"host":"a|b"}}`,
		"filters":        `{"aggregator":"sum","downsample":"1m-avg","filters":[{"filter":"*","groupBy":true,"tagk":"host","type":"wildcard"}],"metric":"cpu.user","explicitTags":false}`,
		"several":        `{"aggregator":"sum","metric":"cpu.user"},{"aggregator":"max","metric":"mem"}`,
		"a day's window": `{"aggregator":"sum","downsample":"1d-avg","metric":"cpu.user"}`,
	} {
		body := fmt.Sprintf(`{"start":%d,"end":%d,"queries":[%s]}`, (t0-86_400)*1000, (t0+90)*1000, queries)
		status, text := s.do("POST", "/api/query", body, "Content-Type", "application/json")
		var objects []grafanaResponse
		if err := json.Unmarshal([]byte(text), &objects); err != nil || status != 200 {
			t.Errorf("%s: %d %v %.300s", name, status, err, text)
			continue
		}
		status, text = s.do("POST", "/api/query?arrays=true", body, "Content-Type", "application/json")
		var arrays []grafanaResponse24
		if err := json.Unmarshal([]byte(text), &arrays); err != nil || status != 200 || len(arrays) != len(objects) {
			t.Errorf("%s: %d %v %.300s", name, status, err, text)
			continue
		}
		for i, r := range arrays {
			points := map[string]float64{}
			for _, p := range r.DataPoints {
				points[strconv.FormatInt(int64(p[0]), 10)] = p[1]
			}
			if !maps.Equal(points, objects[i].DataPoints) || r.Metric != objects[i].Metric || !maps.Equal(r.Tags, objects[i].Tags) || len(points) == 0 {
				t.Errorf("%s: %+v and %+v", name, r, objects[i])
			}
		}
	}
	// An annotation's query shows none: Grafana reads annotations and globalAnnotations of the first result, which are not there.
	_, text := s.do("POST", "/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"aggregator":"sum","metric":"mem"}],"msResolution":false,"globalAnnotations":true}`, t0*1000))
	if strings.Contains(text, "nnotations") {
		t.Error(text)
	}
}
