package node

import "github.com/prometheus/client_golang/prometheus"

// metric is one figure by name.
type metric struct {
	description *prometheus.Desc
	kind        prometheus.ValueType
	read        func(*figures) float64
}

func counter(name, help string, read func(*figures) float64) metric {
	return metric{prometheus.NewDesc("tickmesh_"+name, help, nil, nil), prometheus.CounterValue, read}
}

func gauge(name, help string, read func(*figures) float64) metric {
	return metric{prometheus.NewDesc("tickmesh_"+name, help, nil, nil), prometheus.GaugeValue, read}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func oneOf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
