package charts_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// promtool returns Debian's promtool, which knows what Prometheus does with rules.
func promtool(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test installs Prometheus")
	}
	path, err := harness.Install(t.Context(), "promtool", "prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

type ruleGroup struct {
	Name  string
	Rules []alert
}

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	content, err := os.ReadFile("tickmesh/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []ruleGroup }
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		list = append(list, group.Rules...)
	}
	return list
}

// Each alert says how bad it is and what it is about, and has a section of its own in the
// runbooks, which have no others; the rendered rules lead there.
func TestAlertsHaveRunbooks(t *testing.T) {
	page, err := os.ReadFile("tickmesh/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections, names []string
	for _, match := range regexp.MustCompile(`(?m)^### (TickMesh\w+)$`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, match[1])
	}
	rendered := render(t, "default", "--set", "monitoring.rules=true")
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s has severity %q and summary %q", a.Alert, a.Labels["severity"], a.Annotations["summary"])
		}
		if link := "runbooks.md#" + strings.ToLower(a.Alert) + "\n"; !strings.Contains(rendered, link) {
			t.Errorf("no link to %s", link)
		}
	}
	slices.Sort(sections)
	slices.Sort(names)
	if !slices.Equal(sections, names) || len(slices.Compact(names)) != len(sections) {
		t.Errorf("the runbooks have %v\nthe alerts are %v", sections, names)
	}
}

// look is what series are to make of alerts, in the words of promtool.
type look struct{ series, checks []any }

func (l *look) add(alert string, series []string, samples []any) {
	space := `namespace="` + alert + `"`
	labels := strings.NewReplacer(
		"$r", space+`,tickmesh_cluster="demo",pod="demo-router-x"`, "$n", space+`,tickmesh_cluster="demo",pod="demo-node-0"`, "$o", space+`,cluster="demo"`,
	)
	for _, line := range series {
		at := strings.LastIndexByte(line, '}') + 1
		l.series = append(l.series, map[string]any{"series": labels.Replace(line[:at]), "values": strings.TrimSpace(line[at:])})
	}
	l.checks = append(l.checks, map[string]any{
		"expr": `count(ALERTS{alertname="` + alert + `",alertstate="firing",` + space + `})`, "eval_time": "8h", "exp_samples": samples,
	})
}

// Prometheus takes the alerts, and they fire when they should and else do not: for each
// there are series of both kinds.
func TestAlertsFire(t *testing.T) {
	tool := promtool(t)
	content, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ Fires, Quiet []string }{}
	if err := yaml.UnmarshalStrict(content, &cases); err != nil {
		t.Fatal(err)
	}
	// Each alert has a namespace of its own, so that all can be looked at together.
	looks := map[bool]*look{true: {}, false: {}}
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		looks[true].add(a.Alert, cases[a.Alert].Fires, []any{map[string]any{"labels": "{}", "value": 1}})
		looks[false].add(a.Alert, cases[a.Alert].Quiet, nil)
	}
	var tests []any
	for _, l := range looks {
		tests = append(tests, map[string]any{"interval": "1m", "input_series": l.series, "promql_expr_test": l.checks})
	}
	slices.Sort(names)
	if known := slices.Sorted(maps.Keys(cases)); !slices.Equal(names, known) {
		t.Errorf("there are alerts %v, and cases of %v", names, known)
	}
	dir := t.TempDir()
	file, err := yaml.Marshal(map[string]any{"rule_files": []any{filepath.Join(dir, "alerts.yaml")}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("tickmesh/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"alerts.yaml": rules, "tests.yaml": file} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", filepath.Join(dir, "alerts.yaml")}, {"test", "rules", filepath.Join(dir, "tests.yaml")}} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
		}
	}
}

// Prometheus understands every expression of the dashboards, and panels do not overlap.
func TestDashboards(t *testing.T) {
	tool := promtool(t)
	files, err := filepath.Glob("tickmesh/dashboards/*.json")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	type place struct{ X, Y, W, H int }
	var rules []any
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID    string
			Panels []struct {
				ID          int
				Title       string
				Type        string
				Description string
				GridPos     place
				Targets     []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(content, &board); err != nil {
			t.Fatal(err)
		}
		taken := map[[2]int]string{}
		for _, p := range board.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, is := taken[[2]int{x, y}]; is || x >= 24 {
						t.Errorf("%s: %s lies over %s", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
				t.Errorf("%s: %s has no expression, or does not say what it shows", name, p.Title)
			}
			for _, target := range p.Targets {
				rules = append(rules, map[string]any{"record": "a:b", "expr": strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), "labels": map[string]any{"n": p.Title + board.UID + target.Expr}})
			}
		}
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}
