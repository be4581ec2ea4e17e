package promql

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// TestMetricsQLFlag: without the option Prometheus' errors stay, and with it its answers do.
func TestMetricsQLFlag(t *testing.T) {
	o := labOptions(t)
	plain := New(o)
	o.MetricsQL = true
	taking := New(o)
	span := "&start=1749999700&end=1750000000&step=60"
	for _, text := range []string{"up", "rate(requests_total[5m])", "sum by (code) (requests_total)", "up > 0 or vector(1)", "max_over_time(up[5m:1m])", "sum(", "label_set(up, 'a')", "nosuch(up)", "{}", ""} {
		target := "query_range?query=" + url.QueryEscape(text) + span
		want, got := get(plain, target), get(taking, target)
		if got.status != want.status || want.status == http.StatusOK && got.body != want.body || want.status != http.StatusOK && !strings.Contains(got.body, `"errorType":"bad_data"`) {
			t.Errorf("%s:\n got %d %s\nwant %d %s", text, got.status, got.body, want.status, want.body)
		}
	}
	for _, text := range []string{"up default 0", "rate(requests_total)", "keep_last_value(up)", "rollup(up[5m])", "range_max(up)"} {
		target := "query_range?query=" + url.QueryEscape(text) + span
		if got := get(plain, target); got.status != http.StatusBadRequest {
			t.Error(text, got)
		}
		if got := get(taking, target); got.status != http.StatusOK || !strings.Contains(got.body, `"values":[[`) {
			t.Error(text, got)
		}
	}
}

// TestMetricsQLAnswers were worked out by hand.
func TestMetricsQLAnswers(t *testing.T) {
	o := labOptions(t)
	o.MetricsQL = true
	h := New(o)
	vector := func(metric, v string) string {
		return success(`{"resultType":"vector","result":[{"metric":{` + metric + `},"value":[1750000000,"` + v + `"]}]}`)
	}
	for text, want := range map[string]string{
		`increase(requests_total{code="500"})`:                          vector(`"code":"500","job":"api"`, "24"), // of the five minutes before, from 0 on
		`max(rollup(requests_total{code="200"}[3m])) by (rollup) > 100`: vector(`"rollup":"max"`, "120"),
		`sum(nosuch) default 5`:                                         vector("", "5"),
		`up{instance="b:9100"} default 3`:                               success(`{"resultType":"scalar","result":[1750000000,"3"]}`), // it is stale
		`count(union(up, lonely))`:                                      vector("", "2"),
		`label_set(lonely, "a", "b") + 0`:                               vector(`"a":"b"`, "7"),
	} {
		got := get(h, "query?query="+url.QueryEscape(text))
		if text == `up{instance="b:9100"} default 3` { // a vector without labels
			want = vector("", "3")
		}
		if got.status != http.StatusOK || got.body != want {
			t.Errorf("%s:\n got %d %s\nwant %s", text, got.status, got.body, want)
		}
	}
	if got := get(h, "query?step=60s&query="+url.QueryEscape(`increase(requests_total{code="500"})`)); got.body != vector(`"code":"500","job":"api"`, "6") {
		t.Error(got)
	}
	if got := get(h, "query?query="+url.QueryEscape(`label_set(up, "instance", "") default 1 or label_del(requests_total, "code")`)); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, "same labelset") {
		t.Error(got)
	}
}

// TestMetricsQLBounds: texts are measured, and what is computed counts for the limits of the query.
func TestMetricsQLBounds(t *testing.T) {
	o := labOptions(t)
	o.MetricsQL = true
	h := New(o)
	for _, text := range []string{strings.Repeat("(", 200) + "up default 0" + strings.Repeat(")", 200), "up" + strings.Repeat(" default 0", 1100)} {
		if got := get(h, "query?query="+url.QueryEscape(text)); got.status != http.StatusBadRequest || !strings.Contains(got.body, "too large") && !strings.Contains(got.body, "more than") {
			t.Errorf("%.50s: %v", text, got)
		}
	}
	o.Admission = admission.New(admission.Options{Limits: admission.Limits{BytesMax: 200 << 10}})
	o.Source = o.Admission.Source(newLab(t))
	h = New(o)
	long := "query_range?start=1749000000&end=1750000000&step=100&query="
	if got := get(h, long+url.QueryEscape("keep_last_value(requests_total)")); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, "bytes") {
		t.Error(got)
	}
	o.Admission = admission.New(admission.Options{Limits: admission.Limits{SamplesMax: 3}})
	o.Source = o.Admission.Source(newLab(t))
	h = New(o)
	if got := get(h, "query?query="+url.QueryEscape("rollup(requests_total[5m])")); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, "samples") {
		t.Error(got)
	}
}

// TestMetricsQLExplained: the plan has what nodes of the program read.
func TestMetricsQLExplained(t *testing.T) {
	o := labOptions(t)
	o.MetricsQL = true
	watched := scantest.Watch(o.Source)
	o.Source = watched
	h := New(o)
	got := get(h, "query?explain=true&query="+url.QueryEscape("rollup_rate(requests_total[5m]) default sum(up)"))
	if got.status != http.StatusOK || !strings.Contains(got.body, `"evaluation":"metricsql"`) || !strings.Contains(got.body, `"selector":"requests_total","from":"2025-06-15T14:56:40Z"`) || !strings.Contains(got.body, `"selector":"up"`) {
		t.Error(got)
	}
	for _, r := range watched.Take() {
		if r.Windows == nil || r.Windows.Aggregates != scan.AggregateCount || !r.Exact {
			t.Errorf("planning reads %+v", r)
		}
	}
}

// TestMetricsQLKeepsPromQL: expressions of PromQL that are compiled as MetricsQL have the answers of PromQL.
func TestMetricsQLKeepsPromQL(t *testing.T) {
	h := newHandler(labOptions(t))
	at := time.UnixMilli(labMs)
	for _, s := range []span{{start: at, end: at}, {start: at.Add(-4 * time.Minute), end: at, step: time.Minute}} {
		for _, text := range []string{
			"up", "sum by (job) (rate(requests_total[5m]))", "requests_total offset 1m", "max_over_time(sum(up)[5m:1m])", "requests_total / ignoring (code) group_left sum by (job) (requests_total)",
			"-(requests_total + 1) ^ 2", "1 + 2 * 3 - 4", "up == 1 or requests_total > bool 50 and on (job) up", "topk(1, requests_total)", `label_replace(up, "x", "$1", "job", "(.).*")`,
			"quantile_over_time(0.5, requests_total[3m])", "absent(nosuch)", "time() - timestamp(up)", "clamp_max(requests_total, 50)", "count_values('v', up)", "requests_total @ end()", "sort_desc(requests_total)",
			"vector(1) + scalar(sum(up))", `{__name__=~"up|lonely"}`, "requests_total - 1 - 1 unless up", "2 * -3", "2 ^ -1",
		} {
			plain, _ := evaluate(t, h, "", text, "", 5*time.Minute, s)
			x := &exchange{ctx: t.Context(), reader: h.shell.Reader(scan.Consistency{}), form: url.Values{}}
			compiled, err := h.newMetricsQuery(x, text, 5*time.Minute, s, nil)
			if err != nil {
				t.Error(text, err)
				continue
			}
			if got, want := compiled.Exec(t.Context()), plain; got.Err != nil || want.Err != nil || got.Value.String() != want.Value.String() {
				t.Errorf("%s (%s):\n got %v\nwant %v", text, compiled.(*metricsQuery).program.Text, got, want)
			}
		}
	}
}
