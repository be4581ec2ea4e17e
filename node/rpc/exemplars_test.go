package rpc

import (
	"errors"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// TestExemplars: exemplars reach the node, and come back in messages that are no larger than others.
func TestExemplars(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	address, _ := serve(t, node, Options{})
	client := dial(t, address, nodeHello("b"))
	const count = 5000
	var part []byte
	for i := range int64(count) {
		part = series.AppendExemplar(part, &series.Exemplar{
			Key: series.AppendKey(nil, nil, []byte("m"), nil), TimeMs: i, Value: 1, Labels: []series.ExemplarLabel{{Name: "trace_id", Value: "0123456789abcdef0123456789abcdef"}},
		})
	}
	m, err := client.WriteExemplars(t.Context(), &nodev1.WriteExemplarsRequest{Parts: []*nodev1.ShardExemplars{{Shard: 2, Exemplars: part}, {Shard: 13, Exemplars: nil}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.GetEnds()) != 2 || m.GetEnds()[1].GetLeader() != "b" || !slices.Equal(m.GetKept(), []uint64{count / 2, 0}) || !slices.Equal(m.GetOutOfOrder(), []uint64{count / 2, 0}) || !slices.Equal(m.GetRefused(), []uint64{0, 0}) {
		t.Errorf("got %v", m)
	}
	for _, bad := range [][]*nodev1.ShardExemplars{nil, {{Shard: 2}, {Shard: 2}}, {{Shard: 1 << 16}}, {{Shard: 1, Exemplars: part[:20]}}} {
		if _, err := client.WriteExemplars(t.Context(), &nodev1.WriteExemplarsRequest{Parts: bad}); !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	stream, err := client.ListExemplars(t.Context(), &nodev1.ListExemplarsRequest{Selector: &tickmeshv1.Selector{}, Shards: []uint32{3, 5}, FromMs: 100, ToMs: count})
	if err != nil {
		t.Fatal(err)
	}
	var ended []uint32
	got := map[uint32][]series.Exemplar{}
	messages := 0
	if err := everything(t, stream, func(m *nodev1.ListExemplarsResponse) {
		messages++
		for _, p := range m.GetExemplars() {
			some, err := series.ReadExemplars(p.GetExemplars())
			if err != nil || len(p.GetExemplars()) > 2*flushBytes {
				t.Fatalf("%d bytes: %v", len(p.GetExemplars()), err)
			}
			got[p.GetShard()] = append(got[p.GetShard()], some...)
		}
		for _, e := range m.GetEnds() {
			ended = append(ended, e.GetShard())
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ended, []uint32{3, 5}) || len(got[3]) != count/2-50 || len(got[5]) != count/2-50 || got[3][0].TimeMs != 100 || messages < 4 {
		t.Errorf("%d messages, %d and %d exemplars, ended %v", messages, len(got[3]), len(got[5]), ended)
	}
}
