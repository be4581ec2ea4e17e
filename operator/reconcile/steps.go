package reconcile

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/report"
)

// steps returns the steps of a pass, in order. No step waits for another to end well: what is
// refused here must not keep a lost node from being replaced there. A pause stops what the spec
// asks for, and nothing that pods live by.
func (p *pass) steps() []step {
	return []step{
		{"Finalizer", unlessPaused, p.finalizer},
		{"Certificates", always, p.certificates.renew},
		{"Certificates", always, p.certificates.read},
		{"Etcd", always, func(ctx context.Context) error { p.etcd.look(ctx); return nil }},
		{"Nodes", always, func(ctx context.Context) error { p.nodes.look(ctx, p.etcd.replicas); return nil }},
		{"Hibernation", always, p.hibernate},
		{"Bootstrap", always, p.bootstrapCluster},
		{"Objects", unlessPaused, p.applyObjects},
		{"Volumes", unlessPaused, p.volumes.keep},
		{"Zones", always, p.zones},
		{"Etcd", unlessResting, p.etcd.keep},
		{"Nodes", unlessResting, p.nodes.keep},
		{"Rescue", unlessResting, p.rescueMap},
		{"Rules", unlessPaused, func(context.Context) error { return p.access.wrong }},
	}
}

// nameStore writes down the name that the shard map is kept under, before anything is made
// that uses it.
func (p *pass) nameStore(ctx context.Context) error {
	external := p.cluster.Spec.Etcd.External
	if external == nil || external.ClusterName != "" || p.cluster.Status.StoreName != "" {
		return nil
	}
	before := p.cluster.DeepCopy()
	p.cluster.Status.StoreName = build.NewStoreName(p.cluster, p.seen.NodeGroups[0].Set)
	if err := objects.PatchStatus(ctx, p.Client, p.cluster, before); err != nil {
		return fmt.Errorf("write down the name of the shard map: %w", err)
	}
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
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "tickmeshclusters"}, p.cluster.Name, errors.New("it was changed meanwhile"))
	}
	return nil
}

// writeStatus writes what was seen, if it is news and nobody has changed the cluster meanwhile:
// what the status says of etcd is the only thing that is known of one that does not answer,
// and must not be put back to what it was.
func (p *pass) writeStatus(ctx context.Context) error {
	before := p.cluster.DeepCopy()
	status, changed := report.Of(&report.Facts{
		Cluster: p.cluster, Seen: p.seen, Now: p.now, Nodes: p.nodes.known,
		Etcd:         report.Etcd{Status: p.etcd.record().status(p.etcd.view), Err: p.etcd.err, Plan: p.etcd.plan},
		Certificates: p.certificates.known(), Upgrade: p.templates.plan, VersionRefused: p.templates.refused,
		VolumesRefused: p.volumes.refused, Maintenance: p.maintenance, Hibernation: p.hibernation, WakingSince: p.wakingSince(),
		Bootstrap: p.bootstrap, BootstrapStatus: p.bootstrapStatus(), Failures: broken(p.failures),
		Rescue: rescueOf(p.cluster, p.seen).text(p.cluster, p.etcd.hasLost(p.nodes.known.ViewErr)),
	})
	if !equality.Semantic.DeepEqual(before.Status, *status) {
		p.cluster.Status = *status
		if err := objects.PatchStatus(ctx, p.Client, p.cluster, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write the status: %w", err)
		}
		for _, event := range report.Events(status.Conditions, changed) {
			p.tell(event.Kind, event.Reason, "%s", event.Note)
		}
	}
	p.Metrics.observe(p.cluster, p.nodes.known.Plan, p.failures)
	return nil
}

// zones writes on each node's pod what zone its machine is in: the node waits for it.
func (p *pass) zones(ctx context.Context) error {
	for _, pod := range p.seen.NodePods() {
		machine := p.seen.Machines[pod.Spec.NodeName]
		if pod.Annotations[build.AnnotationZone] != "" || machine == nil || pod.DeletionTimestamp != nil {
			continue // a process does not change its zone
		}
		changed := pod.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[build.AnnotationZone] = ZoneOf(machine, p.cluster.Spec.Nodes.Zones.TopologyKey)
		if err := p.Client.Patch(ctx, changed, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("tell pod %s its zone: %w", pod.Name, err)
		}
	}
	return nil
}

// broken returns the failures that are no conflicts.
func broken(failures []report.Failure) (all []report.Failure) {
	for _, f := range failures {
		if !Conflict(f.Err) {
			all = append(all, f)
		}
	}
	return all
}

// rescueMap makes the Job that puts the shard map back, once all nodes with shards can be
// asked. The Job looks again: it writes only over what is older than the nodes have seen.
func (p *pass) rescueMap(ctx context.Context) error {
	if !p.etcd.hasLost(p.nodes.known.ViewErr) {
		return nil
	}
	asked := rescueOf(p.cluster, p.seen)
	if asked.impossible() != "" {
		return nil // the condition says so
	}
	job := build.RescueJob(p.cluster, p.facts(), asked.ready, asked.lost)
	present := &batchv1.Job{}
	if found, err := p.objects.FindLive(ctx, job.Name, present); err != nil || found {
		return err // it runs, or Kubernetes deletes it soon
	}
	if err := p.objects.Cached.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Job %s: %w", job.Name, err)
	}
	p.tell(corev1.EventTypeWarning, report.ReasonStoreLost, "etcd has lost the shard map; Job %s builds it anew from what the nodes know", job.Name)
	return nil
}
