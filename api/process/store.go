package process

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// StoreAdvice returns what to do about a placement store; empty: nothing but to wait.
func StoreAdvice(err error) string {
	if errors.Is(err, shardmap.ErrRolledBack) {
		return "; `tickmesh rescue-map` puts the map back"
	}
	return ""
}

// StoreGauge returns a gauge of the placement store as a node or a router sees it; trouble returns
// why it cannot be relied on, or nil.
func StoreGauge(trouble func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tickmesh_store_available", Help: "0 while the placement store does not answer or was rolled back.",
	}, func() float64 {
		if trouble() != nil {
			return 0
		}
		return 1
	})
}
