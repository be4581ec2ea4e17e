package reconcile

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
)

// etcdHistory is what decisions about etcd need of its past: the status has it, since
// nobody can be asked when etcd has no majority.
func (p *pass) etcdHistory(f *etcd.Facts) {
	f.Generation = p.etcdGeneration()
	f.Unrescuable = p.unrescuable()
	// Who writes no number asks for nothing.
	f.Asked, _ = strconv.ParseInt(p.cluster.Annotations[v1alpha1.AnnotationRebuildEtcd], 10, 64)
	status := p.cluster.Status.Etcd
	if status == nil {
		return
	}
	f.Rebuild = etcd.Phase(status.Rebuild)
	if status.UnavailableSince != nil {
		f.UnavailableMs = max(p.now.Sub(status.UnavailableSince.Time).Milliseconds(), 0)
	}
	for i := range status.Members {
		m := &status.Members[i]
		if ordinal, ok := ordinalOf(m.Name, build.Name(p.cluster, build.ComponentEtcd)); ok && ordinal < etcdMembersMax {
			f.Known = append(f.Known, etcd.Known{Ordinal: ordinal, ClaimUID: m.ClaimUID, Learner: m.Learner})
		}
	}
}

// etcdGeneration returns how often a new etcd took the place of a lost one, as the status or
// the ConfigMap says that members start with.
func (p *pass) etcdGeneration() int64 {
	generation := p.seen.etcdGeneration
	if status := p.cluster.Status.Etcd; status != nil {
		generation = max(generation, status.Generation)
	}
	return generation
}

// findEtcdGeneration reads the generation of the ConfigMap that members start with.
func (p *pass) findEtcdGeneration(ctx context.Context) error {
	if !managedEtcd(p.cluster) {
		return nil
	}
	config := &corev1.ConfigMap{}
	found, err := p.get(ctx, p.Client, build.Name(p.cluster, build.ComponentEtcd), config)
	if !found {
		return err
	}
	// What cannot be read was written by somebody else, and is put back.
	p.seen.etcdGeneration, _ = strconv.ParseInt(config.Annotations[build.AnnotationEtcdGeneration], 10, 64)
	return nil
}

// checkRebuild looks, after the claims and pods of an etcd that is being replaced, whether
// it still is: on an older status those of the new one would be taken for the old.
func (p *pass) checkRebuild(ctx context.Context) error {
	if s := p.cluster.Status.Etcd; s == nil || s.Rebuild == "" {
		return nil
	}
	present := &v1alpha1.TickMeshCluster{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.cluster), present); err != nil {
		return fmt.Errorf("look at the cluster as it is now: %w", err)
	}
	if present.ResourceVersion != p.cluster.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "tickmeshclusters"}, p.cluster.Name, fmt.Errorf("it was changed meanwhile"))
	}
	return nil
}

// setRebuild writes down what is done to put a new etcd in the place of a lost one, before
// anything of it is done. Another generation begins with Clearing.
func (p *pass) setRebuild(ctx context.Context, phase etcd.Phase) error {
	s := p.etcdStatus()
	s.Rebuild = v1alpha1.EtcdRebuildPhase(phase)
	s.Generation = p.etcdGeneration()
	switch phase {
	case etcd.Clearing:
		s.Generation++
		s.ClusterID, s.Members = "", nil
	case etcd.Making:
		s.ClusterID, s.Members = "", nil
	case etcd.None:
	}
	return p.writeEtcdStatus(ctx, s)
}

// recordMembers writes down who the members are before that is changed, so that no more
// than one change was made since they were known when etcd does not answer any more.
func (p *pass) recordMembers(ctx context.Context, next etcd.ActionKind) error {
	switch next {
	case etcd.Add, etcd.Remove, etcd.Promote:
	default:
		return nil
	}
	s := p.etcdStatus()
	if was := p.cluster.Status.Etcd; was != nil && equality.Semantic.DeepEqual(was.Members, s.Members) {
		return nil
	}
	return p.writeEtcdStatus(ctx, s)
}

// writeEtcdStatus writes the part of the status that is about etcd, unless somebody was
// faster.
func (p *pass) writeEtcdStatus(ctx context.Context, s *v1alpha1.EtcdStatus) error {
	changed := p.cluster.DeepCopy()
	changed.Status.Etcd = s
	if err := p.patchStatus(ctx, changed, p.cluster); err != nil {
		return fmt.Errorf("write the status of etcd: %w", err)
	}
	p.cluster.Status.Etcd, p.cluster.ResourceVersion = changed.Status.Etcd, changed.ResourceVersion
	return nil
}
