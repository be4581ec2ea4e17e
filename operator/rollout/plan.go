package rollout

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// ActionKind describes what an Action does.
type ActionKind string

// The kinds of Action.
const (
	Desire      ActionKind = "desire"       // Store.SetDesired(Node, Desired)
	Retire      ActionKind = "retire"       // Store.Retire(Node, Incarnation)
	Scale       ActionKind = "scale"        // set the StatefulSet's replicas
	RemakeSet   ActionKind = "remake set"   // delete the StatefulSet and leave its pods: it is then created with other claims
	RemoveSet   ActionKind = "remove set"   // delete the StatefulSet, which has no pods
	DeletePod   ActionKind = "delete pod"   // with UID as the precondition
	MarkClaim   ActionKind = "mark claim"   // say by an annotation whether it is given up
	DeleteClaim ActionKind = "delete claim" // with UID as the precondition
)

// Action is one change. It can be made on its own, and made again.
type Action struct {
	Kind        ActionKind
	Reason      Reason
	Group       string           // of Scale, RemakeSet and RemoveSet: the name of the StatefulSet
	Node        string           // which is the pod, too
	Desired     shardmap.Desired // of Desire; "" forgets the node
	Incarnation string           // of Retire
	Replicas    int              // of Scale
	UID         string           // of DeletePod, MarkClaim and DeleteClaim
	Claim       string           // of MarkClaim and DeleteClaim: its name
	GivenUp     bool             // of MarkClaim
	Force       bool             // of DeletePod: its machine cannot say that it has ended
}

// Reason describes why an action is made or a wait goes on. It is a word for conditions.
type Reason string

// The reasons.
const (
	ReasonCreating    Reason = "Creating"
	ReasonScalingOut  Reason = "ScalingOut"
	ReasonScalingIn   Reason = "ScalingIn"
	ReasonDraining    Reason = "Draining"
	ReasonReactivated Reason = "Reactivated"
	ReasonUpdating    Reason = "Updating"
	ReasonMachineLost Reason = "MachineLost"
	ReasonVolumeLost  Reason = "VolumeLost"
	ReasonCleaning    Reason = "CleaningUp"

	ReasonReplacingVolume Reason = "ReplacingVolume"
)

// Refusal is a drain that is not begun, or that cannot go on.
type Refusal struct {
	Nodes []string
	Scale bool // it is a scale-in; else a drain by name
	Begun bool // it was begun, and waits with what is left; nodes by count and by name
	// Volume reports that the node is to be emptied for another volume.
	Volume bool
	Err    error
}

// Wait is something that is to be done and cannot be done yet.
type Wait struct {
	Reason Reason
	Node   string // empty: not about one
	Why    string
}

// Loss is a node whose machine or volume is lost.
type Loss struct {
	Node    string
	Reason  Reason // ReasonMachineLost or ReasonVolumeLost
	Machine string
	Named   int      // shards of which a replica is on it
	Shards  []uint16 // those that wait for it: without it they have no majority, or no complete copy
	Unknown bool     // nobody could say which
}

// Plan is what to do next.
type Plan struct {
	Actions  []Action // in this order; one that fails ends those of its node
	Refusals []Refusal
	Waits    []Wait
	Losses   []Loss
	Outdated int // pods made from an older template
	Deferred int // of these, pods that wait for a maintenance window
	// VolumesRefused describes why volumes are not replaced by such as are asked for; empty: they are.
	VolumesRefused string
	// VolumesDeferred is how many volumes are to be replaced, and wait for a maintenance window.
	VolumesDeferred int
	// Unknown are the nodes that are to be kept empty by name and that there are not.
	Unknown []string
}

// decision is a plan in the making.
type decision struct {
	*Facts
	groups    []*group
	toldSlots []slot // see told
	plan      Plan
	added     int // actions of the plan that add a group, which has no nodes yet
	// desired is what will be desired once the actions so far are made.
	desired map[string]shardmap.Desired
}

// acts reports whether the plan changes anything by now. That a group is added changes nothing for nodes,
// and may have to wait for them.
func (d *decision) acts() bool { return len(d.plan.Actions) > d.added }

func (d *decision) do(a Action) { d.plan.Actions = append(d.plan.Actions, a) }

func (d *decision) wait(reason Reason, node, why string) {
	d.plan.Waits = append(d.plan.Waits, Wait{reason, node, why})
}
