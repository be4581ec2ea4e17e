package rpc

import (
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TestSnapshot: shards reach the node, and its answer the caller, with the process that holds the snapshot.
func TestSnapshot(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	address, _ := serve(t, node, Options{})
	client := dial(t, address, nodeHello("b"))
	m, err := client.TakeSnapshot(t.Context(), &nodev1.TakeSnapshotRequest{Shards: []uint32{2, 13}})
	if err != nil {
		t.Fatal(err)
	}
	if m.GetName() != "kept" || m.GetProcess() != node.hello.Process || len(m.GetEnds()) != 2 || m.GetEnds()[0].GetError() != nil || m.GetEnds()[1].GetLeader() != "b" {
		t.Errorf("got %v", m)
	}
	for _, bad := range [][]uint32{nil, {2, 2}, {3, 1}, {1 << 16}} {
		if _, err := client.TakeSnapshot(t.Context(), &nodev1.TakeSnapshotRequest{Shards: bad}); !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("shards %v: %v", bad, err)
		}
	}
	if _, err := client.EndSnapshot(t.Context(), &nodev1.EndSnapshotRequest{Name: "kept"}); err != nil {
		t.Error(err)
	}
}
