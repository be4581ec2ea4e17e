package rpc

import (
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TestHistory: marks reach the node, and come back with the ends of their shards.
func TestHistory(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	address, _ := serve(t, node, Options{})
	client := dial(t, address, nodeHello("b"))
	m, err := client.History(t.Context(), &nodev1.HistoryRequest{Since: []*nodev1.ShardMark{{Shard: 2, Run: 1 << 63, Index: 4}, {Shard: 5, Index: 6}, {Shard: 9}}})
	if err != nil || len(m.GetEnds()) != 3 || len(m.GetChanges()) != 2 {
		t.Fatalf("%v, %v", m, err)
	}
	first, last := m.GetChanges()[0], m.GetChanges()[1]
	if first.GetMark().GetShard() != 2 || first.GetMark().GetRun() != 1<<63+1 || first.GetMark().GetIndex() != 5 || first.GetLeastMs() != -4 || last.GetMark().GetShard() != 9 {
		t.Fatalf("%v", m)
	}
	for i, want := range []uint16{2, 5, 9} {
		shard, shardErr, err := wire.ToShardEnd(m.GetEnds()[i])
		if err != nil || shard != want || (shard == 5) != errors.Is(shardErr, series.ErrUnavailable) {
			t.Fatalf("end %d: shard %d, %v, %v", i, shard, shardErr, err)
		}
	}
	for _, bad := range [][]*nodev1.ShardMark{nil, {{Shard: 1 << 20}}, {{Shard: 3}, {Shard: 3}}} {
		if _, err := client.History(t.Context(), &nodev1.HistoryRequest{Since: bad}); !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
