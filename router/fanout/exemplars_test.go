package fanout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
)

// WriteExemplars keeps what is not there, whatever its time.
func (n *fakeNode) WriteExemplars(_ context.Context, parts []rpc.ShardExemplars) (written []rpc.ExemplarsWritten, err error) {
	if n.old.Load() {
		n.world.askOld()
		return nil, wire.ErrVersion
	}
	for _, p := range parts {
		w := rpc.ExemplarsWritten{ShardEnd: rpc.ShardEnd{Shard: p.Shard, Err: n.serves(p.Shard, 0)}}
		if w.Err == nil {
			of := n.world.shards[p.Shard]
			of.mu.Lock()
			for _, e := range p.Exemplars {
				w.Kept++
				if !slices.ContainsFunc(of.traces, func(x series.Exemplar) bool { return string(x.Key) == string(e.Key) && x.Compare(&e) == 0 }) {
					of.traces = append(of.traces, e)
				}
			}
			of.mu.Unlock()
		}
		written = append(written, w)
	}
	return written, nil
}

func (n *fakeNode) ListExemplars(_ context.Context, r *rpc.ExemplarsRequest, sink rpc.ExemplarSink) error {
	if n.old.Load() {
		n.world.askOld()
		return wire.ErrVersion
	}
	for _, shard := range r.Selector.Shards {
		err := n.serves(shard, 0)
		if err == nil {
			of := n.world.shards[shard]
			of.mu.Lock()
			traces := slices.Clone(of.traces)
			of.mu.Unlock()
			for i := range traces {
				if at := traces[i].TimeMs; at >= r.FromMs && at <= r.ToMs {
					if err := sink.Exemplar(shard, &traces[i]); err != nil {
						return err
					}
				}
			}
		}
		if err := sink.ShardEnd(shard, err); err != nil {
			return err
		}
	}
	return nil
}

// TestExemplars writes exemplars, and reads all of them once, while leaders move, nodes refuse and connections break.
func TestExemplars(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, ReadTimeout: waitBound, WriteTimeout: waitBound})
	writer := c.ExemplarWriter(series.Sharding{Shards: testShards})
	all := map[string]bool{}
	name := func(e *series.Exemplar) string { return fmt.Sprint(e.Key, e.TimeMs, e.Value, e.Labels) }
	for round := range 60 {
		w.setFaults([]faults{{}, {move: 40}, {refuse: 6, hideLeader: 4}, {cut: 60, move: 100}}[round/15])
		var some []series.Exemplar
		for i := range 30 {
			e := series.Exemplar{
				Key: scantest.Key("", "m", "i", fmt.Sprint(i)), TimeMs: int64(round), Value: float64(i), Labels: []series.ExemplarLabel{{Name: "trace_id", Value: fmt.Sprint(round)}},
			}
			some = append(some, e)
			all[name(&e)] = true
		}
		o, err := writer.WriteExemplars(t.Context(), some)
		if err != nil || o != (series.ExemplarOutcomes{Kept: len(some)}) {
			t.Fatalf("round %d: %+v, %v", round, o, err)
		}
		got := map[string]bool{}
		err = c.Exemplars(t.Context(), &scan.Selector{MetricAny: true}, 0, int64(round), func(e *series.Exemplar) error {
			if got[name(e)] {
				return fmt.Errorf("%s comes twice", name(e))
			}
			got[name(e)] = true
			return nil
		})
		if err != nil || !maps.Equal(got, all) {
			t.Fatalf("round %d: %d exemplars of %d, %v", round, len(got), len(all), err)
		}
	}
	w.setFaults(faults{})
	w.nodes[1].old.Store(true) // it leads each third shard
	var mine []series.Exemplar
	old := 0
	for i := range 30 {
		e := series.Exemplar{Key: scantest.Key("", "m", "i", fmt.Sprint(i)), TimeMs: 1000}
		if w.leads(1, e.Key.Shard(testShards)) {
			old++
		}
		mine = append(mine, e)
	}
	if o, err := writer.WriteExemplars(t.Context(), mine); err != nil || old == 0 || o != (series.ExemplarOutcomes{Kept: len(mine) - old, Refused: old}) {
		t.Fatalf("beside an old node that leads %d: %+v, %v", old, o, err)
	}
	count := 0
	err := c.Exemplars(t.Context(), &scan.Selector{MetricAny: true}, 1000, 1000, func(*series.Exemplar) error {
		count++
		return nil
	})
	if err != nil || count != len(mine)-old {
		t.Fatalf("beside an old node: %d exemplars, %v", count, err)
	}
	if err := c.Exemplars(t.Context(), &scan.Selector{MetricAny: true}, 0, 2000, func(*series.Exemplar) error { return scan.ErrStopped }); err != nil {
		t.Fatal(err)
	}
}

// askOld tells a test that a node of an earlier version is asked.
func (w *world) askOld() {
	if w.oldAsked != nil {
		w.oldAsked()
	}
}

// TestExemplarsOldNode: that a node does not know exemplars does not make it the leader of shards in the eyes of writes.
func TestExemplarsOldNode(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, ReadTimeout: waitBound, WriteTimeout: waitBound})
	e := series.Exemplar{Key: scantest.Key("", "m", "i", "1"), TimeMs: 1000}
	shard := e.Key.Shard(testShards)
	if err := c.Exemplars(t.Context(), &scan.Selector{MetricAny: true}, 0, 1, func(*series.Exemplar) error { return nil }); err != nil {
		t.Fatal(err)
	}
	v := c.current.Load()
	leader := c.serverOf(v, shard)
	var follower *node
	v.servers(shard, func(n *node) bool {
		follower = n
		return n == leader
	})
	for _, n := range w.nodes {
		n.old.Store(true)
	}
	w.oldAsked = func() { c.leads(shard, leader) } // a write learns of it meanwhile
	c.leads(shard, follower)
	if o, err := c.ExemplarWriter(series.Sharding{Shards: testShards}).WriteExemplars(t.Context(), []series.Exemplar{e}); err != nil || o.Refused != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	if c.serverOf(v, shard) != leader {
		t.Error("a write of exemplars has made a node the leader that is none")
	}
	c.leads(shard, follower)
	if err := c.Exemplars(t.Context(), &scan.Selector{Shards: []uint16{shard}, MetricAny: true}, 0, 1, func(*series.Exemplar) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if c.serverOf(v, shard) != leader {
		t.Error("a query of exemplars has made a node the leader that is none")
	}
}

// TestExemplarWritesAtOnce: writes of exemplars leave calls to queries.
func TestExemplarWritesAtOnce(t *testing.T) {
	w := newWorld(t, 1, testShards)
	writer := w.open(Limits{WriteTimeout: waitBound}).ExemplarWriter(series.Sharding{Shards: testShards})
	some := []series.Exemplar{{Key: scantest.Key("", "m", "i", "1"), TimeMs: 1000}}
	for range exemplarWritesMax {
		writer.writes <- struct{}{}
	}
	if _, err := writer.WriteExemplars(t.Context(), some); !errors.Is(err, series.ErrOverloaded) {
		t.Fatal(err)
	}
	<-writer.writes
	for range 2 {
		if o, err := writer.WriteExemplars(t.Context(), some); err != nil || o.Kept != 1 {
			t.Fatalf("%+v, %v", o, err)
		}
	}
}

// leads reports whether a node leads a shard.
func (w *world) leads(node int, shard uint16) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leader[shard] == node
}
