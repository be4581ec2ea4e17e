package rollout

import (
	"slices"
	"strconv"
	"strings"
)

// NodeName returns the name of the pod, and of the node, with an ordinal.
func (g *Group) NodeName(ordinal int) string { return g.Name + "-" + strconv.Itoa(ordinal) }

// ordinalOf is the reverse of NodeName.
func (g *Group) ordinalOf(node string) (int, bool) {
	digits, ok := strings.CutPrefix(node, g.Name+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	return ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits
}

func (g *Group) pod(ordinal int) *Pod {
	for i := range g.Pods {
		if g.Pods[i].Ordinal == ordinal {
			return &g.Pods[i]
		}
	}
	return nil
}

func (g *Group) claim(ordinal int) *Claim {
	for i := range g.Claims {
		if g.Claims[i].Ordinal == ordinal {
			return &g.Claims[i]
		}
	}
	return nil
}

// topPod returns 1 + the highest ordinal of a pod.
func (g *Group) topPod() (top int) {
	for i := range g.Pods {
		top = max(top, g.Pods[i].Ordinal+1)
	}
	return top
}

// group is a group of nodes in a decision.
type group struct {
	Group
	// wanted is how many nodes there are to be for now: more than Count while volumes are replaced.
	wanted int
	target int // pods that there have to be
	isMade bool
}

// slot is a place for a node: a group, and an ordinal in it.
type slot struct {
	group   *group
	ordinal int
}

func (s slot) node() string  { return s.group.NodeName(s.ordinal) }
func (s slot) pod() *Pod     { return s.group.pod(s.ordinal) }
func (s slot) claim() *Claim { return s.group.claim(s.ordinal) }

// isAsked reports whether the node is asked for, and no spare one.
func (s slot) isAsked() bool { return s.ordinal < s.group.Count }

// isWanted reports whether the node is to be there for now.
func (s slot) isWanted() bool { return s.ordinal < s.group.wanted }

// groupsOf returns the groups of facts, for a decision to change.
func groupsOf(f *Facts) []*group {
	groups := make([]*group, 0, len(f.Groups))
	for i := range f.Groups {
		groups = append(groups, &group{Group: f.Groups[i], wanted: f.Groups[i].Count, isMade: f.Groups[i].Replicas >= 0})
	}
	return groups
}

// pods calls a function for each pod of all groups, until it returns false.
func (d *decision) pods(yield func(slot, *Pod) bool) {
	for _, g := range d.groups {
		for i := range g.Pods {
			if !yield(slot{g, g.Pods[i].Ordinal}, &g.Pods[i]) {
				return
			}
		}
	}
}

// told returns the slots whose pods StatefulSets are told to have, by groups and ordinals.
func (d *decision) told() []slot {
	if d.toldSlots == nil {
		for _, g := range d.groups {
			for ordinal := range max(g.Replicas, 0) {
				d.toldSlots = append(d.toldSlots, slot{g, ordinal})
			}
		}
	}
	return d.toldSlots
}

// slots returns those that anything is known of, by groups and ordinals.
func (d *decision) slots() (all []slot) {
	for _, g := range d.groups {
		for ordinal := range d.ordinals(g) {
			all = append(all, slot{g, ordinal})
		}
	}
	return all
}

// slotOf returns the slot of a node; false: it is of no group.
func (d *decision) slotOf(node string) (slot, bool) {
	for _, g := range d.groups {
		if ordinal, ok := g.ordinalOf(node); ok {
			return slot{g, ordinal}, true
		}
	}
	return slot{}, false
}

// ordinalsMax bounds the ordinals that are looked at.
const ordinalsMax = 1024

// ordinals returns 1 + the highest ordinal of a group that anything is known of.
func (d *decision) ordinals(g *group) int {
	top := max(g.Replicas, g.wanted, g.topPod())
	for i := range g.Claims {
		top = max(top, g.Claims[i].Ordinal+1)
	}
	enter := func(node string) {
		if ordinal, ok := g.ordinalOf(node); ok && ordinal < ordinalsMax {
			top = max(top, ordinal+1)
		}
	}
	for node := range d.State.Nodes {
		enter(node)
	}
	for node := range d.State.Desired {
		enter(node)
	}
	return min(top, ordinalsMax)
}

// make makes the StatefulSets that there are none of, and reports whether that comes first: pods that are
// there stay until they are empty, as the StatefulSet may have been made anew. That of a group which
// is added to a cluster begins with no pod, since volumes of an earlier group of its name may have to go
// before. One of a group that is not asked for, and has no pod, is not made.
func (d *decision) make() (first bool) {
	fresh := !slices.ContainsFunc(d.groups, func(g *group) bool { return g.isMade })
	for _, g := range d.groups {
		replicas := max(g.Count, g.topPod())
		switch {
		case g.isMade:
		case replicas == 0:
			g.Replicas = 0
		case fresh || len(g.Pods) > 0:
			d.do(Action{Kind: Scale, Reason: ReasonCreating, Group: g.Name, Replicas: replicas})
			first = true
		default:
			d.do(Action{Kind: Scale, Reason: ReasonCreating, Group: g.Name})
			g.Replicas = 0
			d.added++
		}
	}
	return first
}

// removeSets deletes the StatefulSets of groups that are not asked for any more and are empty, when nothing
// else is to be done.
func (d *decision) removeSets() {
	for _, g := range d.groups {
		if g.Leaves && g.isMade && g.Replicas == 0 && len(g.Pods) == 0 && !g.ClaimTemplate.Ending && !d.acts() {
			d.do(Action{Kind: RemoveSet, Reason: ReasonCleaning, Group: g.Name})
		}
	}
}
