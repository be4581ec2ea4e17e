package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Forecast implements api.Cluster.
func (r *Cluster) Forecast(ctx context.Context, request *tickmeshv1.ForecastRequest) (*tickmeshv1.ForecastResponse, error) {
	view, err := r.options.Store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if view.Map == nil {
		return nil, fmt.Errorf("%w: there is no shard map yet", wire.ErrRefused)
	}
	reports := r.reports(ctx)
	rates := newMovement(view.Map, reports, leaders(reports)).rates()
	var tracker shardmap.Tracker
	state := tracker.Observe(view, time.Now().UnixMilli())
	if err := changeNodes(&state, request); err != nil {
		return nil, err
	}
	return forecastOf(state, r.limits, rates, request.GetDrained())
}

// changeNodes enters in a state which nodes there would be, but for those that are to be
// drained.
func changeNodes(s *shardmap.State, request *tickmeshv1.ForecastRequest) error {
	s.Desired, s.Incarnations = maps.Clone(s.Desired), maps.Clone(s.Incarnations)
	if s.Desired == nil {
		s.Desired = map[string]shardmap.Desired{}
	}
	if s.Incarnations == nil {
		s.Incarnations = map[string][]shardmap.Incarnation{}
	}
	for _, id := range request.GetUndrained() {
		if _, known := s.Nodes[id]; !known {
			return fmt.Errorf("%w: there is no node %q", wire.ErrNotFound, id)
		}
		s.Desired[id] = shardmap.Active
	}
	for i, n := range request.GetAdded() {
		info := shardmap.NodeInfo{
			ID: n.GetNode(), Zone: n.GetZone(), CapacityBytes: int64(n.GetCapacityBytes()),
			Incarnation: fmt.Sprintf("%032x", i+1), RPCAddress: "new:1",
		}
		if err := info.Validate(); err != nil {
			return fmt.Errorf("%w: a new node: %w", wire.ErrInvalid, err)
		}
		if old, known := s.Nodes[info.ID]; known && old.DeadSinceMs == 0 {
			return fmt.Errorf("%w: node %q is there already", wire.ErrInvalid, info.ID)
		}
		s.Nodes[info.ID] = shardmap.NodeState{NodeInfo: info}
		delete(s.Desired, info.ID) // what was said of one that had its name
	}
	return nil
}

// forecastOf returns what placement would do. A drain that would be refused is no error.
func forecastOf(s shardmap.State, l shardmap.Limits, r shardmap.Rates, drained []string) (*tickmeshv1.ForecastResponse, error) {
	forecast, err := shardmap.CheckDrain(s, l, r, drained...)
	response := &tickmeshv1.ForecastResponse{}
	if err != nil {
		var refused *shardmap.DrainError
		if !errors.As(err, &refused) || errors.Is(err, shardmap.ErrDrainNode) {
			return nil, fmt.Errorf("%w: %w", wire.ErrNotFound, err)
		}
		response.Refusal = err.Error()
		for _, shard := range refused.Shards {
			response.RefusedShards = append(response.RefusedShards, uint32(shard))
		}
	}
	response.TotalBytes, response.DurationMs = uint64(forecast.Bytes), uint64(forecast.Seconds)*1000
	response.UnderReplicated, response.WithoutWitness = uint32(forecast.UnderReplicated), uint32(forecast.WithoutWitness)
	for _, m := range forecast.Moves {
		response.Moves = append(response.Moves, &tickmeshv1.Move{Shard: uint32(m.Shard), ToNode: m.Member.Node, TotalBytes: uint64(m.Bytes), Phase: "planned"})
	}
	return response, nil
}
