package client

import (
	"context"
	"strings"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Status is the state of the cluster as one router sees it.
type Status struct {
	Cluster        string   `json:"cluster"`
	MapEpoch       uint64   `json:"map_epoch"`
	Shards         uint32   `json:"shards"`
	Replication    uint32   `json:"replication"`
	StoreReachable bool     `json:"store_reachable"` // the placement store answers
	Problems       []string `json:"problems"`        // what a person should know or do, the worst first
	Nodes          []Node   `json:"nodes"`
	Moves          []Move   `json:"moves"`       // that are under way
	MovesAhead     Ahead    `json:"moves_ahead"` // those that have not begun included
	ShardStatuses  []Shard  `json:"shard_statuses,omitempty"`
}

// Node is one node.
type Node struct {
	Node          string `json:"node"`
	Incarnation   string `json:"incarnation"`
	Address       string `json:"address"`
	Zone          string `json:"zone"`
	Desired       string `json:"desired"` // active, draining or gone
	Alive         bool   `json:"alive"`
	DeadMs        uint64 `json:"dead_ms"` // since it was last seen alive, when it is not
	CapacityBytes uint64 `json:"capacity_bytes"`
	UsedBytes     uint64 `json:"used_bytes"`
	Version       string `json:"version"`
	Leads         uint32 `json:"leads"`
	FullReplicas  uint32 `json:"full_replicas"`
	Witnesses     uint32 `json:"witnesses"`
	Learners      uint32 `json:"learners"`
	Refusal       string `json:"refusal"` // why it takes no writes; empty: it does
}

// Shard is one shard.
type Shard struct {
	Shard          uint32    `json:"shard"`
	Version        uint64    `json:"version"`
	Era            uint32    `json:"era"`
	Leader         string    `json:"leader"`
	Term           uint64    `json:"term"`
	CommitIndex    uint64    `json:"commit_index"`
	Members        []Replica `json:"members"`
	Intended       []Replica `json:"intended,omitempty"`
	Bytes          uint64    `json:"bytes"`
	LossesSurvived uint32    `json:"losses_survived"`
}

// Replica is one member of a shard's group.
type Replica struct {
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	RaftID      uint64 `json:"raft_id"`
	Role        string `json:"role"` // full, witness or learner
	MatchIndex  uint64 `json:"match_index"`
	Active      bool   `json:"active"`
}

// Move is a replica on its way to a node.
type Move struct {
	Shard       uint32 `json:"shard"`
	FromNode    string `json:"from_node"` // empty: a lost copy is rebuilt
	ToNode      string `json:"to_node"`
	Phase       string `json:"phase"` // waiting, files or log
	DoneBytes   uint64 `json:"done_bytes"`
	TotalBytes  uint64 `json:"total_bytes"`
	RemainingMs uint64 `json:"remaining_ms"` // 0: not known
	// BytesPerSecond is its pace so far; 0: it has not begun.
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

// Ahead is what is left to do until every shard is where it should be.
type Ahead struct {
	Moves       uint32 `json:"moves"` // replicas to be made, witnesses among them
	DoneBytes   uint64 `json:"done_bytes"`
	TotalBytes  uint64 `json:"total_bytes"`
	RemainingMs uint64 `json:"remaining_ms"` // 0: not known
}

// DrainPlan is what a drain does.
type DrainPlan struct {
	Moves      []Move `json:"moves"`
	TotalBytes uint64 `json:"total_bytes"`
	DurationMs uint64 `json:"duration_ms"` // 0: not known
}

// ClusterName returns the name of the cluster.
func (c *Client) ClusterName(ctx context.Context) (name string, err error) {
	err = c.callOnce(ctx, func(ctx context.Context, e *endpoint) error {
		info, err := e.serverInfo(ctx, c.options.Name)
		name = info.GetCluster()
		return err
	})
	return name, err
}

// Status returns nodes and moves, and of shards unless they are left out.
func (c *Client) Status(ctx context.Context, withoutShards bool) (*Status, error) {
	var m *tickmeshv1.GetStatusResponse
	err := c.callOnce(ctx, func(ctx context.Context, e *endpoint) (err error) {
		m, err = tickmeshv1.NewClusterServiceClient(e.conn).GetStatus(ctx, &tickmeshv1.GetStatusRequest{WithoutShards: withoutShards})
		return errorOf(err)
	})
	if err != nil {
		return nil, err
	}
	s := &Status{
		Cluster: m.GetCluster(), MapEpoch: m.GetMapEpoch(), Shards: m.GetShards(), Replication: m.GetReplication(),
		StoreReachable: m.GetStoreReachable(), Problems: append([]string{}, m.GetProblems()...), Nodes: []Node{}, Moves: movesOf(m.GetMoves()),
	}
	a := m.GetMovesAhead()
	s.MovesAhead = Ahead{Moves: a.GetMoves(), DoneBytes: a.GetDoneBytes(), TotalBytes: a.GetTotalBytes(), RemainingMs: a.GetRemainingMs()}
	for _, n := range m.GetNodes() {
		s.Nodes = append(s.Nodes, nodeOf(n))
	}
	for _, shard := range m.GetShardStatuses() {
		s.ShardStatuses = append(s.ShardStatuses, Shard{
			Shard: shard.GetShard(), Version: shard.GetVersion(), Era: shard.GetEra(), Leader: shard.GetLeader(), Term: shard.GetTerm(),
			CommitIndex: shard.GetCommitIndex(), Members: replicasOf(shard.GetMembers()), Intended: replicasOf(shard.GetIntended()),
			Bytes: shard.GetBytes(), LossesSurvived: shard.GetLossesSurvived(),
		})
	}
	return s, nil
}

func nodeOf(n *tickmeshv1.NodeStatus) Node {
	desired := strings.ToLower(strings.TrimPrefix(n.GetDesired().String(), "DESIRED_STATE_"))
	if n.GetDesired() == tickmeshv1.DesiredState_DESIRED_STATE_UNSPECIFIED {
		desired = "active"
	}
	return Node{
		Node: n.GetNode(), Incarnation: n.GetIncarnation(), Address: n.GetAddress(), Zone: n.GetZone(), Desired: desired,
		Alive: n.GetAlive(), DeadMs: n.GetDeadMs(), CapacityBytes: n.GetCapacityBytes(), UsedBytes: n.GetUsedBytes(),
		Version: n.GetVersion(), Leads: n.GetLeads(), FullReplicas: n.GetFullReplicas(), Witnesses: n.GetWitnesses(),
		Learners: n.GetLearners(), Refusal: n.GetRefusal(),
	}
}

func replicasOf(list []*tickmeshv1.ReplicaStatus) []Replica {
	var replicas []Replica
	for _, r := range list {
		replicas = append(replicas, Replica{
			Node: r.GetNode(), Incarnation: r.GetIncarnation(), RaftID: r.GetRaftId(), MatchIndex: r.GetMatchIndex(), Active: r.GetActive(),
			Role: strings.ToLower(strings.TrimPrefix(r.GetRole().String(), "REPLICA_ROLE_")),
		})
	}
	return replicas
}

func movesOf(list []*tickmeshv1.Move) []Move {
	moves := []Move{}
	for _, m := range list {
		moves = append(moves, Move{
			Shard: m.GetShard(), FromNode: m.GetFromNode(), ToNode: m.GetToNode(), Phase: m.GetPhase(),
			DoneBytes: m.GetDoneBytes(), TotalBytes: m.GetTotalBytes(), RemainingMs: m.GetRemainingMs(),
			BytesPerSecond: m.GetBytesPerSecond(),
		})
	}
	return moves
}

// Drain moves everything away from a node, or only says what would be done. Errors:
// ErrNotFound, ErrRefused, with the reason, when copies or space would be lost.
func (c *Client) Drain(ctx context.Context, node string, dryRun bool) (*DrainPlan, error) {
	var m *tickmeshv1.DrainResponse
	err := c.callOnce(ctx, func(ctx context.Context, e *endpoint) (err error) {
		m, err = tickmeshv1.NewClusterServiceClient(e.conn).Drain(ctx, &tickmeshv1.DrainRequest{Node: node, DryRun: dryRun})
		return errorOf(err)
	})
	if err != nil {
		return nil, err
	}
	return &DrainPlan{Moves: movesOf(m.GetMoves()), TotalBytes: m.GetTotalBytes(), DurationMs: m.GetDurationMs()}, nil
}

// Undrain takes a drain back, also when it is under way. Errors: ErrNotFound.
func (c *Client) Undrain(ctx context.Context, node string) error {
	return c.callOnce(ctx, func(ctx context.Context, e *endpoint) error {
		_, err := tickmeshv1.NewClusterServiceClient(e.conn).Undrain(ctx, &tickmeshv1.UndrainRequest{Node: node})
		return errorOf(err)
	})
}
