package api

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// clusterService is the ClusterService.
type clusterService struct {
	tickmeshv1.UnimplementedClusterServiceServer
	s *Server
}

// GetServerInfo returns what the server can do.
func (c *clusterService) GetServerInfo(_ context.Context, m *tickmeshv1.GetServerInfoRequest) (*tickmeshv1.GetServerInfoResponse, error) {
	if m.GetApiLevel() < LevelMin {
		return nil, statusOf(fmt.Errorf("%w: the client is built for level %d of the API, %d is the lowest that is served", wire.ErrVersion, m.GetApiLevel(), LevelMin))
	}
	limits := &c.s.options.Limits
	return &tickmeshv1.GetServerInfoResponse{
		Version: c.s.options.Version, Cluster: c.s.options.ClusterName, ApiLevel: Level, ApiLevelMin: LevelMin,
		MessageBytesMax: uint32(limits.MessageBytesMax), HandlesMax: uint32(limits.HandlesMax), BatchesInFlightMax: BatchesInFlightMax,
	}, nil
}

// GetStatus returns nodes, shards and moves to whoever may read all databases.
func (c *clusterService) GetStatus(ctx context.Context, m *tickmeshv1.GetStatusRequest) (*tickmeshv1.GetStatusResponse, error) {
	if err := access.Check(ctx, access.Everything, access.Read); err != nil {
		return nil, statusOf(err)
	}
	status, err := c.s.options.Cluster.Status(ctx, m.GetWithoutShards())
	if err != nil {
		return nil, statusOf(err)
	}
	return status, nil
}

// Drain moves everything away from a node.
func (c *clusterService) Drain(ctx context.Context, m *tickmeshv1.DrainRequest) (*tickmeshv1.DrainResponse, error) {
	if err := access.Check(ctx, access.Everything, access.Admin); err != nil {
		return nil, statusOf(err)
	}
	if m.GetNode() == "" {
		return nil, statusOf(fmt.Errorf("%w: there is no node to drain", wire.ErrInvalid))
	}
	response, err := c.s.options.Cluster.Drain(ctx, m.GetNode(), m.GetDryRun())
	if err != nil {
		return nil, statusOf(err)
	}
	return response, nil
}

// forecastNodesMax bounds the nodes that a forecast names.
const forecastNodesMax = 1024

// Forecast returns what a change of the nodes would do, to whoever may read all databases.
func (c *clusterService) Forecast(ctx context.Context, m *tickmeshv1.ForecastRequest) (*tickmeshv1.ForecastResponse, error) {
	if n := len(m.GetDrained()) + len(m.GetUndrained()) + len(m.GetAdded()); n > forecastNodesMax {
		return nil, statusOf(fmt.Errorf("%w: a change of %d nodes, more than %d", wire.ErrInvalid, n, forecastNodesMax))
	}
	if err := access.Check(ctx, access.Everything, access.Read); err != nil {
		return nil, statusOf(err)
	}
	response, err := c.s.options.Cluster.Forecast(ctx, m)
	if err != nil {
		return nil, statusOf(err)
	}
	return response, nil
}

// Recover makes shards go on that have no majority.
func (c *clusterService) Recover(ctx context.Context, m *tickmeshv1.RecoverRequest) (*tickmeshv1.RecoverResponse, error) {
	if err := access.Check(ctx, access.Everything, access.Admin); err != nil {
		return nil, statusOf(err)
	}
	response, err := c.s.options.Cluster.Recover(ctx, m)
	if err != nil {
		return nil, statusOf(err)
	}
	return response, nil
}

// Undrain takes a drain back.
func (c *clusterService) Undrain(ctx context.Context, m *tickmeshv1.UndrainRequest) (*tickmeshv1.UndrainResponse, error) {
	if err := access.Check(ctx, access.Everything, access.Admin); err != nil {
		return nil, statusOf(err)
	}
	if m.GetNode() == "" {
		return nil, statusOf(fmt.Errorf("%w: there is no node to undrain", wire.ErrInvalid))
	}
	if err := c.s.options.Cluster.Undrain(ctx, m.GetNode()); err != nil {
		return nil, statusOf(err)
	}
	return &tickmeshv1.UndrainResponse{}, nil
}
