package opentsdb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// grafanaServer has two hosts of one metric around t0.
func grafanaServer(t testing.TB) *server {
	s := newServer(t)
	s.put(scantest.Key("", "cpu.user", "host", "a", "dc", "x"), t0, 1, t0+30, 3, t0+60, 5)
	s.put(scantest.Key("", "cpu.user", "host", "b", "dc", "x"), t0, 10, t0+30, 30, t0+60, 50)
	s.put(scantest.Key("", "mem"), t0, 1)
	return s
}

// TestGrafana sends what Grafana's OpenTSDB data source sends, by the version
// that is set in it (public/app/plugins/datasource/opentsdb, pkg/tsdb/opentsdb).
func TestGrafana(t *testing.T) {
	s := grafanaServer(t)
	// Every version: the health check, then what the query editor needs.
	s.want("GET", "/api/suggest?type=metrics&q=cpu&max=1000", "", 200, `["cpu.user"]`)
	s.want("GET", "/api/suggest?type=tagk&q=&max=1000", "", 200, `["dc","host"]`)
	s.want("GET", "/api/suggest?type=tagv&q=&max=1000", "", 200, `["a","b","x"]`)
	s.want("GET", "/api/aggregators", "", 200, `["`+strings.Join(aggregatorNames, `","`)+`"]`)
	status, filters := s.do("GET", "/api/config/filters", "")
	if names := regexp.MustCompile(`"(\w+)":\{"examples"`).FindAllStringSubmatch(filters, -1); status != 200 || len(names) != 8 {
		t.Errorf("filters: %d %s", status, filters)
	}
	status, lookup := s.do("GET", "/api/search/lookup?m=cpu.user{host=*}&limit=1000", "")
	lookup = regexp.MustCompile(`"time":[0-9.]+`).ReplaceAllString(lookup, `"time":0`)
	if want := `{"type":"LOOKUP","metric":"cpu.user","tags":[{"key":"host","value":"*"}],"limit":1000,"startIndex":0,"time":0,"totalResults":2,"results":[` +
		`{"tsuid":"00086370752E75736572026463017804686F73740161","metric":"cpu.user","tags":{"dc":"x","host":"a"}},` +
		`{"tsuid":"00086370752E75736572026463017804686F73740162","metric":"cpu.user","tags":{"dc":"x","host":"b"}}]}`; status != 200 || lookup != want {
		t.Errorf("lookup: %d %s\nwant %s", status, lookup, want)
	}

	// Version ≤ 2.1: tags, times as the browser has them, seconds.
	s.want("POST", "/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"metric":"cpu.user","aggregator":"avg","downsample":"1m-avg","tags":{"host":"*"}}],`+
		`"msResolution":false,"globalAnnotations":true,"end":%d}`, t0*1000, (t0+90)*1000), 200,
		fmt.Sprintf(`[{"metric":"cpu.user","tags":{"dc":"x","host":"a"},"aggregateTags":[],"dps":{"%d":2.0,"%d":5.0}},`+
			`{"metric":"cpu.user","tags":{"dc":"x","host":"b"},"aggregateTags":[],"dps":{"%d":20.0,"%d":50.0}}]`, t0, t0+60, t0, t0+60))

	// Version 2.2: filters, a fill policy, the rate of a counter, milliseconds.
	s.want("POST", "/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"metric":"cpu.user","aggregator":"sum","rate":true,`+
		`"rateOptions":{"counter":true,"dropResets":true},"downsample":"30s-avg-null",`+
		`"filters":[{"filter":"a|b","groupBy":false,"tagk":"host","type":"literal_or"}]}],"msResolution":true,"globalAnnotations":true,"end":%d}`, t0*1000, (t0+90)*1000), 200,
		fmt.Sprintf(`[{"metric":"cpu.user","tags":{"dc":"x"},"aggregateTags":["host"],"dps":{"%d000":0.7333333333333333,"%d000":0.7333333333333333,"%d000":null}}]`,
			t0+30, t0+60, t0+90))

	// Version 2.3: the query is shown, and its index tells the panel's target.
	s.want("POST", "/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"metric":"mem","aggregator":"max","explicitTags":true,"downsample":"1m-max"}],`+
		`"msResolution":false,"globalAnnotations":true,"showQuery":true,"end":%d}`, t0*1000, (t0+90)*1000), 200,
		fmt.Sprintf(`[{"metric":"mem","tags":{},"aggregateTags":[],"query":{"aggregator":"max","metric":"mem","tsuids":null,"downsample":"1m-max","rate":false,`+
			`"filters":[],"percentiles":null,"explicitTags":true,"rateOptions":null,"index":0,"tags":{}},"dps":{"%d":1.0}}]`, t0))

	// Version 2.4: from the backend, with arrays, and numbers where others send text.
	s.want("POST", "/api/query?arrays=true", fmt.Sprintf(`{"start":%d,"end":%d,"queries":[{"aggregator":"sum","downsample":"1m-sum","metric":"cpu.user",`+
		`"rate":true,"rateOptions":{"counter":false,"counterMax":1e12}}]}`, t0*1000, (t0+90)*1000), 200,
		fmt.Sprintf(`[{"metric":"cpu.user","tags":{"dc":"x"},"aggregateTags":["host"],"dps":[[%d,0.18333333333333332]]}]`, t0+60))

	// An annotation is a query without anything.
	s.want("POST", "/api/query", fmt.Sprintf(`{"start":"%d","queries":[{"aggregator":"sum","metric":"mem"}],"msResolution":false,"globalAnnotations":true}`, t0*1000), 200,
		fmt.Sprintf(`[{"metric":"mem","tags":{},"aggregateTags":[],"dps":{"%d":1}}]`, t0))
}

func TestQueryForms(t *testing.T) {
	s := grafanaServer(t)
	// The result says what it is of; a tsuid leads back to its series.
	s.want("GET", fmt.Sprintf("/api/query?start=%d&show_tsuids&m=none:cpu.user{host=a}", t0), "", 200,
		fmt.Sprintf(`[{"metric":"cpu.user","tags":{"dc":"x","host":"a"},"aggregateTags":[],"tsuids":["00086370752E75736572026463017804686F73740161"],"dps":%s}]`, dps(0, 1, 30, 3, 60, 5)))
	both := fmt.Sprintf(`[{"metric":"cpu.user","tags":{"dc":"x"},"aggregateTags":["host"],"dps":%s}]`, dps(0, 11, 30, 33, 60, 55))
	s.want("GET", fmt.Sprintf("/api/query?start=%d&tsuid=sum:00086370752E75736572026463017804686F73740161,00086370752E75736572026463017804686F73740162", t0), "", 200, both)
	s.want("POST", "/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"aggregator":"sum","tsuids":["00086370752E75736572026463017804686F73740161","00086370752e75736572026463017804686f73740162"]}]}`, t0), 200, both)
	// Two sub-queries, one of them twice.
	s.want("GET", fmt.Sprintf("/api/query?start=%d&m=max:mem&m=sum:cpu.user&m=max:mem&no_annotations&global_annotations&padding", t0), "", 200,
		fmt.Sprintf(`[{"metric":"mem","tags":{},"aggregateTags":[],"dps":%s},`, dps(0, 1))+both[1:])
	// What TickTock's clients add.
	s.want("GET", fmt.Sprintf("/api/query?start=%d&m=sum:rollup_fallback_raw:pre-agg:cpu.user", t0), "", 200, both)
	// A summary is one more object.
	_, body := s.do("GET", fmt.Sprintf("/api/query?start=%d&show_summary&m=max:mem", t0), "")
	if !regexp.MustCompile(`\},\{"statsSummary":\{"datapoints":1,"rawDatapoints":1,"aggregationTime":0\.0,"serializationTime":[0-9.]+,"storageTime":[0-9.]+,"timeTotal":[0-9.]+\}\}\]$`).MatchString(body) {
		t.Errorf("summary: %s", body)
	}
	// A metric that has colons, as recording rules of Prometheus have.
	s.put(scantest.Key("", "job:up:sum"), t0, 4)
	s.want("GET", fmt.Sprintf("/api/query?start=%d&m=sum:1m-avg:job:up:sum", t0), "", 200,
		fmt.Sprintf(`[{"metric":"job:up:sum","tags":{},"aggregateTags":[],"dps":{"%d":4.0}}]`, t0))
}

func TestDatabases(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m"), t0, 1)
	s.put(scantest.Key("lab", "m", "k", "v"), t0, 2)
	for _, test := range []struct{ parameter, header, want string }{
		{"", "", `"tags":{},"aggregateTags":[],"dps":` + dps(0, 1)},
		{"&db=lab", "", `"tags":{"k":"v"},"aggregateTags":[],"dps":` + dps(0, 2)},
		{"", "lab", `"tags":{"k":"v"},"aggregateTags":[],"dps":` + dps(0, 2)},
		{"&db=lab", "lab", `"tags":{"k":"v"},"aggregateTags":[],"dps":` + dps(0, 2)},
	} {
		s.want("GET", fmt.Sprintf("/api/query?start=%d&m=sum:m%s", t0, test.parameter), "", 200, `[{"metric":"m",`+test.want+`}]`, "X-Scope-OrgID", test.header)
	}
	s.want("GET", fmt.Sprintf("/api/query?start=%d&m=sum:m&db=", t0), "", 400, `{"error":{"code":400,"message":"which database is meant is not clear: `+
		`the parameter db of the URL says \"default\" and the header X-Scope-OrgID says \"lab\"; name one"}}`, "X-Scope-OrgID", "lab")
	s.want("GET", "/api/suggest?type=tagk&db=lab", "", 200, `["k"]`)
	s.want("GET", "/api/suggest?type=tagk", "", 200, `[]`)
	// A tsuid of one database names nothing in another.
	s.want("GET", "/api/query?start=1&tsuid=sum:036C6162016D016B0176", "", 400, `{"error":{"code":400,"message":"Unable to resolve TSUID: '036C6162016D016B0176'"}}`)
}

func TestLast(t *testing.T) {
	s := newServer(t)
	hour := float64(now.Unix()/3600*3600) + 0.5
	s.put(scantest.Key("", "m", "host", "a", "dc", "x"), hour-7200, 1, hour, 2.5)
	s.put(scantest.Key("", "m", "host", "b"), hour-7200, 7)
	const a, b = `{"metric":"m","timestamp":1699999200500,"value":"2.5","tags":{"dc":"x","host":"a"},"tsuid":"00016D026463017804686F73740161"}`,
		`{"metric":"m","timestamp":1699992000500,"value":"7","tags":{"host":"b"},"tsuid":"00016D04686F73740162"}`
	s.want("GET", "/api/query/last?timeseries=m&resolve=true", "", 200, "["+a+","+b+"]")
	s.want("GET", "/api/query/last?timeseries=m&timeseries=m{host=a}&resolve", "", 200, "["+a+","+b+"]")
	s.want("GET", "/api/query/last?timeseries=m{host=b}&resolve", "", 200, "["+b+"]")
	s.want("GET", "/api/query/last?timeseries=m{dc=*}&resolve", "", 200, "["+a+"]")
	s.want("GET", "/api/query/last?timeseries=m{host=b}", "", 200, `[{"timestamp":1699992000500,"value":"7","tsuid":"00016D04686F73740162"}]`)
	s.want("GET", "/api/query/last?timeseries=m&resolve&back_scan=1", "", 200, "["+a+"]")
	s.want("GET", "/api/query/last?timeseries=m&resolve&back_scan=2", "", 200, "["+a+","+b+"]")
	s.want("GET", "/api/query/last?tsuids=00016D04686F73740162&resolve", "", 200, "["+b+"]")
	s.want("POST", "/api/query/last", `{"queries":[{"metric":"m","tags":{"host":"b"}},{"tsuids":["00016D026463017804686F73740161"]}],"resolveNames":true,"backScan":24}`, 200, "["+a+","+b+"]")
	s.want("GET", "/api/query/last?timeseries=m&back_scan=-1", "", 400, `{"error":{"code":400,"message":"Unable to parse back_scan parameter"}}`)
	s.want("GET", "/api/query/last?timeseries=m{host=zz}", "", 400, `{"error":{"code":400,"message":"No such name for 'tagv': 'zz'"}}`)
	s.want("GET", "/api/query/last?timeseries=m{host=x}", "", 200, `[]`)
}

func TestLookup(t *testing.T) {
	s := newServer(t)
	for _, host := range []string{"a", "b", "c"} {
		s.put(scantest.Key("", "m", "host", host, "dc", "x"), t0, 1)
		s.put(scantest.Key("", "n", "peer", host), t0, 1)
	}
	series := regexp.MustCompile(`"tsuid":"[0-9A-F]+","metric":"(\w+)","tags":\{([^}]*)\}`)
	for _, test := range []struct{ method, target, body, want string }{
		{"GET", "/api/search/lookup?m=m", "", `3: m"dc":"x","host":"a" m"dc":"x","host":"b" m"dc":"x","host":"c"`},
		{"GET", "/api/search/lookup?m=m&limit=2", "", `3: m"dc":"x","host":"a" m"dc":"x","host":"b"`},
		{"GET", "/api/search/lookup?m=m&limit=2&start_index=2", "", `3: m"dc":"x","host":"c"`},
		{"GET", "/api/search/lookup?m=m&start_index=9", "", `3:`},
		{"GET", "/api/search/lookup?m={host=b}", "", `1: m"dc":"x","host":"b"`},
		{"GET", "/api/search/lookup?m={*=b}", "", `2: m"dc":"x","host":"b" n"peer":"b"`},
		{"GET", "/api/search/lookup?m={*=b}&limit=1", "", `2: m"dc":"x","host":"b"`},
		{"GET", "/api/search/lookup?m=*{peer=*}&limit=1", "", `3: n"peer":"a"`},
		{"GET", "/api/search/lookup?m=m{host=x}", "", `0:`},
		{"POST", "/api/search/lookup", `{"metric":"m","tags":[{"key":"host","value":"c"}],"limit":5}`, `1: m"dc":"x","host":"c"`},
		{"POST", "/api/search/lookup", `{"tags":[{"key":"peer"}],"limit":"1"}`, `3: n"peer":"a"`},
	} {
		_, body := s.do(test.method, test.target, test.body)
		got := regexp.MustCompile(`"totalResults":(\d+)`).FindStringSubmatch(body)
		if got == nil {
			t.Errorf("%s %s: %s", test.target, test.body, body)
			continue
		}
		text := got[1] + ":"
		for _, found := range series.FindAllStringSubmatch(body, -1) {
			text += " " + found[1] + found[2]
		}
		if text != test.want {
			t.Errorf("%s %s: %s\nwant %s", test.target, test.body, text, test.want)
		}
	}
}

// anyOrder visits keys in an order of its own, as storage may.
type anyOrder struct{ scan.Source }

func (s anyOrder) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	var keys []series.Key
	if _, err := s.Source.Series(ctx, selector, 0, func(key series.Key) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	}); err != nil {
		return 0, err
	}
	rand.New(rand.NewPCG(1, uint64(limit))).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:min(len(keys), cmp.Or(limit, len(keys)))] {
		if err := visit(key); err != nil {
			return 0, err
		}
	}
	return int64(len(keys)), nil
}

// TestLookupPages: the pages of an answer hold every series once, in the order of keys,
// whatever the order of storage. A test of the page's examples has found that they did not.
func TestLookupPages(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Source = anyOrder{o.Source} })
	var want []string
	for i := range 50 {
		s.put(scantest.Key("", "m", "host", fmt.Sprintf("h%02d", i)), t0, 1)
		want = append(want, fmt.Sprintf("h%02d", i))
	}
	for _, page := range []int{1, 7, 25, 50, 60} {
		var got []string
		for start := 0; start < 50; start += page {
			_, body := s.do("GET", fmt.Sprintf("/api/search/lookup?m=m{host=*}&limit=%d&start_index=%d", page, start), "")
			var answer struct {
				TotalResults int
				Results      []struct{ Tags map[string]string }
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.TotalResults != 50 {
				t.Fatalf("%v: %s", err, body)
			}
			for _, r := range answer.Results {
				got = append(got, r.Tags["host"])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d: %v", page, got)
		}
	}
}

func TestSuggest(t *testing.T) {
	s := newServer(t)
	for i := range 40 {
		s.put(scantest.Key("", fmt.Sprintf("metric.%02d", i)), t0, 1)
	}
	for target, count := range map[string]int{"type=metrics": 25, "type=metrics&q=metric.1": 10, "type=metrics&max=30": 30, "type=metrics&max=0": 25, "type=metrics&q=x": 0} {
		if _, body := s.do("GET", "/api/suggest?"+target, ""); strings.Count(body, `"`) != 2*count {
			t.Errorf("%s: %s", target, body)
		}
	}
	s.want("POST", "/api/suggest", `{"type":"metrics","q":"metric.0","max":2}`, 200, `["metric.00","metric.01"]`)
	s.want("POST", "/api/suggest", `{"type":"metrics","q":"metric.0","max":"2"}`, 200, `["metric.00","metric.01"]`)
	s.want("GET", "/api/suggest?type=metrics&max=many", "", 400, `{"error":{"code":400,"message":"Unable to parse 'max' as a number"}}`)
}

func TestMeta(t *testing.T) {
	s := newServer(t, func(o *Options) {
		o.Config = map[string]string{"tsd.core.auto_create_metrics": "true"}
		o.Version = Version{Version: "0.1.0", FullRevision: "abc"}
		o.Stats = func(context.Context) []Stat {
			return []Stat{{Metric: "tsd.rpc.received", TimeMs: t0*1000 + 999, Value: 12, Tags: map[string]string{"type": "put"}}}
		}
	})
	s.want("GET", "/api/config", "", 200, `{"tsd.core.auto_create_metrics":"true"}`)
	s.want("GET", "/api/version", "", 200, `{"branch":"","full_revision":"abc","host":"","repo":"","repo_status":"","short_revision":"","timestamp":"","user":"","version":"0.1.0"}`)
	s.want("GET", "/api/stats", "", 200, fmt.Sprintf(`[{"metric":"tsd.rpc.received","timestamp":%d,"value":"12","tags":{"type":"put"}}]`, t0))
	s.want("GET", "/api/dropcaches", "", 200, `{"message":"Caches dropped","status":"200"}`)
	s.want("GET", "/api/Version/", "", 200, `{"branch":"","full_revision":"abc","host":"","repo":"","repo_status":"","short_revision":"","timestamp":"","user":"","version":"0.1.0"}`)
	w := httptest.NewRecorder()
	s.serve(w, httptest.NewRequest("GET", "/api/version", nil))
	if got := w.Header().Get("Content-Type"); got != "application/json; charset=UTF-8" || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
		t.Errorf("header %v", w.Header())
	}
}
