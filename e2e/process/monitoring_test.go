package process

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/operator/reconcile"
	"github.com/tickmesh/tickmesh/operator/silence"
)

// scraped are the metrics that are there, each with the names of its labels.
type scraped map[string][]string

// scrape adds what a process tells.
func (s scraped) scrape(t *testing.T, url string) {
	t.Helper()
	status, text := get(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s: %d", url, status)
	}
	label := regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name := line[:strings.IndexAny(line, "{ ")]
		if _, known := s[name]; !known {
			s[name] = []string{}
		}
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			for _, match := range label.FindAllStringSubmatch(rest, -1) {
				s[name] = append(s[name], match[1])
			}
		}
	}
}

// describeOperator notes the metrics of the operator.
func (s scraped) describeOperator(t *testing.T) {
	t.Helper()
	_, err := reconcile.NewMetrics(describer{s})
	_, other := silence.NewTakenOut(describer{s})
	if err := errors.Join(err, other); err != nil {
		t.Fatal(err)
	}
}

// describer is a registry that only listens.
type describer struct{ scraped }

var _ prometheus.Registerer = describer{}

func (d describer) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc, 16)
	go func() { c.Describe(all); close(all) }()
	text := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)
	for desc := range all {
		if match := text.FindStringSubmatch(desc.String()); match != nil {
			d.scraped[match[1]] = strings.Split(match[2], ",")
		}
	}
	return nil
}

func (d describer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = d.Register(c)
	}
}

func (d describer) Unregister(prometheus.Collector) bool { return false }

// expressions returns those of the chart's alerts and dashboards.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("charts/tickmesh/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var alerts struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(text, &alerts); err != nil {
		t.Fatal(err)
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			list = append(list, rule.Expr)
		}
	}
	files, err := filepath.Glob("charts/tickmesh/dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if text, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				list = append(list, target.Expr)
			}
		}
	}
	return list
}

// What the chart's alerts and dashboards ask for is there: the metrics of a node, a router
// and a member of etcd that run, and of the operator, and their labels.
func TestChartKnowsMetrics(t *testing.T) {
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
	there := scraped{}
	there.scrape(t, "http://"+etcd.addr["client"]+"/metrics")
	there.scrape(t, r.url("/metrics"))
	for _, n := range c.nodes {
		there.scrape(t, n.url("/metrics"))
	}
	there.describeOperator(t)
	envoy, err := os.ReadFile("operator/envoy/testdata/metrics.txt") // a test of that package asks a real one
	if err != nil {
		t.Fatal(err)
	}
	labelNames := []string{"tickmesh_cluster"} // names that are none of metrics
	for line := range strings.Lines(string(envoy)) {
		words := strings.Fields(line)
		there[words[0]] = words[1:]
		labelNames = append(labelNames, words[1:]...)
	}
	targets := []string{"namespace", "pod", "tickmesh_cluster", "le"} // that Prometheus gives them
	name := regexp.MustCompile(`\b(?:tickmesh|etcd|process|go|envoy)_\w+`)
	matcher := regexp.MustCompile(`([a-z]\w*)\{([^}]*)\}`)
	key := regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	grouping := regexp.MustCompile(`(?:by|on) \(([^)]*)\)`)
	list := expressions(t)
	if len(list) < 80 {
		t.Fatalf("only %d expressions were found", len(list))
	}
	for _, expression := range list {
		labels := slices.Clone(targets)
		for _, metric := range name.FindAllString(expression, -1) {
			known, ok := there[metric]
			if !ok && !slices.Contains(labelNames, metric) {
				t.Errorf("there is no metric %s: %s", metric, expression)
			}
			labels = append(labels, known...)
		}
		for _, match := range matcher.FindAllStringSubmatch(expression, -1) {
			for _, k := range key.FindAllStringSubmatch(match[2], -1) {
				if !slices.Contains(targets, k[1]) && !slices.Contains(there[match[1]], k[1]) {
					t.Errorf("%s has no label %s: %s", match[1], k[1], expression)
				}
			}
		}
		for _, match := range grouping.FindAllStringSubmatch(expression, -1) {
			for _, label := range strings.Split(match[1], ", ") {
				if !slices.Contains(labels, label) {
					t.Errorf("nothing has a label %s: %s", label, expression)
				}
			}
		}
	}
}
