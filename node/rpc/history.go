package rpc

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// History returns which times of some shards have changed.
func (s *Server) History(ctx context.Context, m *nodev1.HistoryRequest) (*nodev1.HistoryResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	since, err := toMarks(m.GetSince())
	if err != nil {
		return nil, wire.Status(err)
	}
	changes, ends, err := s.node.History(ctx, since)
	if err != nil {
		return nil, wire.Status(err)
	}
	response := &nodev1.HistoryResponse{Changes: make([]*nodev1.ShardChange, len(changes)), Ends: make([]*nodev1.ShardEnd, len(ends))}
	for i, c := range changes {
		response.Changes[i] = &nodev1.ShardChange{Mark: &nodev1.ShardMark{Shard: uint32(c.Shard), Run: c.Run, Index: c.Index}, LeastMs: c.LeastMs}
	}
	for i, e := range ends {
		response.Ends[i] = wire.FromShardEnd(e.Shard, e.Err)
	}
	return response, nil
}

// toMarks checks that there are marks, in growing order of shards. Error: wire.ErrInvalid.
func toMarks(marks []*nodev1.ShardMark) ([]scan.Mark, error) {
	numbers := make([]uint32, len(marks))
	for i, m := range marks {
		numbers[i] = m.GetShard()
	}
	shards, err := wire.ToShards(numbers)
	if err != nil {
		return nil, err
	}
	out := make([]scan.Mark, len(marks))
	for i, m := range marks {
		out[i] = scan.Mark{Shard: shards[i], Run: m.GetRun(), Index: m.GetIndex()}
	}
	return out, nil
}
