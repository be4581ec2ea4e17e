package metricsql

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/router/query/promql"
)

var rewrite = flag.Bool("rewrite", false, "write what VictoriaMetrics answers into testdata")

const metricsQLGolden = "testdata/answers.json"

// golden is what VictoriaMetrics answered to queries over some series.
type golden struct {
	Version string
	Command string
	Series  []goldenSeries
	Answers []goldenAnswer
}

// goldenSeries is a line of VictoriaMetrics' format of imports.
type goldenSeries struct {
	Metric     map[string]string `json:"metric"`
	Values     []float64         `json:"values"`
	Timestamps []int64           `json:"timestamps"`
}

type goldenAnswer struct {
	Query string
	Step  string // of a range query; empty: at one time
	Data  []goldenRow
}

// goldenRow is a series of an answer, without what is not needed: times in seconds.
type goldenRow struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value,omitzero"`
	Values [][2]any          `json:"values,omitempty"`
}

const (
	goldenStart = 1749999960
	goldenEnd   = goldenStart + 3600
	goldenAt    = goldenStart + 1830
)

// metricsQLSeries has counters, one of them reset, and gauges with a gap, a late begin and an odd interval.
func metricsQLSeries() []goldenSeries {
	var all []goldenSeries
	add := func(everyMs int64, metric map[string]string, value func(i int) (float64, bool)) {
		s := goldenSeries{Metric: metric}
		for i := range int(4500_000 / everyMs) {
			if v, ok := value(i); ok {
				s.Values, s.Timestamps = append(s.Values, v), append(s.Timestamps, (goldenStart-900)*1000+int64(i)*everyMs)
			}
		}
		all = append(all, s)
	}
	total := 0.0
	add(15_000, map[string]string{"__name__": "requests_total", "job": "api", "code": "200"}, func(i int) (float64, bool) {
		if total += float64(i * i % 11); i == 130 {
			total = 3
		}
		return total, true
	})
	add(15_000, map[string]string{"__name__": "requests_total", "job": "api", "code": "500"}, func(i int) (float64, bool) { return float64(100 + 2*i), true })
	add(15_000, map[string]string{"__name__": "temperature", "room": "a"}, func(i int) (float64, bool) { return 20 + float64(i*7%13)/4, i < 120 || i >= 200 })
	add(15_000, map[string]string{"__name__": "temperature", "room": "b"}, func(i int) (float64, bool) { return 15 - float64(i*5%17)/8, i >= 150 })
	add(37_000, map[string]string{"__name__": "odd", "room": "c"}, func(i int) (float64, bool) { return float64(i*i%7) - 3, i%5 != 3 })
	return all
}

var metricsQLQueries = []string{
	// windows that are left out
	"rate(requests_total)", "increase(requests_total)", "irate(requests_total)", "delta(temperature)", "idelta(temperature)", "deriv(temperature)",
	"avg_over_time(temperature)", "min_over_time(temperature)", "max_over_time(odd)", "sum_over_time(temperature)", "count_over_time(odd)", "last_over_time(temperature)",
	"stddev_over_time(temperature)", "stdvar_over_time(odd)", "present_over_time(odd)", "rate(requests_total offset 5m)", "sum(rate(requests_total)) by (job)", "rate(odd)", "rate(requests_total[$__interval])",
	// functions of windows
	"rollup(temperature)", "rollup(temperature[5m])", `rollup(temperature[5m], "max")`, "rollup_rate(requests_total[5m])", "rollup_rate(requests_total)", `rollup_rate(requests_total[3m], "avg")`,
	"rollup_increase(requests_total[2m])", "rollup_delta(temperature[2m])", "rollup_deriv(temperature[2m])", "rollup_candlestick(temperature)", "rollup_candlestick(temperature[5m])",
	`rollup_candlestick(odd[10m], "open")`, "rollup_scrape_interval(odd[5m])", "rollup_scrape_interval(odd)", "max(rollup(temperature[5m])) by (rollup)",
	"median_over_time(temperature[5m])", "range_over_time(temperature[5m])", "sum2_over_time(odd[5m])", "distinct_over_time(odd[10m])", "tfirst_over_time(odd[5m])",
	"tlast_over_time(odd[5m])", "tmin_over_time(temperature[5m])", "tmax_over_time(temperature[5m])", "ascent_over_time(temperature[5m])", "descent_over_time(temperature[5m])",
	"increases_over_time(temperature[5m])", "decreases_over_time(temperature[5m])", "deriv_fast(temperature[5m])", "ideriv(temperature[5m])", "increase_pure(requests_total[5m])",
	"lag(odd[5m])", "lifetime(odd[5m])", "scrape_interval(odd[5m])", "default_rollup(temperature[5m])", "first_over_time(temperature)", "rate(requests_total) keep_metric_names",
	// gaps
	"keep_last_value(temperature)", "keep_next_value(temperature)", "interpolate(temperature)", "temperature default 7", "temperature default -temperature",
	"nosuch default 0", "nosuch default temperature", "temperature if temperature > 21", "temperature ifnot temperature > 21", `requests_total default on (job) requests_total{code="500"}`,
	"sum(temperature > 22) default 0", "keep_last_value(rate(requests_total))", "1 + (temperature default 1) * 2", "temperature if 1", "(temperature default 3) default 4",
	// the whole range
	"range_avg(requests_total)", "range_min(temperature)", "range_max(temperature)", "range_sum(odd)", "range_first(temperature)", "range_last(temperature)", "range_median(temperature)",
	"range_quantile(0.9, temperature)", "range_stddev(temperature)", "range_stdvar(temperature)", "range_mad(temperature)", "range_normalize(temperature)", "range_zscore(temperature)",
	"range_linear_regression(temperature)", "range_trim_spikes(0.1, temperature)", "range_trim_outliers(1, temperature)", "range_trim_zscore(1, temperature)",
	"running_sum(odd)", "running_min(temperature)", "running_max(temperature)", "running_avg(requests_total)", "temperature / range_max(temperature)",
	// series and labels
	"union(temperature, odd)", "(temperature, odd, temperature)", `label_set(odd, "floor", "1", "room", "")`, `label_del(requests_total{code="200"}, "code", "nosuch")`,
	`label_keep(requests_total, "code")`, `label_copy(temperature, "room", "place")`, `label_move(temperature, "room", "place")`, `alias(temperature, "warmth")`,
	"topk_max(1, temperature)", "topk_avg(1, requests_total) by (job)", "bottomk_min(1, temperature)", "bottomk_last(2, requests_total)", "topk_median(1, requests_total) without (code)",
	"median(temperature)", "median(temperature) by (room)", "increase_prometheus(requests_total{code='500'}[5m]) > 0 default 1",
	// words
	"temperature[5i] default 0", "sum_over_time(temperature[5i]) default 0", "temperature[5i] + 1 default 0", "rate_prometheus(requests_total[5m])", "delta_prometheus(temperature[5m])", "step() + 0 * (temperature default 0)", "(end() - start()) default 0", "10Ki + (odd default 0)", "sum(temperature,) default 1",
	"(-odd default 2) ^ 2", "2 ^ (odd default 2) ^ 2", "(odd default 1) - 1 - 1 - (2 - 3)", "odd default 1 > bool 0", `{__name__="odd",room!~"x|y"} default 0`,
}

// TestMetricsQL compares with what VictoriaMetrics answered, which testdata has.
func TestMetricsQL(t *testing.T) {
	text, err := os.ReadFile(metricsQLGolden)
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Answers) != 3*len(metricsQLQueries) {
		t.Fatalf("%s has %d answers: write it anew", metricsQLGolden, len(g.Answers))
	}
	compareMetricsQL(t, &g)
}

// TestVictoriaMetrics asks a VictoriaMetrics that is built from its sources, and with -rewrite writes what it answers into testdata.
func TestVictoriaMetrics(t *testing.T) {
	program, version := victoriaMetrics(t)
	g := golden{Version: version, Command: "go test ./e2e/metricsql -run TestVictoriaMetrics -rewrite", Series: metricsQLSeries()}
	base := startVictoriaMetrics(t, program)
	var lines bytes.Buffer
	for _, s := range g.Series {
		if err := json.NewEncoder(&lines).Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := ask(t, http.MethodPost, base+"/api/v1/import", &lines); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	ask(t, http.MethodGet, base+"/internal/force_flush", nil)
	for _, query := range metricsQLQueries {
		for _, step := range []string{"", "60", "300"} {
			target := base + "/api/v1/" + pathOf(query, step) + "&nocache=1"
			status, body := ask(t, http.MethodGet, target, nil)
			if status != http.StatusOK {
				t.Fatal(query, step, status, body)
			}
			g.Answers = append(g.Answers, goldenAnswer{query, step, rowsOf(t, body)})
		}
	}
	if *rewrite {
		writeGolden(t, &g)
	}
	compareMetricsQL(t, &g)
}

// victoriaMetrics returns a program and its version: that of VICTORIA_METRICS_PROGRAM, or one that is built of VICTORIA_METRICS_SOURCE.
func victoriaMetrics(t *testing.T) (program, version string) {
	if program = os.Getenv("VICTORIA_METRICS_PROGRAM"); program != "" {
		text, err := exec.CommandContext(t.Context(), program, "-version").Output()
		if err != nil {
			t.Fatal(err)
		}
		return program, strings.TrimSpace(string(text))
	}
	source := os.Getenv("VICTORIA_METRICS_SOURCE")
	if source == "" {
		t.Skip("neither VICTORIA_METRICS_SOURCE nor VICTORIA_METRICS_PROGRAM is set")
	}
	built, err := target.BuildVictoriaMetrics(t.Context(), source, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return built.Program, built.Version
}

// writeGolden writes answers a line each.
func writeGolden(t *testing.T, g *golden) {
	var text bytes.Buffer
	line := func(v any, end string) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
		text.WriteString(end)
	}
	text.WriteString("{\"Version\":")
	line(g.Version, ",\n\"Command\":")
	line(g.Command, ",\n\"Series\":[\n")
	for i, s := range g.Series {
		line(s, []string{",\n", "\n],\n\"Answers\":[\n"}[one(i == len(g.Series)-1)])
	}
	for i, a := range g.Answers {
		line(a, []string{",\n", "\n]}\n"}[one(i == len(g.Answers)-1)])
	}
	if err := os.WriteFile(metricsQLGolden, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// startVictoriaMetrics starts a server on a free port of this machine, and waits until it answers.
func startVictoriaMetrics(t *testing.T, program string) (base string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	ctx, stop := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, program, "-storageDataPath="+filepath.Join(t.TempDir(), "data"), "-httpListenAddr="+address, "-retentionPeriod=100y", "-loggerLevel=ERROR")
	if err := server.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = server.Wait()
	})
	base = "http://" + address
	for ends := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get(base + "/health") //nolint:noctx // of this machine
		if err == nil {
			_ = response.Body.Close()
			return base
		}
		if time.Now().After(ends) {
			t.Fatal(err)
		}
	}
}

func ask(t *testing.T, method, target string, body io.Reader) (int, string) {
	request, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func pathOf(query, step string) string {
	form := url.Values{"query": {query}}
	if step == "" {
		form.Set("time", strconv.Itoa(goldenAt))
		return "query?" + form.Encode()
	}
	form.Set("start", strconv.Itoa(goldenStart))
	form.Set("end", strconv.Itoa(goldenEnd))
	form.Set("step", step)
	return "query_range?" + form.Encode()
}

func rowsOf(t *testing.T, body string) []goldenRow {
	var answer struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err, body)
	}
	var rows []goldenRow
	if answer.Data.ResultType == "scalar" {
		rows = []goldenRow{{Metric: map[string]string{}}}
		if err := json.Unmarshal(answer.Data.Result, &rows[0].Value); err != nil {
			t.Fatal(err, body)
		}
		return rows
	}
	if err := json.Unmarshal(answer.Data.Result, &rows); err != nil {
		t.Fatal(err, body)
	}
	return rows
}

// compareMetricsQL asks TickMesh what VictoriaMetrics was asked. A selector sees samples as far back as VictoriaMetrics' does: a step.
func compareMetricsQL(t *testing.T, g *golden) {
	memory := scantest.NewMemory()
	for _, s := range g.Series {
		var tags []series.Tag
		for name, value := range s.Metric {
			if name != "__name__" {
				tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(value)})
			}
		}
		key := series.AppendKey(nil, nil, []byte(s.Metric["__name__"]), tags)
		for i, ms := range s.Timestamps {
			if err := memory.Put(key, series.Sample{TimeMs: ms, Value: s.Values[i]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	handler := access.Open(promql.New(promql.Options{Source: memory, MetricsQL: true}))
	failed := 0
	for _, a := range g.Answers {
		lookback := a.Step
		if lookback == "" {
			lookback = "300"
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+pathOf(a.Query, a.Step)+"&lookback_delta="+lookback, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s, step %q: %d %s", a.Query, a.Step, w.Code, w.Body)
			continue
		}
		got, want := numbersOf(t, rowsOf(t, w.Body.String())), numbersOf(t, a.Data)
		if differs := difference(got, want); differs != "" {
			if failed++; failed < 60 {
				t.Errorf("%s, step %q: %s", a.Query, a.Step, differs)
			}
		}
	}
}

// numbersOf returns the values of an answer by labels and time.
func numbersOf(t *testing.T, rows []goldenRow) map[string]map[float64]float64 {
	all := map[string]map[float64]float64{}
	for _, row := range rows {
		var names []string
		for name, value := range row.Metric {
			names = append(names, fmt.Sprintf("%s=%q", name, value))
		}
		slices.Sort(names)
		points := row.Values
		if len(points) == 0 {
			points = [][2]any{row.Value}
		}
		values := map[float64]float64{}
		for _, p := range points {
			at, ok := p[0].(float64)
			text, isText := p[1].(string)
			v, err := strconv.ParseFloat(text, 64)
			if !ok || !isText || err != nil {
				t.Fatal(p, err)
			}
			values[at] = v
		}
		all[strings.Join(names, ",")] = values
	}
	return all
}

// difference tells the first difference; empty: there is none but of rounding.
func difference(got, want map[string]map[float64]float64) string {
	for labels, values := range want {
		mine, ok := got[labels]
		if !ok {
			return fmt.Sprintf("no {%s}: there are %v", labels, keys(got))
		}
		for at, v := range values {
			w, ok := mine[at]
			if !ok || math.Abs(v-w) > 1e-9*max(1, math.Abs(v)) {
				return fmt.Sprintf("{%s} at %.0f: %v (%v), want %v", labels, at-goldenStart, w, ok, v)
			}
		}
		for at, v := range mine {
			if _, ok := values[at]; !ok {
				return fmt.Sprintf("{%s} at %.0f: %v, want none", labels, at-goldenStart, v)
			}
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("there are %v, want %v", keys(got), keys(want))
	}
	return ""
}

func keys(m map[string]map[float64]float64) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
