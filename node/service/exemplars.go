package service

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/rpc"
)

// WriteExemplars implements rpc.Node. A node that keeps none answers as one that does not know the call: its word on a shard would be that
// of the shard's leader.
func (s *Service) WriteExemplars(ctx context.Context, parts []rpc.ShardExemplars) ([]rpc.ExemplarsWritten, error) {
	if !s.node.KeepsExemplars() {
		return nil, fmt.Errorf("%w: no exemplars are kept here", wire.ErrVersion)
	}
	own := make([]node.ShardExemplars, len(parts))
	for i := range parts {
		own[i] = node.ShardExemplars(parts[i])
	}
	outcomes, err := s.node.WriteExemplarParts(ctx, own)
	out := make([]rpc.ExemplarsWritten, len(parts))
	for i := range parts {
		out[i] = rpc.ExemplarsWritten{ShardEnd: rpc.ShardEnd{Shard: parts[i].Shard, Err: err}}
		if err == nil {
			out[i].Err, out[i].ExemplarOutcomes = ofShard(parts[i].Shard, outcomes[i].Err), outcomes[i].ExemplarOutcomes
		}
	}
	return out, nil
}

// ListExemplars implements rpc.Node.
func (s *Service) ListExemplars(ctx context.Context, request *rpc.ExemplarsRequest, sink rpc.ExemplarSink) error {
	before := s.livesOf(request.Selector.Shards)
	good, err := s.confirm(ctx, request.Selector.Shards, rpc.Freshness{}, sink.ShardEnd)
	if err != nil {
		return err
	}
	for _, shard := range good {
		var found []series.Exemplar
		found, err := s.node.ShardExemplars(ctx, shard, &request.Selector, request.FromMs, request.ToMs)
		if err != nil && ofRequest(ctx, err) {
			return err
		}
		for i := range found {
			if err := sink.Exemplar(shard, &found[i]); err != nil {
				return err
			}
		}
		if err := sink.ShardEnd(shard, before.check(s, shard, err)); err != nil {
			return err
		}
	}
	return nil
}
