package sim

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/shardmap"
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

// timedRetry tries again after a refusal: at once where a node has named the leader.
func (p *part) timedRetry(named bool) {
	w := p.router.world
	if named {
		w.timing.Named++
	} else {
		w.timing.Refused++
	}
	if named && p.follows < timedFollowsMax {
		p.follows++
		w.after(0, p.try)
		return
	}
	p.router.guess[p.shard] %= len(w.nodes) // that a node joins makes nobody another one
	p.tries++
	longest := int64(timedBackoff.Longest(p.tries))
	wait := w.between(longest/2, longest)
	w.timing.SleptUs += wait
	w.after(wait, p.try)
}

// MovesTiming is what writes met while nothing moved, and while a cluster grew and shrank.
type MovesTiming struct{ Steady, Grew, Shrank Timing }

// phaseUsMax bounds a part of TimeMoves.
const phaseUsMax = 120_000_000

// TimeMoves runs a cluster of options that is Timed, and in which nothing fails, and lets it grow by
// two nodes and lose them again. Errors: a Violation.
func TimeMoves(o Options) (MovesTiming, error) {
	w := newWorld(o)
	defer w.end()
	var result MovesTiming
	w.runUntil(5_000_000)
	phase := func(of *Timing, ended func() bool) {
		w.timing = Timing{}
		for end := w.now + phaseUsMax; w.err == nil && !ended(); {
			if w.now >= end {
				w.fail(0, "the moves have not ended")
			}
			w.runUntil(w.now + 200_000)
		}
		*of = w.timing
	}
	steadyUntil := w.now + 10_000_000
	phase(&result.Steady, func() bool { return w.now >= steadyUntil })
	before := len(w.nodes)
	w.addNode(before)
	w.addNode(before + 1)
	phase(&result.Grew, func() bool { return w.hold(w.nodes[before:]) && w.moving() == 0 })
	for _, n := range w.nodes[before:] {
		if err := w.server.Open(shardmap.Seen{}).SetDesired(w.ctx, n.id, shardmap.Draining); err != nil {
			w.fail(0, "desired: %v", err)
		}
	}
	phase(&result.Shrank, func() bool { return !w.hold(w.nodes[before:]) && w.moving() == 0 })
	return result, w.err
}

func (w *World) moving() int { return w.newestMap().Moving() }

// hold reports whether the map has members on some of the nodes.
func (w *World) hold(nodes []*node) bool {
	m := w.newestMap()
	return slices.ContainsFunc(nodes, func(n *node) bool { return len(m.MembersOn(n.id)) > 0 })
}
