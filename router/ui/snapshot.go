package ui

import (
	"cmp"
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// snapshotAgeMax is how old what pages are shown may be when they ask: many open pages
// cost the cluster no more than one.
const snapshotAgeMax = time.Second

// statusTimeout bounds one look at the cluster, whoever waits for it.
const statusTimeout = 10 * time.Second

// snapshot keeps the last value of something that costs to make. One caller makes it, the
// others wait for that.
type snapshot[T any] struct {
	make  func(context.Context) (T, error)
	clock func() time.Time
	turn  chan struct{} // holds one token: who has it makes
	last  atomic.Pointer[made[T]]
}

type made[T any] struct {
	value T
	at    time.Time
}

func newSnapshot[T any](clock func() time.Time, produce func(context.Context) (T, error)) *snapshot[T] {
	s := &snapshot[T]{make: produce, clock: clock, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// get returns the value, not older than snapshotAgeMax when it was asked for. An error is
// given to the caller who made it only; the next one tries again.
func (s *snapshot[T]) get(ctx context.Context) (T, error) {
	var none T
	asked := s.clock()
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if last := s.last.Load(); last != nil && asked.Sub(last.at) < snapshotAgeMax {
		return last.value, nil
	}
	at := s.clock()
	value, err := s.make(ctx)
	if err != nil {
		return none, err
	}
	s.last.Store(&made[T]{value, at})
	return value, nil
}

// snapshots are the views that pages ask for again and again.
type snapshots struct {
	status *snapshot[*statusView]
	live   *snapshot[*liveView]
}

// remembered are the last reports of nodes. Who is dead tells nothing, but is drawn
// where it was.
type remembered map[string]nodeView

// fill adds what is remembered of nodes that tell nothing, and remembers the others.
func (r remembered) fill(v *statusView) {
	present := make(remembered, len(v.Nodes))
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if before, ok := r[n.Node]; ok && !n.Alive {
			n.Zone, n.Address, n.Version = cmp.Or(n.Zone, before.Zone), cmp.Or(n.Address, before.Address), cmp.Or(n.Version, before.Version)
		}
		present[n.Node] = *n
	}
	clear(r) // nodes that are no more are forgotten
	maps.Copy(r, present)
}

func newSnapshots(status func(context.Context, bool) (*tickmeshv1.GetStatusResponse, error), metrics prometheus.Gatherer, clock func() time.Time) *snapshots {
	nodes := remembered{} // of the one that makes the status
	return &snapshots{
		status: newSnapshot(clock, func(ctx context.Context) (*statusView, error) {
			bounded, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			at := clock()
			s, err := status(bounded, false)
			if err != nil {
				return nil, err
			}
			v := viewStatus(s, at)
			nodes.fill(v)
			return v, nil
		}),
		live: newSnapshot(clock, func(context.Context) (*liveView, error) { return viewLive(metrics, clock) }),
	}
}
