package sim

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

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
