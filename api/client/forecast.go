package client

import (
	"context"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Change is a change of the nodes: all of it at once.
type Change struct {
	Drained   []string // nodes that would be drained
	Undrained []string // nodes whose drain would be taken back
	Added     []NewNode
}

// NewNode is a node that is not there yet.
type NewNode struct {
	Node          string
	Zone          string // empty: a zone of its own
	CapacityBytes uint64 // of its disk; 0: not known
}

// Forecast is what would be done until nothing is left to do, moves that are under way
// included, if nothing else happened.
type Forecast struct {
	Moves           []Move   `json:"moves"` // copies and witnesses that would be made; FromNode is not told
	TotalBytes      uint64   `json:"total_bytes"`
	DurationMs      uint64   `json:"duration_ms"`      // at the present bounds; 0: not known
	Refusal         string   `json:"refusal"`          // why the drains would be refused, all together; empty: they would not
	RefusedShards   []uint32 `json:"refused_shards"`   // those that are the reason, if it is shards
	UnderReplicated uint32   `json:"under_replicated"` // shards that would have too few full copies at the end
	WithoutWitness  uint32   `json:"without_witness"`  // of a cluster with two copies: shards that would have no witness
}

// Forecast returns what a change of the nodes would do. Nothing is changed. Errors:
// ErrNotFound for a node that is not known, ErrInvalid for a new one that is there.
func (c *Client) Forecast(ctx context.Context, change Change) (*Forecast, error) {
	request := &tickmeshv1.ForecastRequest{Drained: change.Drained, Undrained: change.Undrained}
	for _, n := range change.Added {
		request.Added = append(request.Added, &tickmeshv1.NewNode{Node: n.Node, Zone: n.Zone, CapacityBytes: n.CapacityBytes})
	}
	var m *tickmeshv1.ForecastResponse
	err := c.callOnce(ctx, func(ctx context.Context, e *endpoint) (err error) {
		m, err = tickmeshv1.NewClusterServiceClient(e.conn).Forecast(ctx, request)
		return errorOf(err)
	})
	if err != nil {
		return nil, err
	}
	return &Forecast{
		Moves: movesOf(m.GetMoves()), TotalBytes: m.GetTotalBytes(), DurationMs: m.GetDurationMs(), Refusal: m.GetRefusal(),
		RefusedShards: append([]uint32{}, m.GetRefusedShards()...), UnderReplicated: m.GetUnderReplicated(), WithoutWitness: m.GetWithoutWitness(),
	}, nil
}
