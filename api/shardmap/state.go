package shardmap

import "fmt"

// State is what planning looks at.
type State struct {
	Map          *Map                     // nil: none yet
	Nodes        map[string]NodeState     // all that are known, live or dead
	Desired      map[string]Desired       // a node that is not named is active
	Incarnations map[string][]Incarnation // the last one of a node registered last
	NowMs        int64
	// FirstNodeMs is since when there has been a live node without a map; 0: there is a map,
	// or no node.
	FirstNodeMs int64
}

// NodeState is what is known of a node.
type NodeState struct {
	NodeInfo          // as it was last; a node that was never seen has its id only
	DeadSinceMs int64 // 0: it is live
}

// Limits bound what planning may do.
type Limits struct {
	MovesMax        int     // rows with Intended at a time, those that cannot move not counted
	ReplaceAfterMs  int64   // a node dead for so long is replaced
	RetargetAfterMs int64   // a node dead for so long is given up as the target of a move
	UsedShareMax    float64 // of its capacity: a node fuller than that gets no more replicas
	Create          Creation
}

// Creation is what a cluster is created with.
type Creation struct {
	Cluster      string
	ID           string // Map.ID to be
	Settings     Settings
	InitialNodes int // so many must be live first; 0: one
	// LeastNodes are enough once WaitMs have passed since the first node came: nobody may
	// ever start more. 0: InitialNodes are waited for without an end.
	LeastNodes int
	WaitMs     int64
}

// VotersNeeded returns how many nodes a shard's copies need, and the witness that an even
// number of them needs for a majority without one.
func VotersNeeded(replication int) int { return replication + oneIf(replication%2 == 0) }

// Defaults of Limits.
const (
	MovesMaxDefault        = 8
	ReplaceAfterMsDefault  = 10 * 60 * 1000
	RetargetAfterMsDefault = 60 * 1000
	UsedShareMaxDefault    = 0.9
)

// DefaultLimits returns the limits of a cluster of which nothing special is known.
// Create is left empty: it creates nothing.
func DefaultLimits() Limits {
	return Limits{
		MovesMax: MovesMaxDefault, ReplaceAfterMs: ReplaceAfterMsDefault,
		RetargetAfterMs: RetargetAfterMsDefault, UsedShareMax: UsedShareMaxDefault,
	}
}

// Tracker turns a sequence of Views into States: it remembers nodes that are gone,
// and since when. After a start it counts from the first View.
type Tracker struct {
	nodes       map[string]NodeState
	firstNodeMs int64
}

// Observe returns the State at a time. Of a View with Err, which has nothing of
// liveness, it returns the nodes as they were known.
func (t *Tracker) Observe(view View, nowMs int64) State {
	if t.nodes == nil {
		t.nodes = map[string]NodeState{}
	}
	if view.Err == nil {
		t.enter(view, nowMs)
	}
	switch {
	case view.Map != nil || view.Err == nil && len(view.Nodes) == 0:
		t.firstNodeMs = 0
	case view.Err == nil && t.firstNodeMs == 0:
		t.firstNodeMs = max(nowMs, 1)
	}
	nodes := make(map[string]NodeState, len(t.nodes))
	for id, node := range t.nodes {
		nodes[id] = node
	}
	return State{
		Map: view.Map, Nodes: nodes, Desired: view.Desired, Incarnations: view.Incarnations, NowMs: nowMs, FirstNodeMs: t.firstNodeMs,
	}
}

func (t *Tracker) enter(view View, nowMs int64) {
	named := map[string]bool{}
	for id := range view.Incarnations {
		named[id] = true
	}
	if view.Map != nil {
		for _, row := range view.Map.Rows {
			for _, member := range row.Members {
				named[member.Node] = true
			}
			for _, member := range row.Intended {
				named[member.Node] = true
			}
		}
	}
	for id := range t.nodes {
		if _, live := view.Nodes[id]; !live && !named[id] {
			delete(t.nodes, id)
		}
	}
	for id := range named {
		if _, known := t.nodes[id]; !known {
			t.nodes[id] = NodeState{NodeInfo: NodeInfo{ID: id}, DeadSinceMs: nowMs}
		}
	}
	for id, node := range t.nodes {
		if _, live := view.Nodes[id]; !live && node.DeadSinceMs == 0 {
			node.DeadSinceMs = max(nowMs, 1)
			t.nodes[id] = node
		}
	}
	for id, info := range view.Nodes {
		t.nodes[id] = NodeState{NodeInfo: info}
	}
}

// StepKind describes what a Step does.
type StepKind string

// The kinds of Step.
const (
	StepCreate StepKind = "create" // write Map, the first one
	StepIntend StepKind = "intend" // give the row of Shard another Intended
	StepRetire StepKind = "retire" // retire Incarnation of Node
)

// Step is one change that placement makes.
type Step struct {
	Kind        StepKind
	Reason      Reason
	Map         *Map     // of StepCreate
	Shard       uint16   // of StepIntend
	Intended    []Member // of StepIntend; raft id 0: a new replica
	Node        string   // of StepRetire
	Incarnation string   // of StepRetire
}

// Reason describes why a step is made.
type Reason string

// The reasons.
const (
	ReasonCreate  Reason = "new cluster"
	ReasonRepair  Reason = "copies are missing"
	ReasonReplace Reason = "a node is dead, or has another disk"
	ReasonDrain   Reason = "a node is to be empty"
	ReasonSurplus Reason = "more copies than wanted"
	ReasonZones   Reason = "copies share a zone"
	ReasonBalance Reason = "nodes hold unlike numbers of shards"
	ReasonWitness Reason = "a witness is missing, or misplaced"
	ReasonReverse Reason = "the move is not wanted any more"
	ReasonRetire  Reason = "the node has another disk, or is gone"
)

// Apply returns the map after a step of kind StepCreate or StepIntend; m is nil
// before the first. Errors: ErrMap.
func (s Step) Apply(m *Map) (Map, error) {
	var next Map
	switch {
	case s.Kind == StepCreate && m == nil && s.Map != nil:
		next = s.Map.Clone()
	case s.Kind == StepIntend && m != nil && int(s.Shard) < len(m.Rows):
		next = m.WithRow(s.Shard, m.Rows[s.Shard].WithIntended(s.Intended))
	default:
		return Map{}, fmt.Errorf("%w: step %s cannot be applied", ErrMap, s.Kind)
	}
	return next, next.Validate()
}
