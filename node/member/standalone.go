package member

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// StandaloneName is what a standalone server calls itself as a cluster, and as its node.
const StandaloneName = "standalone"

// Standalone describes a standalone server in the shape of a cluster.
type Standalone struct {
	Node             *node.Node
	DataDir, Address string
}

// Status describes the one node, which leads all shards.
func (c *Standalone) Status(_ context.Context, withoutShards bool) (*tickmeshv1.GetStatusResponse, error) {
	shards := uint32(c.Node.Shards())
	capacity, used := process.DiskUsage(c.DataDir)
	self := &tickmeshv1.NodeStatus{
		Node: StandaloneName, Incarnation: c.Node.Incarnation(), Address: c.Address,
		Desired: tickmeshv1.DesiredState_DESIRED_STATE_ACTIVE, Alive: true,
		CapacityBytes: capacity, UsedBytes: used, Version: process.CurrentBuild().Version, Leads: shards, FullReplicas: shards,
		SamplesApplied: uint64(max(0, c.Node.SamplesApplied())),
	}
	status := &tickmeshv1.GetStatusResponse{
		Cluster: StandaloneName, Shards: shards, Replication: 1, Nodes: []*tickmeshv1.NodeStatus{self}, StoreReachable: true,
	}
	if err := c.Node.Health(); err != nil {
		self.Refusal = err.Error()
		status.Problems = []string{fmt.Sprintf("node %s takes no writes: %v", StandaloneName, err)}
	}
	status.Problems = append(status.Problems, c.Node.Problems()...)
	if withoutShards {
		return status, nil
	}
	for shard := range shards {
		status.ShardStatuses = append(status.ShardStatuses, &tickmeshv1.ShardStatus{
			Shard: shard, Leader: StandaloneName, Era: 1,
			Members: []*tickmeshv1.ReplicaStatus{{
				Node: StandaloneName, Incarnation: self.GetIncarnation(), RaftId: 1, Role: tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, Active: true,
			}},
		})
	}
	return status, nil
}

// Drain refuses: there is nowhere to move to.
func (c *Standalone) Drain(_ context.Context, node string, _ bool) (*tickmeshv1.DrainResponse, error) {
	if err := known(node); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s is the only node, its data has nowhere to go", wire.ErrRefused, StandaloneName)
}

// Forecast refuses: there is one node only, ever.
func (c *Standalone) Forecast(context.Context, *tickmeshv1.ForecastRequest) (*tickmeshv1.ForecastResponse, error) {
	return nil, fmt.Errorf("%w: a server of its own has one node only", wire.ErrRefused)
}

// Recover refuses: there are no copies to compare.
func (c *Standalone) Recover(context.Context, *tickmeshv1.RecoverRequest) (*tickmeshv1.RecoverResponse, error) {
	return nil, fmt.Errorf("%w: a server of its own always goes on with what it has", wire.ErrRefused)
}

// Undrain has nothing to take back.
func (c *Standalone) Undrain(_ context.Context, node string) error { return known(node) }

func known(node string) error {
	if node != StandaloneName {
		return fmt.Errorf("%w: there is no node %q, only %s", wire.ErrNotFound, node, StandaloneName)
	}
	return nil
}
