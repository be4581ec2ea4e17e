package rollout

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Intervals and bounds of decisions.
const (
	// EmptyForMs is for how long placement must have named a node in no row before its
	// pod goes: a placement loop that has not heard of the drain yet has by then.
	EmptyForMs = 5_000
	// LagEntriesMax is by how many entries a copy may be behind what is committed and
	// still count as complete: under load the last few are always on their way.
	LagEntriesMax = 256
)

// Want is what the resource asks for.
type Want struct {
	Drained      map[string]bool // nodes to be kept empty, by name
	DeleteClaims bool            // volumes that scaling in leaves over are deleted
}

// Pod is the pod of one node.
type Pod struct {
	Ordinal     int
	UID         string
	Machine     string // empty: not scheduled
	Running     bool   // its container runs
	Ready       bool
	Terminating bool
	Outdated    bool // it was made from an older template than the present one
	Asked       bool // a person asks for its restart, whatever else its template has
}

// Claim is the volume claim of one node.
type Claim struct {
	Ordinal     int
	Name, UID   string
	Machine     string // the only machine that can mount the volume; empty: any
	Lost        bool   // its volume does not exist any more
	GivenUp     bool   // it is marked: its node's incarnation is being retired
	Terminating bool   // it is being deleted, and goes when no pod uses it
	Outdated    bool   // it was made for another storage class than is asked for
	Bound       bool   // it has a volume, and there may be data on it
}

// Machine is a machine of Kubernetes, which calls it a node.
type Machine struct {
	// NotReadySinceMs is since when it says nothing or is not well; 0: it is ready.
	NotReadySinceMs int64
	OutOfService    bool // a person has said so, by the taint node.kubernetes.io/out-of-service
}

// Replica is one member of a group as of its leader.
type Replica struct {
	shardmap.Member
	MatchIndex uint64
	Active     bool // the leader has heard from it within an election timeout
}

// Shard is the state of a group by its leader's account.
type Shard struct {
	Leader      string // node; empty: none is known, and the rest says nothing
	CommitIndex uint64
	Bytes       int64
	Members     []Replica
}

// Group is a group of nodes of one kind, which have a StatefulSet of their own.
type Group struct {
	Name     string // of the StatefulSet: pod i, and its node, are Name-i
	Count    int    // nodes that are asked for
	Leaves   bool   // it is not asked for any more, and goes when it is empty
	Replicas int    // what the StatefulSet is told; below 0: there is none
	Pods     []Pod
	Claims   []Claim
	// ClaimTemplate is what further claims are made from.
	ClaimTemplate ClaimTemplate
}

// Facts are what is looked at.
type Facts struct {
	NowMs  int64
	Want   Want
	Groups []Group // of which the last is restarted first
	// Machines by name. One that is not in it does not exist.
	Machines map[string]Machine

	State      shardmap.State // from Tracker
	EmptyForMs map[string]int64
	StoreErr   error   // why State is not of now; nil: it is
	Shards     []Shard // by number; nil: no router could be asked
	Limits     shardmap.Limits
	// Hold describes why no pod that runs is restarted now; empty: nothing is in the way.
	Hold string
	// Closed reports that no maintenance window is open: pods that run are restarted only when
	// they are Asked.
	Closed bool
}

// live reports whether a node holds its lease.
func (f *Facts) live(node string) bool {
	state, known := f.State.Nodes[node]
	return known && state.DeadSinceMs == 0
}

// known reports whether the store has ever heard of a node.
func (f *Facts) known(node string) bool {
	_, seen := f.State.Nodes[node]
	return seen || len(f.State.Incarnations[node]) > 0
}

// retired reports whether all data folders of a node are retired, and it had one.
func (f *Facts) retired(node string) bool {
	known := f.State.Incarnations[node]
	for _, incarnation := range known {
		if !incarnation.Retired {
			return false
		}
	}
	return len(known) > 0
}

// named reports whether a row has or intends a replica on a node.
func (f *Facts) named(node string) bool {
	return f.State.Map != nil && len(f.State.Map.MembersOn(node)) > 0
}

// machineGone reports whether a machine does not come back, as far as one can tell.
func (f *Facts) machineGone(name string) bool {
	machine, exists := f.Machines[name]
	if !exists || machine.OutOfService {
		return true
	}
	return machine.NotReadySinceMs > 0 && f.NowMs-machine.NotReadySinceMs >= f.Limits.ReplaceAfterMs
}
