package report

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// refused returns what is refused, and what to do.
func (f *Facts) refused(r rollout.Refusal) verdict {
	what, undo := "drain", "take its name from spec.nodes.drained"
	reason := reasonDrainRefused
	if r.Scale || r.Begun && f.Nodes.Replicas > int(f.Cluster.Spec.Nodes.Count) {
		what, undo, reason = "scale-in", fmt.Sprintf("set spec.nodes.count back to %d", f.Nodes.Replicas), reasonScaleRefused
	}
	if r.Volume {
		what, reason = "drain for a volume of another storage class", reasonReplaceRefused
		undo = "add nodes or space, or set spec.nodes.storage.storageClassName back"
	}
	begun := "it is not begun"
	if r.Begun {
		begun = "it cannot go on"
	}
	return no(reason, fmt.Sprintf("%s of %s: %s: %v; %s, or wait until it is possible: it is tried again", what, strings.Join(r.Nodes, ", "), begun, errText(r.Err), undo))
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
