package report

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// refused returns what is refused, and what to do.
func (f *Facts) refused(r rollout.Refusal) verdict {
	what, undo := "drain", "take its name from spec.nodes.drained"
	reason := reasonDrainRefused
	if counts := f.countsBefore(); r.Scale || r.Begun && counts != "" {
		what, undo, reason = "scale-in", counts, reasonScaleRefused
	}
	if r.Volume {
		what, reason = "drain for a volume of another storage class", reasonReplaceRefused
		undo = "add nodes or space, or set the storageClassName back"
	}
	begun := "it is not begun"
	if r.Begun {
		begun = "it cannot go on"
	}
	return no(reason, fmt.Sprintf("%s of %s: %s: %v; %s, or wait until it is possible: it is tried again", what, strings.Join(r.Nodes, ", "), begun, errText(r.Err), undo))
}

// countsBefore returns how the spec would ask for the nodes again that are to leave; empty: none is.
func (f *Facts) countsBefore() string {
	var undo []string
	for _, group := range slices.Sorted(maps.Keys(f.Nodes.Told)) {
		told := f.Nodes.Told[group]
		asked, ok := f.Cluster.Spec.NodesOf(group)
		switch {
		case told <= int(asked.Count):
		case group == "":
			undo = append(undo, fmt.Sprintf("set spec.nodes.count back to %d", told))
		case ok:
			undo = append(undo, fmt.Sprintf("set the count of %s in spec.nodeGroups back to %d", group, told))
		default:
			undo = append(undo, fmt.Sprintf("put %s with a count of %d back into spec.nodeGroups", group, told))
		}
	}
	return strings.Join(undo, ", ")
}

// errText leaves out the nodes, which were just named.
func errText(err error) string {
	var drain *shardmap.DrainError
	if !errors.As(err, &drain) {
		return err.Error()
	}
	if len(drain.Shards) == 0 {
		return drain.Kind.Error()
	}
	return fmt.Sprintf("%v (%d shards: %s)", drain.Kind, len(drain.Shards), shortList(drain.Shards))
}
