package fanout

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// foldOf returns a call of a fold that asks a node for some shards.
func foldOf(t *testing.T, shards uint16, at *scan.Steps, limits Limits) *foldCall {
	limits.ResolverBytesMax = 1
	cluster := New(Options{Limits: limits})
	t.Cleanup(cluster.Close)
	n := &node{id: "a"}
	n.leaders.close() // there is no node to ask
	var reads []*shardRead
	for shard := range shards {
		reads = append(reads, &shardRead{shard: shard, node: n})
	}
	l := newShardList(cluster.Source(scan.Consistency{}), func([]*scan.Chunk) error { return nil })
	return newFoldCall(context.Background(), l, newGroup(n, reads...), &scan.Request{Steps: at})
}

// TestFoldedSamplesAreCounted: groups that are folded here count as rows do, also where a node sends a few
// bytes for each of many shards, one among the other, and ends none.
func TestFoldedSamplesAreCounted(t *testing.T) {
	const shards = 64
	at := &scan.Steps{LastMs: scan.StepsMax/2 - 1, StepMs: 1, RangeMs: scan.StepsMax, Function: scan.StepCount, Fold: &scan.Fold{Kind: scan.FoldMax}} // 16 bytes a step
	c := foldOf(t, shards, at, Limits{ReadBytesMax: 1 << 20})
	var err error
	for shard := uint32(0); shard < shards && err == nil; shard++ {
		err = c.take(&nodev1.ScanResponse{Chunks: []*nodev1.Chunk{{
			Shard: shard, Id: 1, Key: scantest.Key("", "m"), SeriesEnd: true, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Values: []float64{1}},
		}}})
	}
	var limit *scan.LimitError
	if !errors.As(err, &limit) || limit.What != "bytes" {
		t.Errorf("%d bytes are counted of %d groups: %v", c.list.bytesHeld.Load(), shards, err)
	}
}

// TestRowsAreCounted: a short row takes more than its columns.
func TestRowsAreCounted(t *testing.T) {
	at := &scan.Steps{StepMs: 1, RangeMs: 1, Function: scan.StepNewest, Fold: &scan.Fold{Kind: scan.FoldCount, Names: []string{"n"}}}
	c := foldOf(t, 1, at, Limits{})
	row := &nodev1.Chunk{Id: 1, Key: scantest.Key("", "", "n", "1"), Steps: true, Series: 1, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{0}, Counts: []int64{1}}}
	if err := c.take(&nodev1.ScanResponse{Chunks: []*nodev1.Chunk{row}}); err != nil {
		t.Fatal(err)
	}
	if held, most := c.list.bytesHeld.Load(), int64(unsafe.Sizeof(scan.Chunk{}))+int64(len(row.GetKey())+2*8); held < most {
		t.Errorf("%d bytes are counted, and at least %d held", held, most)
	}
}

// TestFoldBytesMax: rows that wait for the end of their shard have half of the request's bytes.
func TestFoldBytesMax(t *testing.T) {
	w := newWorld(t, 1, testShards)
	c := w.open(Limits{})
	w.fill(c, 40, 300)
	request := &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Limits: scan.Limits{BytesMax: 16_000}}
	request.Steps = &scan.Steps{LastMs: 300_000, StepMs: 3000, RangeMs: 60_000, Function: scan.StepNewest, Fold: &scan.Fold{Kind: scan.FoldMax, Names: []string{"n"}}}
	err := c.Source(scan.Consistency{}).Scan(t.Context(), request, func(int, *scan.Chunk) error { return nil })
	var limit *scan.LimitError
	if !errors.As(err, &limit) || limit.What != "bytes" {
		t.Errorf("more rows than the limit: %v", err)
	}
	request.Limits.BytesMax = 1 << 20
	if err := c.Source(scan.Consistency{}).Scan(t.Context(), request, func(int, *scan.Chunk) error { return nil }); err != nil {
		t.Error(err)
	}
}

// account notes what is charged at most.
type account struct{ held, top atomic.Int64 }

func (a *account) Take(bytes int64) error {
	held := a.held.Add(bytes)
	for top := a.top.Load(); held > top && !a.top.CompareAndSwap(top, held); {
		top = a.top.Load()
	}
	return nil
}

func (a *account) Await(_ context.Context, bytes int64) error { return a.Take(bytes) }

func (a *account) Turn() chan struct{} { return make(chan struct{}, 1) }

func (a *account) Give(bytes int64) { a.held.Add(-bytes) }

// TestHeldIsCharged: what waits for the end of its shard is charged, and what nodes send as samples until the values
// at steps are made of it.
func TestHeldIsCharged(t *testing.T) {
	w := newWorld(t, 1, testShards)
	c := w.open(Limits{})
	w.fill(c, 40, 300)
	request := &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	request.Steps = &scan.Steps{LastMs: 300_000, StepMs: 100, RangeMs: 60_000, Function: scan.StepNewest, Fold: &scan.Fold{Kind: scan.FoldMax, Names: []string{"n"}}}
	a := &account{}
	request.Limits.Account = a
	if err := c.Source(scan.Consistency{}).Scan(t.Context(), request, func(int, *scan.Chunk) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if a.top.Load() < 64<<10 || a.held.Load() != 0 {
		t.Errorf("rows: %d bytes were charged at most, %d are left", a.top.Load(), a.held.Load())
	}
	a = &account{}
	at := &scan.Steps{FirstMs: 1 << 20, LastMs: 1 << 20, StepMs: 1, RangeMs: 1 << 20, Function: scan.StepMax}
	e := newStepEvaluator(t.Context(), &scan.Request{Steps: at, Limits: scan.Limits{Account: a}})
	e.begin()
	m := &tickmeshv1.Columns{}
	for range 8 << 10 {
		m.TimeDeltasMs, m.Values = append(m.TimeDeltasMs, 1), append(m.Values, 1)
	}
	if err := e.add(m); err != nil {
		t.Fatal(err)
	}
	if a.top.Load() < 64<<10 {
		t.Errorf("samples: %d bytes were charged", a.top.Load())
	}
	if e.holds.Close(); a.held.Load() != 0 {
		t.Errorf("%d bytes are left", a.held.Load())
	}
}
