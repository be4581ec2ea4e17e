// Package bootstrap decides how a new cluster is filled from a backup. It is pure.
//
// Rules that every plan keeps:
//
//	B1  A backup is restored only into a cluster that was found without nodes and volumes, and that
//	    was written down before any were made. One that had some is never filled, whatever becomes
//	    of its status.
//	B2  It is restored once: what is complete stays so. Only a restore that failed, and that a
//	    person has deleted, is made again.
//	B3  Clients are let in when it is complete, or when a person says that it is not wanted.
package bootstrap

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Facts are the input of Decide.
type Facts struct {
	Asked bool                    // spec.bootstrap names a backup
	Phase v1alpha1.BootstrapPhase // as the status has it
	// Fresh reports that the cluster has no nodes and no volumes of any, and never had a shard map.
	Fresh bool
	// Serves reports that all shards of it take writes.
	Serves bool
	// Skipped reports that a person does not want the backup any more.
	Skipped bool
	// Name is that of the restore, and Restore what there is of it; nil: nothing.
	Name    string
	Restore *v1alpha1.TickMeshRestore
	// Unknown is the reason why it is not known what there is of it; nil: it is.
	Unknown error
}

// Plan describes how far the cluster is.
type Plan struct {
	Phase   v1alpha1.BootstrapPhase // empty: nothing is asked for
	Create  bool                    // the restore is to be made
	Message string
}

// Closed reports whether clients are kept out.
func (p *Plan) Closed() bool {
	switch p.Phase {
	case v1alpha1.BootstrapPending, v1alpha1.BootstrapRestoring, v1alpha1.BootstrapFailed:
		return true
	case v1alpha1.BootstrapComplete, v1alpha1.BootstrapSkipped:
	}
	return false
}

// Decide returns the Plan that keeps the rules B1 to B3.
func Decide(f Facts) Plan {
	switch {
	case !f.Asked:
		return Plan{}
	case f.Phase == v1alpha1.BootstrapComplete:
		return Plan{Phase: f.Phase, Message: "the backup was restored"}
	case f.Phase == "" && !f.Fresh:
		return Plan{Phase: v1alpha1.BootstrapSkipped, Message: "there were nodes or their volumes before, so the backup is not restored: a TickMeshRestore does that"}
	case f.Phase == v1alpha1.BootstrapSkipped:
		return Plan{Phase: f.Phase, Message: "the backup is not restored: there were nodes or volumes before, or a person has said so"}
	case f.Skipped:
		return Plan{Phase: v1alpha1.BootstrapSkipped, Message: "the backup is not restored, as the annotation " + v1alpha1.AnnotationBootstrap + " says"}
	case f.Unknown != nil:
		return Plan{Phase: cmp.Or(f.Phase, v1alpha1.BootstrapPending), Message: f.Unknown.Error()}
	case f.Restore == nil && !f.Serves:
		return Plan{Phase: v1alpha1.BootstrapPending, Message: "the backup is restored when all shards take writes"}
	case f.Restore == nil:
		return Plan{Phase: v1alpha1.BootstrapRestoring, Create: true, Message: "TickMeshRestore " + f.Name + " is made"}
	}
	conditions := f.Restore.Status.Conditions
	complete, failed := meta.FindStatusCondition(conditions, v1alpha1.ConditionComplete), meta.FindStatusCondition(conditions, v1alpha1.ConditionFailed)
	switch {
	case failed != nil && failed.Status == metav1.ConditionTrue:
		return Plan{Phase: v1alpha1.BootstrapFailed, Message: fmt.Sprintf("TickMeshRestore %s: %s; clients are kept out: delete it to have it made again, or let them in without the backup with the annotation %s=%s",
			f.Name, failed.Message, v1alpha1.AnnotationBootstrap, v1alpha1.BootstrapSkip)}
	case complete != nil && complete.Status == metav1.ConditionTrue:
		return Plan{Phase: v1alpha1.BootstrapComplete, Message: "the backup was restored: " + complete.Message}
	case complete != nil && f.Restore.Status.Phase == v1alpha1.JobPhasePending: // maybe for ever, as for a backup that is gone
		return Plan{Phase: v1alpha1.BootstrapRestoring, Message: fmt.Sprintf("TickMeshRestore %s waits: %s; clients are kept out, and let in without the backup with the annotation %s=%s",
			f.Name, complete.Message, v1alpha1.AnnotationBootstrap, v1alpha1.BootstrapSkip)}
	case complete != nil:
		return Plan{Phase: v1alpha1.BootstrapRestoring, Message: fmt.Sprintf("TickMeshRestore %s: %s", f.Name, complete.Message)}
	}
	return Plan{Phase: v1alpha1.BootstrapRestoring, Message: "TickMeshRestore " + f.Name + " begins"}
}
