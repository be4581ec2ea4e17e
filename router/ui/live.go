package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// liveView is counters and gauges of this process that the page makes rates of.
type liveView struct {
	TimeMs         int64              `json:"timeMs"`
	Points         map[string]float64 `json:"points"`  // accepted since the start, by protocol
	Refused        float64            `json:"refused"` // points since the start that were not taken
	Bytes          float64            `json:"bytes"`   // of ingest since the start
	Requests       float64            `json:"requests"`
	CPUSeconds     float64            `json:"cpuSeconds"`
	ResidentBytes  float64            `json:"residentBytes"`
	QueriesRunning int                `json:"queriesRunning"`
	QueriesEnded   float64            `json:"queriesEnded"`
}

// The metrics that liveView is made of, as this process and its libraries name them.
const (
	metricPoints    = "tickmesh_ingest_points_total"
	metricAPIPoints = "tickmesh_api_points_total"
	metricBytes     = "tickmesh_ingest_bytes_total"
	metricRequests  = "tickmesh_ingest_http_requests_total"
	metricCPU       = "process_cpu_seconds_total"
	metricResident  = "process_resident_memory_bytes"
	metricQueries   = "tickmesh_query_ended_total"
)

// live serves what this process does now.
func (h *handler) live(r *http.Request) (any, error) {
	v, err := h.snapshots.live.get(r.Context())
	if err != nil {
		return nil, err
	}
	now := *v
	now.QueriesRunning = len(h.Admission.Running())
	return &now, nil
}

func viewLive(metrics prometheus.Gatherer, clock func() time.Time) (*liveView, error) {
	families, err := metrics.Gather()
	if err != nil && len(families) == 0 {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	v := &liveView{TimeMs: clock().UnixMilli(), Points: map[string]float64{}}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v.add(f.GetName(), m)
		}
	}
	return v, nil
}

func (v *liveView) add(name string, m *dto.Metric) {
	count := m.GetCounter().GetValue()
	switch name {
	case metricPoints:
		if label(m, "outcome") == "accepted" {
			v.Points[label(m, "protocol")] += count
		} else {
			v.Refused += count
		}
	case metricAPIPoints:
		v.Points["grpc"] += count
	case metricBytes:
		v.Bytes += count
	case metricRequests:
		v.Requests += count
	case metricCPU:
		v.CPUSeconds += count
	case metricResident:
		v.ResidentBytes = m.GetGauge().GetValue()
	case metricQueries:
		if label(m, "dialect") != dialect {
			v.QueriesEnded += count
		}
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
