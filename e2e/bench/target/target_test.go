package target

import (
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/workload"
)

var targets = []Target{TickMesh{Binary: "tickmesh"}, TickTock{Program: "tt"}, VictoriaMetrics{}, InfluxDB{}, Prometheus{}}

var (
	oneLineSeries = Query{Kind: Mean, Form: workload.Line, Device: 3, Sensor: 4, FromS: 1_700_006_400, ToS: 1_700_010_000}
	onePutSeries  = Query{Kind: Raw, Form: workload.Put, Device: 3, Sensor: 4, FromS: 1_700_006_400, ToS: 1_700_010_000}
	everything    = Query{Kind: Minutes, Form: workload.Line, Device: All, Sensor: All, FromS: 1_700_006_400, ToS: 1_700_010_000}
	each          = Query{Kind: EachMinutes, Form: workload.Line, Device: All, Sensor: All, FromS: 1_700_006_400, ToS: 1_700_010_000}
)

// The paths are written out, decoded, as a person would type them.
func TestQueryPaths(t *testing.T) {
	for _, test := range []struct {
		target Target
		query  Query
		path   string
	}{
		{TickMesh{}, oneLineSeries, "/api/query?start=1700006400&end=1700010000&arrays=true&m=avg:0all-avg:m{device=d_3,_field=s_4}"},
		{TickMesh{}, onePutSeries, "/api/query?start=1700006400&end=1700009999&arrays=true&m=none:m{device=d_3,sensor=s_4}"},
		{TickMesh{}, everything, "/api/query?start=1700006400&end=1700009999&arrays=true&m=avg:1m-avg:m"},
		{TickMesh{}, each, "/api/query?start=1700006400&end=1700009999&arrays=true&m=none:1m-avg:m"},
		{TickTock{}, each, "/api/query?start=1700006400&end=1700009999&m=none:1m-avg:m"},
		{VictoriaMetrics{}, each, `/api/v1/query_range?nocache=1&start=1700006459&end=1700009999&step=60&query=avg_over_time({__name__=~"m_s_[0-9]"}[1m]) keep_metric_names`},
		{InfluxDB{}, each, "/query?epoch=s&db=bench&q=SELECT mean(/^s_/) FROM m WHERE time >= 1700006400s AND time < 1700010000s GROUP BY time(1m), *"},
		{TickTock{}, oneLineSeries, "/api/query?start=1700006400&end=1700009999&m=none:m{device=d_3,_field=s_4}"},
		{TickTock{}, onePutSeries, "/api/query?start=1700006400&end=1700009999&m=none:m{device=d_3,sensor=s_4}"},
		{TickTock{}, everything, "/api/query?start=1700006400&end=1700009999&m=avg:1m-avg:m"},
		{VictoriaMetrics{}, oneLineSeries, `/api/v1/query?nocache=1&time=1700009999&query=avg(avg_over_time(m_s_4{device="d_3"}[3600s]))`},
		{VictoriaMetrics{}, onePutSeries, `/api/v1/query?nocache=1&time=1700009999&query=m{device="d_3",sensor="s_4"}[3600s]`},
		{VictoriaMetrics{}, everything, `/api/v1/query_range?nocache=1&start=1700006459&end=1700009999&step=60&query=avg(avg_over_time({__name__=~"m_s_[0-9]"}[1m]))`},
		{InfluxDB{}, oneLineSeries, "/query?epoch=s&db=bench&q=SELECT mean(s_4) FROM m WHERE time >= 1700006400s AND time < 1700010000s AND device = 'd_3'"},
		{InfluxDB{}, onePutSeries, "/query?epoch=s&db=bench&q=SELECT value FROM m WHERE time >= 1700006400s AND time < 1700010000s AND device = 'd_3' AND sensor = 's_4'"},
		{InfluxDB{}, everything, "/query?epoch=s&db=bench&q=SELECT mean(/^s_/) FROM m WHERE time >= 1700006400s AND time < 1700010000s GROUP BY time(1m)"},
	} {
		path := test.target.QueryPath(test.query)
		decoded, err := url.QueryUnescape(path)
		if err != nil || decoded != test.path || strings.ContainsAny(path, " {}\"") {
			t.Errorf("%s: %v\n got %s\nwant %s", test.target.Name(), err, decoded, test.path)
		}
	}
}

// Answers as the servers really give them.
func TestParse(t *testing.T) {
	for _, test := range []struct {
		target Target
		kind   Kind
		body   string
		want   Answer
	}{
		{TickMesh{}, Minutes, `[{"metric":"m","tags":{},"aggregateTags":["device"],"dps":[[60,1],[120,2.5]]}]`, Answer{2, 1.75}},
		{TickMesh{}, Count, `[{"metric":"m","tags":{},"aggregateTags":[],"dps":[[60,40000000]]}]`, Answer{1, 4e7}},
		{TickMesh{}, Mean, `[]`, Answer{}},
		{TickTock{}, Mean, `[{"metric":"m","tags":{"_field":"s_0","device":"d_1"},"aggregateTags":[],"dps":{"1700006400":0.0,"1700006401":3.0}}]`, Answer{1, 1.5}},
		{TickTock{}, Count, `[{"metric":"m","tags":{"device":"d_1"},"aggregateTags":["_field"],"dps":{"1700006400":8.0,"1700010000":2.0}}]`, Answer{1, 10}},
		{TickTock{}, Raw, `[]`, Answer{}},
		{VictoriaMetrics{}, Mean, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700003500,"4.5"]}]}}`, Answer{1, 4.5}},
		{VictoriaMetrics{}, Raw, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"device":"d_1"},"values":[[1,"1"],[2,"3"]]}]}}`, Answer{2, 2}},
		{VictoriaMetrics{}, Count, `{"status":"success","data":{"resultType":"vector","result":[]}}`, Answer{}},
		{InfluxDB{}, Mean, `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","mean_s_0","mean_s_1"],"values":[[0,2,4]]}]}]}`, Answer{1, 3}},
		{InfluxDB{}, Count, `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","count_s_0","count_s_1"],"values":[[0,2,4]]}]}]}`, Answer{1, 6}},
		{InfluxDB{}, Minutes, `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","mean_s_0"],"values":[[0,2],[60,null],[120,4]]}]}]}`, Answer{2, 3}},
		{InfluxDB{}, EachMinutes, `{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"device":"d_1"},"columns":["time","mean_s_0","mean_s_1"],"values":[[0,2,4],[60,null,6]]},{"name":"m","tags":{"device":"d_2"},"columns":["time","mean_s_0"],"values":[[0,8]]}]}]}`, Answer{4, 5}},
		{TickMesh{}, EachMinutes, `[{"metric":"m","tags":{"device":"d_1"},"aggregateTags":[],"dps":[[60,1],[120,2]]},{"metric":"m","tags":{"device":"d_2"},"aggregateTags":[],"dps":[[60,6]]}]`, Answer{3, 3}},
	} {
		got, err := test.target.Parse(Query{Kind: test.kind}, []byte(test.body))
		if err != nil || got != test.want {
			t.Errorf("%s: %s gives %+v, %v; want %+v", test.target.Name(), test.body, got, err, test.want)
		}
	}
}

// TestCountAPI: counting bytes finds as many as parsing.
func TestCountAPI(t *testing.T) {
	for _, body := range []string{
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"m","host":"h_1"},"values":[[1700000000,"1"],[1700000010.5,"-2.5e3"]]},{"metric":{},"values":[[1700000000,"NaN"]]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"host":"h_1","sensor":"s_2"},"value":[1700000000,"3"]}]}}`,
		`{"status":"success","isPartial":false,"data":{"resultType":"vector","result":[]},"stats":{"seriesFetched":"0"}}`,
		`{"status":"success","data":["h_1","h_2"],"warnings":["one"]}`,
		`{"status":"success","data":[]}`,
	} {
		want, err := ParseAPI([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := CountAPI([]byte(body)); err != nil || got != want.Points {
			t.Errorf("%s: %d, %v, want %d", body, got, err, want.Points)
		}
	}
	if _, err := CountAPI([]byte(`{"status":"error"}`)); err == nil {
		t.Error("an error is taken as an answer")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, target := range targets {
		for _, body := range []string{"", "{", "no such thing"} {
			if answer, err := target.Parse(Query{}, []byte(body)); err == nil {
				t.Errorf("%s takes %q as %+v", target.Name(), body, answer)
			}
		}
	}
	if _, err := (InfluxDB{}).Parse(Query{}, []byte(`{"results":[{"statement_id":0,"error":"no"}]}`)); err == nil {
		t.Error("an error of InfluxDB is taken as an answer")
	}
	if _, err := (TickMesh{}).Parse(Query{}, []byte(`{"error":{"code":400}}`)); err == nil {
		t.Error("an error of OpenTSDB's shape is taken as an answer")
	}
}

// No answer makes a parser panic, and nothing finite comes from no values.
func FuzzParse(f *testing.F) {
	f.Add(uint8(0), []byte(`[{"dps":[[60,1]]}]`))
	f.Add(uint8(1), []byte(`{"data":{"result":[{"value":[1,"4"]},{"values":[[1,"1"]]}]}}`))
	f.Add(uint8(2), []byte(`{"results":[{"series":[{"values":[[0,2,null],[]]}]}]}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		target := targets[int(which)%len(targets)]
		for kind := Point; kind <= Count; kind++ {
			answer, err := target.Parse(Query{Kind: kind}, body)
			if err == nil && answer.Points == 0 && answer.Value != 0 || answer.Points < 0 {
				t.Fatalf("%s: %q gives %+v", target.Name(), body, answer)
			}
			if err != nil && !math.IsNaN(answer.Value) && answer.Points != 0 {
				t.Fatalf("%s: an error with an answer %+v", target.Name(), answer)
			}
		}
	})
}
