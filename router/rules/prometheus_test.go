package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
	prom "github.com/prometheus/prometheus/promql"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

// inbox is an Alertmanager that keeps what it is sent.
type inbox struct {
	mu     sync.Mutex
	alerts []string
	status int // that it answers; 0: 200
}

// RoundTrip implements http.RoundTripper.
func (i *inbox) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var alerts []map[string]any
	if err := json.Unmarshal(body, &alerts); err != nil || r.Method != http.MethodPost || r.URL.Path != "/am/api/v2/alerts" || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("%s %s: %s: %v", r.Method, r.URL, body, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, a := range alerts {
		delete(a, "generatorURL")  // each names its own page
		text, _ := json.Marshal(a) // of JSON
		i.alerts = append(i.alerts, string(text))
	}
	return &http.Response{StatusCode: max(i.status, 200), Status: http.StatusText(max(i.status, 200)), Body: http.NoBody, Request: r}, nil
}

// sorted returns all that was sent.
func (i *inbox) sorted() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(slices.Values(i.alerts))
}

// peer is Prometheus' own rule manager, notifier, engine and storage.
type peer struct {
	storage  *teststorage.TestStorage
	inbox    *inbox
	external labels.Labels
	engine   *prom.Engine
	manager  *promrules.Manager
	notifier *notifier.Manager
	running  sync.WaitGroup
	cancel   context.CancelFunc
}

var peerURL = &url.URL{Scheme: "http", Host: "here:1"}

func newPeer(t *testing.T, external labels.Labels) *peer {
	t.Helper()
	p := &peer{storage: teststorage.New(t), inbox: &inbox{}, external: external}
	p.engine = prom.NewEngine(prom.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Hour, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	return p
}

// start begins a life of the process, of which only the storage is older.
func (p *peer) start(t *testing.T, file string) {
	t.Helper()
	p.notifier = notifier.NewManager(&notifier.Options{
		QueueCapacity: 10000, ExternalLabels: p.external,
		Do: func(_ context.Context, _ *http.Client, r *http.Request) (*http.Response, error) {
			return p.inbox.RoundTrip(r)
		},
	}, model.UTF8Validation, slog.New(slog.DiscardHandler))
	am := config.DefaultAlertmanagerConfig
	am.PathPrefix = "/am"
	targets := []*targetgroup.Group{{Targets: []model.LabelSet{{model.AddressLabel: "am:9093"}}}}
	am.ServiceDiscoveryConfigs = discovery.Configs{discovery.StaticConfig(targets)}
	configured := &config.Config{GlobalConfig: config.GlobalConfig{ExternalLabels: p.external}, AlertingConfig: config.AlertingConfig{AlertmanagerConfigs: config.AlertmanagerConfigs{&am}}}
	if err := p.notifier.ApplyConfig(configured); err != nil {
		t.Fatal(err)
	}
	sets := make(chan map[string][]*targetgroup.Group)
	p.running.Go(func() { p.notifier.Run(sets) })
	sets <- map[string][]*targetgroup.Group{"config-0": targets}
	ctx, cancel := context.WithCancel(t.Context())
	p.cancel = cancel
	p.manager = promrules.NewManager(&promrules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation, ExternalURL: peerURL, Context: ctx,
		QueryFunc: promrules.EngineQueryFunc(p.engine, p.storage), NotifyFunc: promrules.SendAlerts(p.notifier, peerURL.String()),
		Appendable: p.storage, Queryable: p.storage, OutageTolerance: time.Hour, ForGracePeriod: 10 * time.Minute, ResendDelay: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	p.running.Go(p.manager.Run)
	p.load(t, file)
}

func (p *peer) load(t *testing.T, file string) {
	t.Helper()
	if err := p.manager.Update(time.Minute, []string{file}, p.external, peerURL.String(), nil); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) stop() {
	p.cancel()
	p.manager.Stop()
	p.notifier.Stop()
	p.running.Wait()
}

func (p *peer) put(t *testing.T, of labels.Labels, at time.Time, v float64) {
	t.Helper()
	a := p.storage.Appender(t.Context())
	if _, err := a.Append(0, of, at.UnixMilli(), v); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
}

// samples returns all samples of rules, as lab.samples does.
func (p *peer) samples(t *testing.T) (lines []string) {
	t.Helper()
	q, err := p.storage.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchNotRegexp, model.MetricNameLabel, "in_.*"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			lines = append(lines, sampleLine(set.At().Labels(), at, v))
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return slices.Sorted(slices.Values(lines))
}

// states returns what groups tell of their rules and alerts, wall clocks aside.
func states(groups []*promrules.Group) (lines []string) {
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("%s %v %d", g.Name(), g.Interval(), g.Limit()))
		for _, r := range g.Rules() {
			lines = append(lines, fmt.Sprintf("%s %s %v: %v", r.Name(), r.Query(), r.Labels(), r.Health()))
			a, ok := r.(*promrules.AlertingRule)
			if !ok {
				continue
			}
			active := a.ActiveAlerts()
			slices.SortFunc(active, func(a, b *promrules.Alert) int { return labels.Compare(a.Labels, b.Labels) })
			for _, one := range active {
				lines = append(lines, fmt.Sprintf("%v %v %v %v at %v, kept since %v", a.State(), one.Labels, one.Annotations, one.Value, one.ActiveAt.UTC(), one.KeepFiringSince.UTC()))
			}
		}
	}
	return lines
}

// differ reports where two lists of lines differ.
func differ(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s: Prometheus has none", what)
	}
	count := map[string]int{}
	for _, line := range got {
		count[line]++
	}
	for _, line := range want {
		count[line]--
	}
	shown := 0
	for _, line := range slices.Sorted(maps.Keys(count)) {
		if n := count[line]; n != 0 {
			if shown++; shown <= 10 {
				t.Errorf("%s: %+d times: %s", what, n, line)
			}
		}
	}
	if shown > 10 {
		t.Errorf("%s: and %d more", what, shown-10)
	}
}

const comparedRules = `
groups:
- name: records
	interval: 30s
	rules:
	- {record: "r:sum", expr: "sum by (job) (in_load)", labels: {source: rule}}
	- {record: "r:rate", expr: "rate(in_total[2m])"}
	- {record: "r:twice", expr: "r:sum * 2"}
	- {record: "r:high", expr: "in_load > 5"}
	- {record: "r:either", expr: "in_load > 5"}
	- {record: "r:either", expr: "in_load <= 5"}
	- {record: "r:number", expr: "1 + 1"}
	- {record: "r:alerts", expr: "count by (alertname, alertstate) (ALERTS)"}
- name: alerts
	labels: {team: "storage"}
	rules:
	- alert: High
		expr: in_load > 5
		for: 2m
		keep_firing_for: 3m
		labels: {severity: "{{ if gt $value 8.0 }}page{{ else }}mail{{ end }}"}
		annotations:
			summary: "{{ $labels.host }} of {{ $externalLabels.site }} has {{ $value | humanize }}, of {{ with query \"sum(in_load)\" }}{{ . | first | value }}{{ end }}"
	- {alert: Now, expr: "in_load == bool 3 and in_load == 3"}
	- {alert: Long, expr: "in_load >= 0", for: 20m}
	- {alert: Absent, expr: "absent(in_none)", for: 1m}
- name: limited
	limit: 1
	rules:
	- {record: "r:limited", expr: "in_load"}
	- {alert: Limited, expr: "in_load > 5"}
- name: late
	query_offset: 90s
	interval: 45s
	rules:
	- {record: "r:late", expr: "in_load"}
	- {alert: Late, expr: "in_load > 7", for: 1m}
`

// changedRules are the same but for rules that are gone, moved and renamed.
const changedRules = `
groups:
- name: records
	interval: 30s
	rules:
	- {record: "r:sum", expr: "sum by (job) (in_load)", labels: {source: changed}}
	- {record: "r:twice", expr: "r:sum * 2"}
	- {record: "r:rate", expr: "rate(in_total[3m])"}
- name: alerts
	labels: {team: "storage"}
	rules:
	- {alert: Long, expr: "in_load >= 0", for: 20m}
	- {alert: High, expr: "in_load > 6", for: 1m}
- name: moved
	rules:
	- {record: "r:high", expr: "in_load > 5"}
`

// Over an hour and a half, a restart and a change of the file, rules write the same samples, bit by bit, have the same states
// and send the same alerts as Prometheus' own manager, engine, storage and notifier do with the same data.
func TestAsPrometheus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	writeRules(t, file, comparedRules)
	synctest.Test(t, func(t *testing.T) {
		external := labels.FromStrings("site", "home", "team", "nobody")
		l, p, ours := newLab(t), newPeer(t, external), &inbox{}
		for i := 0; i < 90*4; i += 2 {
			at := time.Now().Add(time.Duration(i) * 15 * time.Second)
			for host, phase := range map[string]int{"a": 0, "b": 60, "c": 150} {
				of := labels.FromStrings(model.MetricNameLabel, "in_load", "job", "j", "host", host)
				if v := math.Floor(5 + 5*math.Sin(float64(i+phase)/40)); host != "c" || i%200 < 120 {
					l.put(t, "", of, at, v)
					p.put(t, of, at, v)
				}
			}
			of := labels.FromStrings(model.MetricNameLabel, "in_total", "job", "j")
			l.put(t, "", of, at, float64(i%100)*1.5)
			p.put(t, of, at, float64(i%100)*1.5)
		}
		o := l.options(Pattern{"", file})
		o.ExternalLabels, o.ExternalURL, o.Transport = external, peerURL, ours
		o.Alertmanagers = []*url.URL{{Scheme: "http", Host: "am:9093", Path: "/am"}}
		compare := func(when string, s *Service) {
			t.Helper()
			synctest.Wait()
			differ(t, when+": samples", l.samples(t, ""), p.samples(t))
			differ(t, when+": alerts sent", ours.sorted(), p.inbox.sorted())
			groups, err := s.Groups(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			differ(t, when+": states", states(groups), states(p.manager.RuleGroups()))
		}
		for life := range 2 {
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { s.Run(ctx, l.api, labWriter{l, ""}) })
			synctest.Wait()
			p.start(t, file)
			time.Sleep(33 * time.Minute)
			compare(fmt.Sprint("life ", life), s)
			if life == 1 {
				writeRules(t, file, changedRules)
				time.Sleep(2 * rulefile.ReadInterval) // the second time that it is seen counts
				synctest.Wait()
				p.load(t, file)
				time.Sleep(14 * time.Minute)
				compare("changed", s)
			}
			cancel()
			running.Wait()
			p.stop()
			time.Sleep(4 * time.Minute)
		}
		if err := p.storage.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
