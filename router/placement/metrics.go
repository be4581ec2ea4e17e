package placement

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metric is one figure by name.
type metric struct {
	description *prometheus.Desc
	kind        prometheus.ValueType
	read        func(Status) float64
}

// Collector exports a loop's status to Prometheus.
type Collector struct {
	loop    *Loop
	metrics []metric
	steps   *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector makes the collector of a loop.
func NewCollector(l *Loop) *Collector {
	gauge := func(name, help string, read func(Status) float64) metric {
		return metric{prometheus.NewDesc("tickmesh_placement_"+name, help, nil, nil), prometheus.GaugeValue, read}
	}
	counter := func(name, help string, read func(Status) float64) metric {
		return metric{prometheus.NewDesc("tickmesh_placement_"+name, help, nil, nil), prometheus.CounterValue, read}
	}
	return &Collector{
		loop:  l,
		steps: prometheus.NewDesc("tickmesh_placement_steps_total", "Steps of placement that were made, by reason.", []string{"reason"}, nil),
		metrics: []metric{
			gauge("elected", "1 while this router decides on placement.", func(s Status) float64 { return oneIf(s.Elected) }),
			gauge("store_available", "0 while the placement store does not answer or was rolled back.", func(s Status) float64 { return oneIf(s.Err == nil) }),
			gauge("waiting", "1 while nothing is planned because a live node knows a newer shard map, or another cluster's, than the placement store.", func(s Status) float64 { return oneIf(s.Waiting != nil) }),
			gauge("moves_in_flight", "Shards whose members are to change.", func(s Status) float64 { return float64(s.Summary.Moving) }),
			gauge("under_replicated_shards", "Shards with fewer live full voters than replication.", func(s Status) float64 { return float64(s.Summary.UnderReplicated) }),
			gauge("shards_without_witness", "Shards without a live witness though replication is 2.", func(s Status) float64 { return float64(s.Summary.WithoutWitness) }),
			gauge("unable_shards", "Shards whose group has no majority, or nobody live with the data.", func(s Status) float64 { return float64(s.Summary.Unable) }),
			gauge("shards_waiting_for_copies", "Shards without a majority that wait for nodes to come back, or for `tickmesh recover`.", func(s Status) float64 { return float64(s.WaitingForCopies) }),
			counter("shards_recovered_total", "Shards that had lost their majority for good and went on from the best of all copies.", func(s Status) float64 { return float64(s.Recovered) }),
			gauge("nodes_live", "Nodes that are registered.", func(s Status) float64 { return float64(s.Summary.NodesLive) }),
			gauge("nodes_dead", "Nodes that hold shards and are not registered.", func(s Status) float64 { return float64(s.Summary.NodesDead) }),
			gauge("last_plan_timestamp_seconds", "When this router planned last.", func(s Status) float64 {
				if s.LastPlan.IsZero() {
					return 0
				}
				return float64(s.LastPlan.UnixMilli()) / 1000
			}),
			gauge("steps_ahead", "Steps that the last plan found.", func(s Status) float64 { return float64(s.StepsAhead) }),
			counter("conflicts_total", "Steps given up because the map had changed.", func(s Status) float64 { return float64(s.Conflicts) }),
			counter("failures_total", "Steps that the placement store did not take.", func(s Status) float64 { return float64(s.Failures) }),
			counter("leader_transfers_total", "Leaders asked to hand over, to spread them.", func(s Status) float64 { return float64(s.Transfers) }),
		},
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.steps
	for _, m := range c.metrics {
		out <- m.description
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	status := c.loop.Status()
	for reason, count := range status.Steps {
		out <- prometheus.MustNewConstMetric(c.steps, prometheus.CounterValue, float64(count), string(reason))
	}
	for _, m := range c.metrics {
		out <- prometheus.MustNewConstMetric(m.description, m.kind, m.read(status))
	}
}
