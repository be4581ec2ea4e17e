package rpc

import (
	"context"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TakeSnapshot takes a snapshot of shards that the node leads.
func (s *Server) TakeSnapshot(ctx context.Context, m *nodev1.TakeSnapshotRequest) (*nodev1.TakeSnapshotResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	shards, err := wire.ToShards(m.GetShards())
	if err != nil {
		return nil, wire.Status(err)
	}
	name, ends, err := s.node.TakeSnapshot(ctx, shards)
	if err != nil {
		return nil, wire.Status(err)
	}
	response := &nodev1.TakeSnapshotResponse{Name: name, Process: s.node.Hello().Process, Ends: make([]*nodev1.ShardEnd, len(ends))}
	for i, e := range ends {
		response.Ends[i] = wire.FromShardEnd(e.Shard, e.Err)
	}
	return response, nil
}

// EndSnapshot ends a snapshot.
func (s *Server) EndSnapshot(ctx context.Context, m *nodev1.EndSnapshotRequest) (*nodev1.EndSnapshotResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	if err := s.node.EndSnapshot(ctx, m.GetName()); err != nil {
		return nil, wire.Status(err)
	}
	return &nodev1.EndSnapshotResponse{}, nil
}
