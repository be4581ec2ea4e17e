package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// ClaimTemplate is what the StatefulSet makes volume claims from. Kubernetes does not let it
// change, so that the StatefulSet is made anew for other claims, and its pods stay.
type ClaimTemplate struct {
	Outdated bool   // its claims have another storage class than is asked for
	Ending   bool   // the StatefulSet is being deleted, to be made anew
	Problem  string // why no claims can be made as they are asked for; empty: they can
}

// good reports whether claims are made as they are asked for.
func (t ClaimTemplate) good() bool { return !t.Outdated && t.Problem == "" }

// outdatedVolumes returns the slots asked for whose claims are to be replaced, and of which others can
// be made, in the order in which they are: those first whose pods are not ready, as no shard moves for them.
func (d *decision) outdatedVolumes() (outdated []slot) {
	for _, g := range slices.Backward(d.groups) {
		for ordinal := g.Count - 1; ordinal >= 0 && g.ClaimTemplate.good(); ordinal-- {
			if claim := g.claim(ordinal); claim != nil && claim.Outdated {
				outdated = append(outdated, slot{g, ordinal})
			}
		}
	}
	slices.SortStableFunc(outdated, func(a, b slot) int {
		return cmp.Compare(oneIf(d.ready(a)), oneIf(d.ready(b)))
	})
	return outdated
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// ready reports whether a node has a pod that is ready and holds its lease.
func (d *decision) ready(s slot) bool {
	pod := s.pod()
	return pod != nil && pod.Ready && !pod.Terminating && d.live(s.node())
}

// replacesVolume reports whether a node is being emptied, or is empty, as its volume is to be
// replaced: it stays so until it has another one. A claim that is being deleted goes in any case;
// that of a spare node may be as it is. While no other volumes can be made, nodes are in use, and
// so they are for the first map: without it no volume that is there is replaced.
func (d *decision) replacesVolume(s slot) bool {
	claim := s.claim()
	if claim == nil || d.State.Desired[s.node()] != shardmap.Draining {
		return false
	}
	replaceable := s.group.ClaimTemplate.good() && (d.State.Map != nil || !claim.Bound)
	return claim.Outdated && s.isAsked() && replaceable || claim.Terminating
}

// begunVolumes returns those of the outdated volumes whose nodes are being emptied, or are empty.
func (d *decision) begunVolumes(outdated []slot) (begun []slot) {
	for _, s := range outdated {
		if d.replacesVolume(s) {
			begun = append(begun, s)
		}
	}
	return begun
}

// spareNodesMax bounds the nodes of a group that there are more than asked for while volumes are
// replaced: with one, shards of replication 2 get witnesses, which then need a place of their own.
const spareNodesMax = 2

// addSpareNodes decides how many more nodes than asked for there are to be for now: as many as it
// takes to empty one for another volume, in its group. They stay until the last volume of that is replaced.
func (d *decision) addSpareNodes() {
	outdated := d.outdatedVolumes()
	if len(outdated) == 0 || d.State.Map == nil {
		return
	}
	for _, s := range outdated {
		for g := s.group; g.wanted < g.Count+spareNodesMax && g.wanted < g.Replicas && !d.leaves(slot{g, g.wanted}); {
			g.wanted++
		}
	}
	emptied := d.begunVolumes(outdated)
	if begun := len(emptied) > 0; !begun {
		emptied = outdated[:1]
		if d.Closed || d.shardsMove() {
			return
		}
	}
	g := emptied[0].group
	if g.wanted == g.Count+spareNodesMax || d.unwell(emptied) != "" {
		return
	}
	var leaving []string
	for _, s := range d.told() {
		if node := s.node(); (!s.isWanted() || slices.Contains(emptied, s)) && (d.known(node) || d.named(node)) {
			leaving = append(leaving, node)
		}
	}
	d.desired = d.State.Desired
	if err := d.checkDrain(leaving); err != nil && !errors.Is(err, shardmap.ErrDrainStuck) {
		g.wanted++
	}
}

// leaves reports whether a node is drained, or gone.
func (d *decision) leaves(s slot) bool {
	desired := d.State.Desired[s.node()]
	return desired == shardmap.Draining || desired == shardmap.Gone
}

// judgeTemplates notes of which groups no volumes can be made as they are asked for now, and why.
func (d *decision) judgeTemplates() {
	for _, g := range d.groups {
		outdated := g.ClaimTemplate.Outdated
		for ordinal := range g.Count {
			claim := g.claim(ordinal)
			outdated = outdated || claim != nil && claim.Outdated
		}
		switch template := g.ClaimTemplate; {
		case !outdated:
		case template.Problem != "":
			d.plan.VolumesRefused = template.Problem
		case template.Ending:
			d.wait(ReasonReplacingVolume, "", "the StatefulSet "+g.Name+" is being made anew, for claims of another storage class")
		}
	}
}

// replaceVolumes replaces volumes that are not as they are asked for, one at a time: a node is
// emptied, its claim is deleted, and its pod, so that both are made anew; the node comes back
// empty, and the next one is begun when it is filled again.
func (d *decision) replaceVolumes() {
	d.judgeTemplates()
	outdated := slices.DeleteFunc(d.outdatedVolumes(), func(s slot) bool { return s.group.ClaimTemplate.Ending })
	if len(outdated) == 0 {
		return // for claim templates that are outdated see remakeSet
	}
	begun := d.begunVolumes(outdated)
	for _, s := range begun {
		d.replaceEmptied(s, len(outdated))
	}
	if len(begun) > 0 {
		return
	}
	if d.Closed {
		d.plan.VolumesDeferred = len(outdated)
		return
	}
	node, why := outdated[0].node(), ""
	switch {
	case d.State.Map != nil:
		if why = d.unwell(outdated[:1]); why == "" && d.shardsMove() {
			why = "shards are being moved"
		}
	case d.live(node): // the first map may name it at any moment
		why = "the cluster is not made yet"
	}
	if why == "" {
		why = d.unknownContents(outdated[0])
	}
	if why != "" {
		d.waitForVolume(node, len(outdated), why)
		return
	}
	d.drain([]string{node}, ReasonReplacingVolume)
}

// remakeSet has the StatefulSet made anew for other claims, when nothing else is to be done: its
// pods are then as its template says, and stay.
func (d *decision) remakeSet() {
	for _, g := range d.groups {
		template := g.ClaimTemplate
		if template.Outdated && !template.Ending && template.Problem == "" && !d.acts() && d.plan.Outdated == 0 {
			d.do(Action{Kind: RemakeSet, Reason: ReasonReplacingVolume, Group: g.Name})
		}
	}
}

// replaceEmptied deletes the claim of a node that is being emptied, once nothing is on it.
// What comes after that is replace's.
func (d *decision) replaceEmptied(s slot, outdated int) {
	node, claim := s.node(), s.claim()
	if claim.Terminating {
		return
	}
	why := d.restartBlocker(s)
	switch emptyForMs, counted := d.EmptyForMs[node]; {
	case d.named(node):
		why = fmt.Sprintf("%d shards are still on it", len(d.State.Map.MembersOn(node)))
	case !counted || emptyForMs < EmptyForMs:
		why = "it is empty, and has to stay so for a moment"
	case d.Closed:
		d.plan.VolumesDeferred = outdated
		return
	case d.Hold != "":
		why = d.Hold
	}
	if why == "" {
		why = d.unknownContents(s)
	}
	if pod := s.pod(); why == "" && pod != nil && pod.Terminating {
		why = "its pod is ending"
	}
	if why != "" {
		d.waitForVolume(node, outdated, why)
		return
	}
	d.deleteClaim(s, claim, ReasonReplacingVolume)
}

// unknownContents returns why nobody can say that nothing of value is on the volume of a node that
// no row names; "": it can be said. A cluster that is made again finds the volumes of the one
// before, and its store knows of their data only when the nodes have come up.
func (d *decision) unknownContents(s slot) string {
	switch claim := s.claim(); {
	case !claim.Bound:
		return ""
	case d.State.Map == nil:
		return "the cluster is not made yet, and there may be data on it"
	case !d.known(s.node()):
		return "its node has never joined, so there may be data on it that nobody knows of; delete its claim to give that up"
	}
	return ""
}

func (d *decision) waitForVolume(node string, outdated int, why string) {
	d.wait(ReasonReplacingVolume, node, fmt.Sprintf("its volume is to be replaced by one of another storage class, the first of %d: %s", outdated, why))
}

// unwell returns what has to come right with the other of some nodes before one is emptied for
// another volume; "": nothing.
func (d *decision) unwell(emptied []slot) string {
	for _, g := range d.groups {
		for ordinal := range g.wanted {
			s := slot{g, ordinal}
			if slices.Contains(emptied, s) {
				continue
			}
			if why := d.unwellAt(s); why != "" {
				return why
			}
		}
	}
	return d.restartBlocker(emptied[0])
}

func (d *decision) unwellAt(s slot) string {
	node, claim, pod := s.node(), s.claim(), s.pod()
	switch {
	case !s.isAsked() && pod != nil && pod.Machine == "":
		return node + " is to take over its shards meanwhile, as the other nodes cannot, and no machine has room for it: add one"
	case !d.ready(s):
		return node + " is not ready"
	case claim != nil && claim.Terminating:
		return "the volume claim of " + node + " is being deleted"
	}
	return ""
}
