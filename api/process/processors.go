package process

import (
	"os"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/processor"
)

// processorsMin is how many processors of Go (Ps) a process has at least: with one, whoever syncs a
// file or does heavy work has all there is, and nobody is served meanwhile.
const processorsMin = 2

// ApplyProcessors raises the number of Ps of a process of a machine, or control group, with one
// processor to what it needs, unless the environment sets GOMAXPROCS. It comes before anything asks how many there are.
func ApplyProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < processorsMin {
		runtime.GOMAXPROCS(processorsMin)
	}
}

// NewProcessors returns the pool of the process's heavy work, with its metrics.
func (r *Registry) NewProcessors() *processor.Pool {
	pool := processor.New(processor.SlotsDefault())
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tickmesh", Subsystem: "processor", Name: name, Help: help}
	}
	gauge := func(name, help string, value func(processor.Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return float64(value(pool.Stats())) })
	}
	counter := func(name, help string, value func(processor.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts(opts(name, help)), func() float64 { return value(pool.Stats()) })
	}
	r.MustRegister(
		gauge("slots", "Goroutines that may do heavy work at once.", func(s processor.Stats) int { return s.Slots }),
		gauge("slots_in_use", "Goroutines that do heavy work.", func(s processor.Stats) int { return s.InUse }),
		gauge("waiting", "Goroutines that wait for a slot.", func(s processor.Stats) int { return s.Waiting }),
		counter("wait_seconds_total", "Time that heavy work has waited for slots.", func(s processor.Stats) float64 { return s.Waited.Seconds() }),
		counter("waits_given_up_total", "Heavy work that has waited too long and went on without a slot.", func(s processor.Stats) float64 { return float64(s.Skipped) }))
	return pool
}
