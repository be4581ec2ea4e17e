package rules

import (
	"github.com/prometheus/client_golang/prometheus"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/tickmesh/tickmesh/api/access"
)

// descriptions are those of a service's own metrics. What Prometheus' rule manager and notifier count has the names
// that it has there, so that dashboards and alerts about rules work: prometheus_rule_… with a label database, and
// prometheus_notifications_….
type descriptions struct {
	evaluating, groups, rules, filesGood, fileReloads *prometheus.Desc
	sent, failed, dropped, waiting, capacity          *prometheus.Desc
}

func newDescriptions() descriptions {
	own := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tickmesh_rules_"+name, help, nil, nil)
	}
	file := prometheus.Labels{"file": "rules"}
	notifications := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("prometheus_notifications_"+name, help, []string{"alertmanager"}, nil)
	}
	return descriptions{
		evaluating:  own("evaluating", "1 while this process evaluates rules: in a cluster one router does."),
		groups:      own("groups", "Groups in the files of rules of this process."),
		rules:       own("rules", "Rules in the files of rules of this process."),
		filesGood:   prometheus.NewDesc("tickmesh_rule_file_good", "0 while the file on disk is not usable, so that the rules before it are in force.", nil, file),
		fileReloads: prometheus.NewDesc("tickmesh_rule_file_reloads_total", "Changes of the file by what became of them.", []string{"outcome"}, file),
		sent:        notifications("sent_total", "Alerts sent."),
		failed:      notifications("errors_total", "Alerts that could not be sent."),
		dropped:     notifications("dropped_total", "Alerts dropped: could not be sent, or too many waited."),
		waiting:     notifications("queue_length", "Alerts that wait to be sent."),
		capacity:    prometheus.NewDesc("prometheus_notifications_queue_capacity", "Alerts that may wait for each Alertmanager.", nil, nil),
	}
}

// newManagerMetrics registers what the rule manager of a database counts.
func newManagerMetrics(registerer prometheus.Registerer, database string) *promrules.Metrics {
	if registerer == nil {
		return promrules.NewGroupMetrics(nil)
	}
	return promrules.NewGroupMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"database": access.Display(database)}, registerer))
}

// resetManagerMetrics forgets what was counted by group, when this process evaluates none any more.
func resetManagerMetrics(m *promrules.Metrics) {
	for _, counter := range []*prometheus.CounterVec{m.IterationsMissed, m.IterationsScheduled, m.EvalTotal, m.EvalFailures} {
		counter.Reset()
	}
	for _, gauge := range []*prometheus.GaugeVec{
		m.GroupInterval, m.GroupLastEvalTime, m.GroupLastDuration, m.GroupLastRuleDurationSum, m.GroupLastRestoreDuration, m.GroupRules, m.GroupSamples,
	} {
		gauge.Reset()
	}
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, to) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	counter := func(desc *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), labels...)
	}
	flag := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	d, all := &s.described, s.files.counts()
	gauge(d.evaluating, flag(s.evaluating()))
	gauge(d.groups, float64(all.groups))
	gauge(d.rules, float64(all.rules))
	gauge(d.filesGood, flag(s.files.good()))
	counter(d.fileReloads, s.files.reloads.Load(), "accepted")
	counter(d.fileReloads, s.files.failures.Load(), "refused")
	gauge(d.capacity, queueMax)
	for _, t := range s.sender.targets {
		t.mu.Lock()
		sent, failed, dropped, waiting := t.mu.sent, t.mu.failed, t.mu.dropped, len(t.mu.waiting)
		t.mu.Unlock()
		counter(d.sent, sent, t.name)
		counter(d.failed, failed, t.name)
		counter(d.dropped, dropped, t.name)
		gauge(d.waiting, float64(waiting), t.name)
	}
}
