package fanout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/router/query/cache"
)

// History returns what a fake shard knows; each node is a run of its own.
func (n *fakeNode) History(_ context.Context, since []scan.Mark) (changes []scan.Change, ends []rpc.ShardEnd, err error) {
	if n.old.Load() {
		return nil, nil, wire.ErrVersion
	}
	for _, m := range since {
		end := rpc.ShardEnd{Shard: m.Shard, Err: n.serves(m.Shard, 0)}
		if end.Err == nil {
			s := n.world.shards[m.Shard]
			s.mu.Lock()
			change := scan.Change{Mark: scan.Mark{Shard: m.Shard, Run: uint64(n.index) + 1, Index: uint64(len(s.least))}, LeastMs: scan.ChangedAll}
			if m.Run == change.Run {
				change.LeastMs = slices.Min(append(slices.Clone(s.least[m.Index:]), scan.ChangedNothing))
			}
			s.mu.Unlock()
			changes = append(changes, change)
		}
		ends = append(ends, end)
	}
	return changes, ends, nil
}

// Each shard is told of once and in order, whatever nodes are asked for it, and the mark
// that was given for it has reached its leader.
func TestHistory(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	source := c.Source(scan.Consistency{})
	w.fill(c, 40, 3)
	ctx := context.Background()
	first, err := source.History(ctx, nil, nil)
	if err != nil || len(first) != testShards {
		t.Fatalf("%v, %v", first, err)
	}
	var marks []scan.Mark
	for shard, change := range first {
		if want := uint64(shard%3) + 1; int(change.Shard) != shard || change.Run != want || change.LeastMs != scan.ChangedAll {
			t.Fatalf("%+v, want run %d", change, want)
		}
		marks = append(marks, change.Mark)
	}
	w.setFaults(faults{refuse: 3, hideLeader: 3})
	asked := []uint16{1, 4, 7}
	late := scantest.Key("", "late")
	if err := w.put(c, late, series.Sample{TimeMs: -5}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := source.History(ctx, asked, marks)
		if err != nil || len(again) != len(asked) {
			t.Fatalf("%v, %v", again, err)
		}
		for i, change := range again {
			want := int64(scan.ChangedNothing)
			if asked[i] == late.Shard(testShards) {
				want = -5
			}
			if change.Shard != asked[i] || change.LeastMs != want {
				t.Fatalf("%+v, want %d", change, want)
			}
		}
	}
	w.setFaults(faults{})
	w.nodes[1].old.Store(true)
	mixed, err := source.History(ctx, nil, marks)
	if err != nil || len(mixed) != testShards {
		t.Fatalf("%v, %v", mixed, err)
	}
	for _, change := range mixed {
		if known := change.Run != 0; known != (change.Shard%3 != 1) || !known && change.LeastMs != scan.ChangedAll {
			t.Fatalf("with an old node: %+v", change)
		}
	}
}

// TestCacheOverCluster: the answers of a cache are those of the samples that were written,
// while leaders move, nodes refuse and connections break.
func TestCacheOverCluster(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, ReadTimeout: waitBound, WriteTimeout: waitBound})
	nowMs := &atomic.Int64{}
	registry := prometheus.NewRegistry()
	kept := cache.New(cache.Options{Registerer: registry, Bytes: 1 << 20, FinalAfter: time.Nanosecond, WindowsMin: 2, Clock: func() time.Time { return time.UnixMilli(nowMs.Load()) }})
	cached, memory := kept.Source(c.Source(scan.Consistency{})), scantest.NewMemory()
	ctx := context.Background()
	for round := range 120 {
		if round%30 == 10 {
			w.setFaults([]faults{{}, {move: 40}, {refuse: 6, hideLeader: 4}, {cut: 60, move: 100}}[round/30])
		}
		at := nowMs.Add(random.Int64N(3000))
		for range 6 {
			key, sample := scantest.Key("", "m", "n", fmt.Sprint(random.IntN(10))), series.Sample{TimeMs: at - random.Int64N(1000), Value: random.Float64()}
			if random.IntN(15) == 0 {
				sample.TimeMs -= random.Int64N(100_000)
			}
			if err := w.put(c, key, sample); err != nil {
				t.Fatal(err)
			}
			if err := memory.Put(key, sample); err != nil {
				t.Fatal(err)
			}
		}
		request := scan.Request{
			Selector: scan.Selector{Metric: "m"}, FromMs: at - 60_000, ToMs: at, Parallel: random.IntN(4),
			Windows: &scan.Windows{WidthMs: 1000, Aggregates: scan.AggregateSum | scan.AggregateCount},
		}
		got, err := scantest.Collect(ctx, cached, &request)
		if err != nil {
			t.Fatal(err)
		}
		want, err := scantest.Collect(ctx, memory, &request)
		if err != nil || len(got) != len(want) {
			t.Fatalf("round %d: %d series, want %d; %v", round, len(got), len(want), err)
		}
		for key, chunk := range want {
			if g := got[key]; g == nil || !slices.Equal(g.Times, chunk.Times) || !slices.Equal(g.Sum, chunk.Sum) || !slices.Equal(g.Count, chunk.Count) {
				t.Fatalf("round %d, %v: %+v, want %+v", round, series.Key(key), g, chunk)
			}
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if n := family.GetMetric()[0].GetCounter().GetValue(); family.GetName() == "tickmesh_query_cache_hits_total" && n < 20 {
			t.Fatalf("%g hits: the test tests little", n)
		}
	}
}
