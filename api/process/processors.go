package process

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/processor"
)

// NewProcessors returns the pool of the process's heavy work, with its metrics.
func (r *Registry) NewProcessors() *processor.Pool {
	pool := processor.NewOfProcess()
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tickmesh", Subsystem: "processor", Name: name, Help: help}
	}
	gauge := func(name, help string, value func(processor.Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return float64(value(pool.Stats())) })
	}
	counter := func(name, help string, value func(processor.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts(opts(name, help)), func() float64 { return value(pool.Stats()) })
	}
	raised := func(s processor.Stats) int {
		if s.Raised {
			return 1
		}
		return 0
	}
	r.MustRegister(
		gauge("raised", "Whether there are more of Go's processors than the machine has, as heavy work and small work meet.", raised),
		counter("raises_total", "How often heavy work and small work have begun to meet.", func(s processor.Stats) float64 { return float64(s.Raises) }),
		counter("poller_wakes_total", "Threads that were started to wait for the network beside heavy work.", func(s processor.Stats) float64 { return float64(s.Wakes) }),
		gauge("slots", "Goroutines that may do heavy work at once.", func(s processor.Stats) int { return s.Slots }),
		gauge("slots_in_use", "Goroutines that do heavy work.", func(s processor.Stats) int { return s.InUse }),
		gauge("waiting", "Goroutines that wait for a slot.", func(s processor.Stats) int { return s.Waiting }),
		counter("wait_seconds_total", "Time that heavy work has waited for slots.", func(s processor.Stats) float64 { return s.Waited.Seconds() }),
		counter("waits_given_up_total", "Heavy work that has waited too long and went on without a slot.", func(s processor.Stats) float64 { return float64(s.Skipped) }))
	return pool
}
