package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/report"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// Metrics are the operator's metrics of clusters. It is safe for concurrent use.
type Metrics struct {
	nodes, shards     *prometheus.GaugeVec
	refused, lost     *prometheus.GaugeVec
	certificateEnd    *prometheus.GaugeVec
	excluded          *prometheus.GaugeVec
	actions, failures *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them. Errors: those of the registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "tickmesh_operator", Name: name, Help: help}, append([]string{"namespace", "cluster"}, labels...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tickmesh_operator", Name: name, Help: help}, append([]string{"namespace", "cluster"}, labels...))
	}
	m := &Metrics{
		nodes:          gauge("nodes", "Storage nodes: wanted, present, ready, outdated.", "state"),
		shards:         gauge("shards", "Shards: all, moving, under_replicated.", "state"),
		refused:        gauge("refused_nodes", "Nodes whose drain is refused."),
		lost:           gauge("lost_nodes", "Nodes whose machine or volume is lost."),
		certificateEnd: gauge("certificate_not_after_seconds", "When the first certificate inside the cluster ends, Unix time."),
		excluded:       gauge("excluded_clusters", "1 for a cluster that an operator in another namespace acts for, so that this one does not."),
		actions:        counter("actions_total", "Changes that were made to nodes.", "kind"),
		failures:       counter("failed_steps_total", "Steps of passes that failed.", "step"),
	}
	for _, c := range []prometheus.Collector{m.nodes, m.shards, m.refused, m.lost, m.certificateEnd, m.excluded, m.actions, m.failures} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Forget drops what was told of a cluster that is deleted.
func (m *Metrics) Forget(namespace, name string) {
	labels := prometheus.Labels{"namespace": namespace, "cluster": name}
	for _, v := range []*prometheus.GaugeVec{m.nodes, m.shards, m.refused, m.lost, m.certificateEnd, m.excluded} {
		v.DeletePartialMatch(labels)
	}
	for _, v := range []*prometheus.CounterVec{m.actions, m.failures} {
		v.DeletePartialMatch(labels)
	}
}

func (m *Metrics) observe(c *v1alpha1.TickMeshCluster, plan rollout.Plan, failures []report.Failure) {
	set := func(v *prometheus.GaugeVec, value float64, labels ...string) {
		v.WithLabelValues(append([]string{c.Namespace, c.Name}, labels...)...).Set(value)
	}
	wanted := c.Spec.NodeCount()
	if rests(c) {
		wanted = 0 // nobody misses them
	}
	set(m.nodes, float64(wanted), "wanted")
	set(m.nodes, float64(c.Status.Nodes), "present")
	set(m.nodes, float64(c.Status.ReadyNodes), "ready")
	set(m.nodes, float64(plan.Outdated), "outdated")
	set(m.shards, float64(c.Status.Shards), "all")
	set(m.shards, float64(c.Status.ShardsMoving), "moving")
	set(m.shards, float64(c.Status.UnderReplicated), "under_replicated")
	refused := 0
	for _, r := range plan.Refusals {
		refused += len(r.Nodes)
	}
	set(m.refused, float64(refused))
	set(m.lost, float64(len(plan.Losses)))
	if end := c.Status.Certificates; end != nil && end.NotAfter != nil {
		set(m.certificateEnd, float64(end.NotAfter.Unix()))
	}
	for _, f := range failures {
		m.failures.WithLabelValues(c.Namespace, c.Name, f.Step).Inc()
	}
}

// exclude sets whether another operator acts for a cluster.
func (m *Metrics) exclude(c *v1alpha1.TickMeshCluster, excluded bool) {
	if !excluded {
		m.excluded.DeleteLabelValues(c.Namespace, c.Name)
		return
	}
	m.excluded.WithLabelValues(c.Namespace, c.Name).Set(1)
}

func (m *Metrics) acted(c *v1alpha1.TickMeshCluster, kind rollout.ActionKind) {
	m.actions.WithLabelValues(c.Namespace, c.Name, string(kind)).Inc()
}
