package sim

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/backoff"
)

// Timing is what writes met in a part of a run. Its time is the world's, so that the machine
// that it runs on changes nothing.
type Timing struct {
	Attempts int     // requests of routers
	Named    int     // that were refused with the name of the leader
	Refused  int     // that were refused otherwise
	SleptUs  int64   // by routers before they tried again
	TookUs   []int64 // by each write that was answered
	Failed   int     // writes without an answer in time
}

func (t *Timing) wrote(us int64) { t.TookUs = append(t.TookUs, us) }

// Quantile returns how long a share of the writes took at most.
func (t *Timing) Quantile(share float64) int64 {
	if len(t.TookUs) == 0 {
		return 0
	}
	slices.Sort(t.TookUs)
	return t.TookUs[min(int(share*float64(len(t.TookUs))), len(t.TookUs)-1)]
}

// String returns a line of figures, in milliseconds.
func (t *Timing) String() string {
	ms := func(share float64) float64 { return float64(t.Quantile(share)) / 1000 }
	return fmt.Sprintf("%6d writes, %6d attempts, %4d named, %4d refused, %8.1f ms slept; P50 %6.1f P99 %6.1f P99.9 %6.1f longest %6.1f ms",
		len(t.TookUs), t.Attempts, t.Named, t.Refused, float64(t.SleptUs)/1000, ms(0.5), ms(0.99), ms(0.999), ms(1))
}

// How long the routers of a timed world wait, as the product's do.
const (
	timedOperationUs = 10_000_000
	timedAttemptUs   = 2_000_000
	timedFollowsMax  = 3
)

var timedBackoff = backoff.Exponential{Min: 10_000, Max: 100_000} // µs

func (w *World) operationUs() int64 {
	if w.options.Timed {
		return timedOperationUs
	}
	return operationMs * 1000
}

func (w *World) attemptUs() int64 {
	if w.options.Timed {
		return timedAttemptUs
	}
	return attemptMs * 1000
}
