package fanout

import (
	"context"
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// TestFoldedSamplesAreCounted: groups that are folded here count as rows do, also where a node sends a few
// bytes for each of many shards, one among the other, and ends none.
func TestFoldedSamplesAreCounted(t *testing.T) {
	const shards = 64
	cluster := New(Options{Limits: Limits{ResolverBytesMax: 1, ReadBytesMax: 1 << 20}})
	t.Cleanup(cluster.Close)
	n := &node{id: "a"}
	n.leaders.close() // there is no node to ask
	var reads []*shardRead
	for shard := range uint16(shards) {
		reads = append(reads, &shardRead{shard: shard, node: n})
	}
	l := newShardList(cluster.Source(scan.Consistency{}), func([]*scan.Chunk) error { return nil })
	at := &scan.Steps{LastMs: scan.StepsMax/2 - 1, StepMs: 1, RangeMs: scan.StepsMax, Function: scan.StepCount, Fold: &scan.Fold{Kind: scan.FoldMax}}
	c := newFoldCall(context.Background(), l, newGroup(n, reads...), &scan.Request{Steps: at}) // 16 bytes a step
	var err error
	for shard := uint32(0); shard < shards && err == nil; shard++ {
		err = c.take(&nodev1.ScanResponse{Chunks: []*nodev1.Chunk{{
			Shard: shard, Id: 1, Key: scantest.Key("", "m"), SeriesEnd: true, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Values: []float64{1}},
		}}})
	}
	var limit *scan.LimitError
	if !errors.As(err, &limit) || limit.What != "bytes" {
		t.Errorf("%d bytes are counted of %d groups: %v", l.bytesHeld.Load(), shards, err)
	}
}
