package process

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// sampleLine is a line of the text format of Prometheus.
var sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)`)

// labelPair is one label of such a line.
var labelPair = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)

// chartTargets is what Prometheus says of a target that the chart's monitors name.
const chartTargets = "namespace=ns,tickmesh_cluster=main"

// asLines turns what a process tells into lines of InfluxDB's protocol, as Prometheus would
// store them: every 15 seconds for five minutes, counters one more each time.
func asLines(text, pod string, now time.Time) string {
	escape := strings.NewReplacer(`\"`, `"`, ` `, `\ `, `,`, `\,`, `=`, `\=`)
	var lines strings.Builder
	for line := range strings.Lines(text) {
		match := sampleLine.FindStringSubmatch(line)
		var value float64
		if match == nil {
			continue
		}
		if _, err := fmt.Sscan(match[3], &value); err != nil || value != value {
			continue // NaN: a summary of nothing
		}
		key := match[1]
		if !strings.Contains(match[2], "namespace=") {
			key += "," + chartTargets
		}
		for _, label := range labelPair.FindAllStringSubmatch(match[2], -1) {
			if label[2] != "" {
				key += "," + label[1] + "=" + escape.Replace(label[2])
			}
		}
		grows := regexp.MustCompile(`_(total|bucket|count|sum)$`).MatchString(match[1])
		for i := range 20 {
			if grows {
				value++
			}
			fmt.Fprintf(&lines, "%s,pod=%s value=%g %d\n", key, pod, value, now.Add(time.Duration(i-19)*15*time.Second).UnixNano())
		}
	}
	return lines.String()
}

// panelQuery is one query of a dashboard.
type panelQuery struct {
	where, expression string
	legend            string // may name labels: {{pod}}
}

// dashboards returns the queries of the chart's dashboards, and those that fill their choices:
// label_values(metric, label).
func dashboards(t *testing.T) (queries, choices []panelQuery) {
	t.Helper()
	files, err := filepath.Glob("charts/tickmesh/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no dashboards", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
			Templating struct {
				List []struct {
					Name, Type string
					Query      json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, panelQuery{filepath.Base(name) + ", " + panel.Title, target.Expr, target.LegendFormat})
			}
		}
		for _, variable := range board.Templating.List {
			if found := regexp.MustCompile(`label_values\((?:[^()"\\]|\\.)*\)`).FindString(string(variable.Query)); variable.Type == "query" {
				choices = append(choices, panelQuery{filepath.Base(name) + ", $" + variable.Name, strings.ReplaceAll(found, `\"`, `"`), ""})
			}
		}
	}
	return queries, choices
}

// grafana puts in what Grafana would.
var grafana = strings.NewReplacer("$namespace", ".*", "$cluster", ".*", "$__rate_interval", "1m", "$__range", "5m", "$__interval", "15s")

// askPrometheusAPI returns the data of an answer of the Prometheus API.
func askPrometheusAPI(t *testing.T, url string, data any) {
	t.Helper()
	status, body := get(t, url)
	answer := struct {
		Status string
		Data   any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.Status != "success" {
		t.Fatalf("%s: %d %v: %s", url, status, err, body)
	}
}

// startMember starts a further etcd as a process of its own, for its metrics.
func (c *testCluster) startMember(folder string) *testServer {
	c.t.Helper()
	free, err := harness.FreeAddresses(1)
	if err != nil {
		c.t.Fatal(err)
	}
	return startProcess(c.t, 1, "etcd", "--data-dir", filepath.Join(c.dir, folder), "--client-addr", "127.0.0.1:0", "--peer-addr", free[0])
}

// Every panel of the chart's dashboards shows something, asked of TickMesh itself, which has
// what its own processes tell; and the labels that legends name are there.
func TestDashboardsShowOurMetrics(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, id := range []string{"n1", "n2", "n3", "n4"} {
		c.startNode(id)
	}
	r := c.startRouter()
	c.awaitCopies(r)
	if status, body := post(t, r.url("/write"), "cpu,host=a value=1"); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	if status, body := get(t, r.url("/api/query?start=1h-ago&m=sum:cpu")); status != http.StatusOK {
		t.Fatal(status, body)
	}
	etcd := c.startMember("other")
	told := map[string]string{"etcd-0": "http://" + etcd.addr["client"] + "/metrics", "router-0": r.url("/metrics")}
	for id, n := range c.nodes {
		told[fmt.Sprint("node-", id)] = n.url("/metrics")
	}
	now := time.Now()
	for pod, url := range told {
		_, text := get(t, url)
		if status, body := post(t, r.url("/write"), asLines(text, pod, now)); status != http.StatusNoContent {
			t.Fatal(pod, status, body)
		}
	}
	if status, body := post(t, r.url("/write"), asLines(operatorMetrics(t), "operator-0", now)); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	queries, choices := dashboards(t)
	if len(queries) < 60 || len(choices) < 4 {
		t.Fatalf("only %d queries and %d choices were found", len(queries), len(choices))
	}
	for _, q := range queries {
		var data struct {
			Result []struct{ Metric map[string]string }
		}
		askPrometheusAPI(t, r.url("/api/v1/query?"+url.Values{"query": {grafana.Replace(q.expression)}, "time": {fmt.Sprint(now.Unix())}}.Encode()), &data)
		if strings.Contains(q.expression, "envoy_") {
			continue // Envoy does not run here: that the query is understood has to do
		}
		if len(data.Result) == 0 {
			t.Errorf("%s shows nothing: %s", q.where, q.expression)
			continue
		}
		for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.legend, -1) {
			if data.Result[0].Metric[label[1]] == "" {
				t.Errorf("%s: the legend %q names a label that is not there: %v", q.where, q.legend, data.Result[0].Metric)
			}
		}
	}
	for _, q := range choices {
		match := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(q.expression)
		if match == nil {
			t.Fatalf("%s: %q", q.where, q.expression)
		}
		var values []string
		askPrometheusAPI(t, r.url("/api/v1/label/"+match[2]+"/values?"+url.Values{"match[]": {grafana.Replace(match[1])}}.Encode()), &values)
		if len(values) == 0 || slices.Contains(values, "") {
			t.Errorf("%s has no choice: %q", q.where, values)
		}
	}
}

// operatorMetrics returns one series of each metric of the operator, in the text format.
func operatorMetrics(t *testing.T) string {
	t.Helper()
	all := scraped{}
	all.describeOperator(t)
	var text strings.Builder
	for name, labels := range all {
		var pairs []string
		for _, label := range labels {
			if label != "" {
				pairs = append(pairs, label+`="x"`)
			}
		}
		fmt.Fprintf(&text, "%s{%s} 1\n", name, strings.Join(pairs, ","))
	}
	return text.String()
}
