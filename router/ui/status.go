package ui

import (
	"net/http"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// statusView is the state of the cluster as the page draws it. Times are Unix
// milliseconds, sizes bytes, durations milliseconds.
type statusView struct {
	TimeMs         int64       `json:"timeMs"`
	Cluster        string      `json:"cluster"`
	MapEpoch       uint64      `json:"mapEpoch"`
	Shards         uint32      `json:"shards"`
	Replication    uint32      `json:"replication"`
	StoreReachable bool        `json:"storeReachable"`
	Problems       []string    `json:"problems"`
	Restricted     bool        `json:"restricted"` // the caller may not see nodes, groups, moves and problems
	Nodes          []nodeView  `json:"nodes"`
	Groups         []groupView `json:"groups"` // by shard
	Moves          []moveView  `json:"moves"`
	MovesAhead     *aheadView  `json:"movesAhead,omitempty"`
}

type nodeView struct {
	Node           string `json:"node"`
	Zone           string `json:"zone"`
	Address        string `json:"address"`
	Version        string `json:"version"`
	Desired        string `json:"desired"` // "active", "draining", "gone"
	Alive          bool   `json:"alive"`
	DeadMs         uint64 `json:"deadMs"`
	Refusal        string `json:"refusal"`
	CapacityBytes  uint64 `json:"capacityBytes"`
	UsedBytes      uint64 `json:"usedBytes"`
	Leads          uint32 `json:"leads"`
	FullReplicas   uint32 `json:"fullReplicas"`
	Witnesses      uint32 `json:"witnesses"`
	Learners       uint32 `json:"learners"`
	SamplesApplied uint64 `json:"samplesApplied"` // since its process began
}

type groupView struct {
	Shard          uint32       `json:"shard"`
	Era            uint32       `json:"era"`
	Term           uint64       `json:"term"`
	Leader         string       `json:"leader"` // "": none is known
	CommitIndex    uint64       `json:"commitIndex"`
	Bytes          uint64       `json:"bytes"`
	LossesSurvived uint32       `json:"lossesSurvived"`
	Members        []memberView `json:"members"`
	Intended       []memberView `json:"intended,omitempty"`
	Recovery       string       `json:"recovery,omitempty"` // what is left of a shard without majority
}

type memberView struct {
	Node   string `json:"node"`
	Role   string `json:"role"` // "full", "witness", "learner"
	Active bool   `json:"active"`
	Lag    uint64 `json:"lag"` // committed entries that it is not known to have logged
}

type moveView struct {
	Shard          uint32 `json:"shard"`
	From           string `json:"from"` // "": a lost copy is rebuilt
	To             string `json:"to"`
	Phase          string `json:"phase"`
	DoneBytes      uint64 `json:"doneBytes"`
	TotalBytes     uint64 `json:"totalBytes"`
	RemainingMs    uint64 `json:"remainingMs"` // 0: not known
	BytesPerSecond uint64 `json:"bytesPerSecond"`
}

type aheadView struct {
	Moves       uint32 `json:"moves"`
	TotalBytes  uint64 `json:"totalBytes"`
	DoneBytes   uint64 `json:"doneBytes"`
	RemainingMs uint64 `json:"remainingMs"` // 0: not known
}

// status serves the state of the cluster. Who may not read all databases gets no nodes and
// groups.
func (h *handler) status(r *http.Request) (any, error) {
	v, err := h.snapshots.status.get(r.Context())
	if err != nil || seesNodes(r) {
		return v, err
	}
	return &statusView{
		TimeMs: v.TimeMs, Cluster: v.Cluster, StoreReachable: v.StoreReachable, Restricted: true,
		Problems: []string{}, Nodes: []nodeView{}, Groups: []groupView{}, Moves: []moveView{},
	}, nil
}

// seesNodes reports whether the caller may see what the cluster is made of.
func seesNodes(r *http.Request) bool {
	return access.Of(r.Context()).May(access.Everything, access.Read)
}

func viewStatus(s *tickmeshv1.GetStatusResponse, at time.Time) *statusView {
	v := &statusView{
		TimeMs: at.UnixMilli(), Cluster: s.GetCluster(), MapEpoch: s.GetMapEpoch(), Shards: s.GetShards(), Replication: s.GetReplication(),
		StoreReachable: s.GetStoreReachable(), Problems: append([]string{}, s.GetProblems()...),
		Nodes: make([]nodeView, 0, len(s.GetNodes())), Groups: make([]groupView, 0, len(s.GetShardStatuses())), Moves: make([]moveView, 0, len(s.GetMoves())),
	}
	for _, n := range s.GetNodes() {
		v.Nodes = append(v.Nodes, nodeView{
			Node: n.GetNode(), Zone: n.GetZone(), Address: n.GetAddress(), Version: n.GetVersion(), Desired: desiredName(n.GetDesired()),
			Alive: n.GetAlive(), DeadMs: n.GetDeadMs(), Refusal: n.GetRefusal(), CapacityBytes: n.GetCapacityBytes(), UsedBytes: n.GetUsedBytes(),
			Leads: n.GetLeads(), FullReplicas: n.GetFullReplicas(), Witnesses: n.GetWitnesses(), Learners: n.GetLearners(),
			SamplesApplied: n.GetSamplesApplied(),
		})
	}
	for _, g := range s.GetShardStatuses() {
		v.Groups = append(v.Groups, groupView{
			Shard: g.GetShard(), Era: g.GetEra(), Term: g.GetTerm(), Leader: g.GetLeader(), CommitIndex: g.GetCommitIndex(), Bytes: g.GetBytes(),
			LossesSurvived: g.GetLossesSurvived(), Members: viewMembers(g.GetMembers(), g.GetCommitIndex()),
			Intended: viewMembers(g.GetIntended(), 0), Recovery: recoveryText(g.GetRecovery()),
		})
	}
	for _, m := range s.GetMoves() {
		v.Moves = append(v.Moves, moveView{
			Shard: m.GetShard(), From: m.GetFromNode(), To: m.GetToNode(), Phase: m.GetPhase(), DoneBytes: m.GetDoneBytes(), TotalBytes: m.GetTotalBytes(),
			RemainingMs: m.GetRemainingMs(), BytesPerSecond: m.GetBytesPerSecond(),
		})
	}
	if a := s.GetMovesAhead(); a.GetMoves() > 0 {
		v.MovesAhead = &aheadView{Moves: a.GetMoves(), TotalBytes: a.GetTotalBytes(), DoneBytes: a.GetDoneBytes(), RemainingMs: a.GetRemainingMs()}
	}
	return v
}

// viewMembers returns how far each member is behind what is committed, as its leader knows.
func viewMembers(members []*tickmeshv1.ReplicaStatus, commit uint64) []memberView {
	views := make([]memberView, 0, len(members))
	for _, m := range members {
		view := memberView{Node: m.GetNode(), Role: roleName(m.GetRole()), Active: m.GetActive()}
		if match := m.GetMatchIndex(); match < commit {
			view.Lag = commit - match
		}
		views = append(views, view)
	}
	return views
}

func roleName(r tickmeshv1.ReplicaRole) string {
	switch r {
	case tickmeshv1.ReplicaRole_REPLICA_ROLE_WITNESS:
		return "witness"
	case tickmeshv1.ReplicaRole_REPLICA_ROLE_LEARNER:
		return "learner"
	case tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, tickmeshv1.ReplicaRole_REPLICA_ROLE_UNSPECIFIED:
	}
	return "full"
}

func desiredName(d tickmeshv1.DesiredState) string {
	switch d {
	case tickmeshv1.DesiredState_DESIRED_STATE_DRAINING:
		return "draining"
	case tickmeshv1.DesiredState_DESIRED_STATE_GONE:
		return "gone"
	case tickmeshv1.DesiredState_DESIRED_STATE_ACTIVE, tickmeshv1.DesiredState_DESIRED_STATE_UNSPECIFIED:
	}
	return "active"
}

// recoveryText returns what is to be done for a shard that has no majority.
func recoveryText(r *tickmeshv1.ShardRecovery) string {
	switch {
	case r == nil:
		return ""
	case r.GetAutomatic():
		return "goes on by itself soon, from the copy of " + r.GetBest()
	case r.GetBest() == "":
		return "no copy with data is there"
	case r.GetLost():
		return "no majority can come back; best copy: " + r.GetBest()
	}
	return "waits for nodes that may have more; best copy that is there: " + r.GetBest()
}
