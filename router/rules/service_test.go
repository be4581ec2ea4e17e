package rules

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// run runs a service in a bubble until the function that it returns is called.
func run(t *testing.T, s *Service, l *lab, who string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, l.api, labWriter{l, who}) })
	return func() {
		cancel()
		running.Wait()
	}
}

func open(t *testing.T, o Options) *Service {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// gauges returns the values of metrics without labels, or with an outcome, by name.
func gauges(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				if label.GetName() == "outcome" || label.GetName() == "database" {
					name += " " + label.GetValue()
				}
			}
			all[name] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

const oneRule = "groups:\n- {name: g, interval: 10s, rules: [{record: out, expr: %s}]}\n"

// Files are followed: of one database alone, a bad version keeps what was, and metrics tell.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := writeRules(t, filepath.Join(dir, "a.yaml"), fmt.Sprintf(oneRule, "1"))
	synctest.Test(t, func(t *testing.T) {
		l, registry := newLab(t), prometheus.NewRegistry()
		o := l.options(Pattern{"", filepath.Join(dir, "*.yaml")}, Pattern{"home", path})
		o.Registerer = registry
		s := open(t, o)
		defer run(t, s, l, "")()
		step := func(what string, want map[string]float64, rules ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			got := gauges(t, registry)
			for name, v := range want {
				if got[name] != v {
					t.Errorf("%s: %s is %v, want %v", what, name, got[name], v)
				}
			}
			for _, database := range []string{"", "home"} {
				groups, err := s.Groups(t.Context(), database)
				if err != nil {
					t.Fatal(err)
				}
				var list []string
				for _, g := range groups {
					for _, r := range g.Rules() {
						list = append(list, r.Query().String())
					}
				}
				if !slices.Equal(list, rules) {
					t.Errorf("%s: rules of %q are %v, want %v", what, database, list, rules)
				}
			}
		}
		step("as it was", map[string]float64{"tickmesh_rule_file_good": 1, "tickmesh_rules_evaluating": 1, "tickmesh_rules_rules": 2, "tickmesh_rule_file_reloads_total accepted": 0}, "1")
		writeRules(t, path, fmt.Sprintf(oneRule, "2"))
		step("changed", map[string]float64{"tickmesh_rule_file_good": 1, "tickmesh_rule_file_reloads_total accepted": 2}, "2")
		writeRules(t, path, fmt.Sprintf(oneRule, "sum("))
		step("bad", map[string]float64{"tickmesh_rule_file_good": 0, "tickmesh_rule_file_reloads_total accepted": 2, "tickmesh_rule_file_reloads_total refused": 2}, "2")
		writeRules(t, path, fmt.Sprintf(oneRule, "2"))
		step("good again", map[string]float64{"tickmesh_rule_file_good": 1, "tickmesh_rule_file_reloads_total accepted": 2}, "2")
		writeRules(t, filepath.Join(dir, "b.yaml"), fmt.Sprintf(oneRule, "sum("))
		step("another is bad", map[string]float64{"tickmesh_rule_file_good": 0}, "2")
	})
}

// What a file says for a moment, while an editor or a copy writes it, is not taken: rules that are gone and come back
// would have lost since when their alerts are active.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf(oneRule, "1")
	path := writeRules(t, filepath.Join(dir, "a.yaml"), text)
	synctest.Test(t, func(t *testing.T) {
		l, registry := newLab(t), prometheus.NewRegistry()
		o := l.options(Pattern{"", filepath.Join(dir, "*.yaml")})
		o.Registerer = registry
		s := open(t, o)
		defer run(t, s, l, "")()
		step := func(what string, accepted, rules float64) {
			t.Helper()
			time.Sleep(rulefile.ReadInterval)
			synctest.Wait()
			is := gauges(t, registry)
			if a, r := is["tickmesh_rule_file_reloads_total accepted"], is["tickmesh_rules_rules"]; a != accepted || r != rules {
				t.Errorf("%s: %v reloads, %v rules", what, a, r)
			}
		}
		writeRules(t, path, "")
		step("cut", 0, 1)
		writeRules(t, path, text)
		step("whole", 0, 1)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		step("away", 0, 1)
		writeRules(t, path, text)
		step("back", 0, 1)
		writeRules(t, path, "")
		step("cut again", 0, 1)
		step("and left so", 1, 0)
	})
}

// A file that is wrong is parsed once, not each second.
func TestBadIsParsedOnce(t *testing.T) {
	path := rulesFile(t, fmt.Sprintf(oneRule, "1"))
	parsed := 0
	f, err := openFiles([]Pattern{{"", path}}, countingParser{parser.NewParser(parser.Options{}), &parsed}, discarded())
	if err != nil {
		t.Fatal(err)
	}
	writeRules(t, path, fmt.Sprintf(oneRule, "sum("))
	parsed = 0
	for range 10 {
		if f.check(); len(f.check()) > 0 {
			t.Fatal("it is taken")
		}
	}
	if parsed != 1 || f.good() || f.failures.Load() != 1 {
		t.Errorf("parsed %d times, good is %v, %d failures", parsed, f.good(), f.failures.Load())
	}
	writeRules(t, path, fmt.Sprintf(oneRule, "1"))
	if f.check(); !f.good() {
		t.Error("not good when it is as it was")
	}
}

// countingParser counts the expressions that it is asked for.
type countingParser struct {
	parser.Parser
	n *int
}

// ParseExpr implements parser.Parser.
func (p countingParser) ParseExpr(text string) (parser.Expr, error) {
	*p.n++
	return p.Parser.ParseExpr(text)
}

// What clients of the database home see is what its rules write, and no others.
func TestDatabases(t *testing.T) {
	a, b := rulesFile(t, fmt.Sprintf(oneRule, "in_x")), rulesFile(t, fmt.Sprintf(oneRule, "in_x * 10"))
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		x := labels.FromStrings(model.MetricNameLabel, "in_x")
		l.put(t, "", x, time.Now(), 1)
		l.put(t, "home", x, time.Now(), 2)
		stop := run(t, open(t, l.options(Pattern{"", a}, Pattern{"home", b})), l, "")
		time.Sleep(time.Minute)
		stop()
		for database, want := range map[string]string{"": " 1", "home": " 20", "other": ""} {
			got := l.samples(t, database)
			if len(got) < 5 && want != "" || len(got) > 0 && (want == "" || !strings.HasSuffix(got[0], want)) {
				t.Errorf("database %q: %v", database, got)
			}
		}
	})
}

// A write that fails is made again, unless that is in vain; then the rule says why.
func TestWriteAgain(t *testing.T) {
	path := rulesFile(t, fmt.Sprintf(oneRule, "1"))
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		s := open(t, l.options(Pattern{"", path}))
		defer run(t, s, l, "")()
		health := func() (promrules.RuleHealth, error) {
			groups, err := s.Groups(t.Context(), "")
			if err != nil || len(groups) != 1 {
				t.Fatal(groups, err)
			}
			return groups[0].Rules()[0].Health(), groups[0].Rules()[0].LastError()
		}
		for range 3 {
			l.fails <- shardmap.ErrUnavailable
		}
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if h, err := health(); h != promrules.HealthGood || len(l.samples(t, "")) == 0 || len(l.fails) > 0 {
			t.Error("after errors that pass:", h, err)
		}
		l.fails <- errFinal
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if h, err := health(); h != promrules.HealthBad || !errors.Is(err, errFinal) {
			t.Error("after one that does not:", h, err)
		}
	})
}

const takenOver = `
groups:
- name: g
	interval: 30s
	rules:
	- {record: out, expr: in_x}
	- {alert: High, expr: "in_x > 0", for: 20m, annotations: {text: "{{ $value }}"}}
	- {alert: Now, expr: "in_x > 0"}
`

// Of two routers of a cluster one evaluates. When it is cut off the other does, and goes on from what the first has
// written: an alert fires when it would have. Both answer the same meanwhile.
func TestTakeover(t *testing.T) {
	path := rulesFile(t, takenOver)
	synctest.Test(t, func(t *testing.T) {
		l, server := newLab(t), memstore.NewServer()
		for i := range 240 {
			l.put(t, "", labels.FromStrings(model.MetricNameLabel, "in_x", "host", "a"), time.Now().Add(time.Duration(i)*15*time.Second), float64(i))
		}
		wrote, mu := map[string]map[int64]bool{"one": {}, "two": {}}, sync.Mutex{}
		l.wrote = func(who string, times []int64) {
			mu.Lock()
			defer mu.Unlock()
			for _, at := range times {
				if who != "" {
					wrote[who][at] = true
				}
			}
		}
		services, stores := map[string]*Service{}, map[string]*memstore.Store{}
		for _, name := range []string{"one", "two"} {
			store := server.Open(shardmap.Seen{})
			o := l.options(Pattern{"", path})
			o.Campaign = func(ctx context.Context) (shardmap.Leadership, error) {
				return store.Campaign(ctx, shardmap.ElectionRules, name)
			}
			o.Alertmanagers, o.Transport = []*url.URL{{Scheme: "http", Host: "am", Path: "/am"}}, &inbox{}
			services[name], stores[name] = open(t, o), store
			defer run(t, services[name], l, name)()
			synctest.Wait()
		}
		alerts := func(who string) (lines []string) {
			groups, err := services[who].Groups(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				for _, r := range g.AlertingRules() {
					for _, a := range r.ActiveAlerts() { // series tell since when to the second
						lines = append(lines, fmt.Sprintf("%v %v %v %v since %v", a.State, a.Labels, a.Annotations, a.Value, a.ActiveAt.Unix()))
					}
				}
			}
			slices.Sort(lines)
			return lines
		}
		begun := time.Now()
		time.Sleep(10 * time.Minute)
		groups, err := services["one"].Groups(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		// The other router looks at what was evaluated some seconds ago.
		time.Sleep(time.Until(groups[0].EvalTimestamp(time.Now().UnixNano()).Add(30*time.Second + 2*mirrorBehind)))
		synctest.Wait()
		if !services["one"].evaluating() || services["two"].evaluating() || len(wrote["two"]) > 0 {
			t.Fatal("the second evaluates, too")
		}
		atOne, atTwo := alerts("one"), alerts("two")
		if len(atOne) != 2 || !strings.HasPrefix(atOne[0], "firing") || !strings.HasPrefix(atOne[1], "pending") {
			t.Error("after 10 minutes:", atOne)
		}
		differ(t, "the other router", atTwo, atOne)
		stores["one"].SetReachable(false)
		server.ExpireLeases()
		synctest.Wait()
		if services["one"].evaluating() || !services["two"].evaluating() {
			t.Fatal("nobody has taken over")
		}
		time.Sleep(time.Until(begun.Add(19 * time.Minute)))
		synctest.Wait()
		if is := alerts("two"); len(is) != 2 || !strings.HasPrefix(is[1], "pending") {
			t.Error("a minute before its time:", is)
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if is := alerts("two"); len(is) != 2 || !strings.HasPrefix(is[1], "firing") {
			t.Error("after its time:", is)
		}
		for at := range wrote["two"] {
			if wrote["one"][at] {
				t.Error("both have written at", at)
			}
		}
		if n, slots := len(wrote["one"])+len(wrote["two"]), int(time.Since(begun)/(30*time.Second)); n < slots-3 || n > slots+1 {
			t.Errorf("%d evaluations in %v", n, time.Since(begun))
		}
	})
}

// Alertmanagers that do not take alerts lose the oldest of more than may wait; the others get theirs.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &inbox{status: 500}
		s := newSender(&Options{
			ExternalURL: &url.URL{}, Transport: broken, Logger: discarded(),
			Alertmanagers: []*url.URL{{Scheme: "http", Host: "am", Path: "/am", User: url.UserPassword("u", "secret")}},
		})
		at := s.targets[0]
		if strings.Contains(at.name, "secret") {
			t.Error("the password is shown:", at.name)
		}
		alerts := make([]*promrules.Alert, queueMax/2+1)
		for i := range alerts {
			alerts[i] = &promrules.Alert{Labels: labels.FromStrings("n", fmt.Sprint(i))}
		}
		for range 2 {
			s.notifier("")(t.Context(), "up", alerts...)
		}
		if len(at.mu.waiting) != queueMax || at.mu.dropped != 2 {
			t.Errorf("%d wait, %d are dropped", len(at.mu.waiting), at.mu.dropped)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx) })
		synctest.Wait()
		cancel()
		running.Wait()
		if len(at.mu.waiting) != 0 || at.mu.failed != queueMax || at.mu.sent != 0 || at.mu.dropped != queueMax+2 {
			t.Errorf("%+v", &at.mu.failed)
		}
	})
}
