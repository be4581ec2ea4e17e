package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
)

// facts are what the objects of the cluster depend on now.
func (p *pass) facts() build.Facts {
	f := p.Defaults
	f.NodeReplicas, f.EtcdReplicas = int32(p.nodes.replicas), int32(p.etcd.replicas)
	f.EtcdEndpoints, f.EtcdGeneration = int32(p.etcd.endpoints), p.etcdGeneration()
	f.EtcdMembers = p.etcd.plan.Meet
	f.EtcdExists = p.etcdCreated() && !p.etcd.plan.Anew
	f.Databases = p.databases
	if p.seen.nodeSet != nil {
		f.NodeClaimSize = build.ClaimSize(p.seen.nodeSet)
	}
	if p.seen.etcdSet != nil {
		f.EtcdClaimSize = build.ClaimSize(p.seen.etcdSet)
	}
	f.PodMonitors, f.ServiceMonitors = p.hasKind(build.KindPodMonitor), p.hasKind(build.KindServiceMonitor)
	return f
}

// etcdCreated says whether the managed etcd has answered before.
func (p *pass) etcdCreated() bool {
	return managedEtcd(p.cluster) && (p.etcd.view.ClusterID != "" || p.etcdFacts().Created)
}

// monitorGroup is the group of the Prometheus operator's kinds.
const monitorGroup = "monitoring.coreos.com"

// hasKind says whether Kubernetes has one of the Prometheus operator's kinds. To ask for
// one that is not there costs a request, so it is asked once in a pass.
func (p *pass) hasKind(kind string) bool {
	has, asked := p.kinds[kind]
	if !asked {
		_, err := p.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: monitorGroup, Kind: kind}, "v1")
		has = err == nil
		if p.kinds == nil {
			p.kinds = map[string]bool{}
		}
		p.kinds[kind] = has
	}
	return has
}

// monitorsLeftOut gives the kinds of monitors that are asked for and that Kubernetes does
// not have.
func (p *pass) monitorsLeftOut() (kinds []string) {
	if p.cluster.Spec.Monitoring.PodMonitor && !p.hasKind(build.KindPodMonitor) {
		kinds = append(kinds, build.KindPodMonitor)
	}
	if p.cluster.Spec.Monitoring.ServiceMonitor && !p.hasKind(build.KindServiceMonitor) {
		kinds = append(kinds, build.KindServiceMonitor)
	}
	return kinds
}

// objects applies what the cluster consists of, and deletes what other settings made.
func (p *pass) objects(ctx context.Context) error {
	p.rulesErr = p.rules(ctx)
	f := p.facts()
	objects, err := build.Objects(p.cluster, f)
	if err != nil {
		return err
	}
	if err := p.keepReplicas(ctx); err != nil {
		return err
	}
	for _, object := range objects {
		if err := p.apply(ctx, object); err != nil {
			return err
		}
	}
	for _, object := range build.Unwanted(p.cluster, f) {
		if err := p.remove(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// volumes lets claims grow to the size that is asked for.
func (p *pass) volumes(ctx context.Context) error {
	for _, claim := range p.seen.nodeClaims {
		if err := p.growClaim(ctx, claim, p.cluster.Spec.Nodes.Storage.Size); err != nil {
			return err
		}
	}
	if !managedEtcd(p.cluster) {
		return nil
	}
	for _, claim := range p.seen.etcdClaims {
		if err := p.growClaim(ctx, claim, p.cluster.Spec.Etcd.Managed.Storage.Size); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) growClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil || size.Cmp(asked) <= 0 {
		return nil
	}
	changed := claim.DeepCopy()
	changed.Spec.Resources.Requests[corev1.ResourceStorage] = size
	if err := p.Client.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("grow volume claim %s from %s to %s: %w", claim.Name, asked.String(), size.String(), err)
	}
	p.event(corev1.EventTypeNormal, "VolumeGrows", "volume claim %s grows from %s to %s", claim.Name, asked.String(), size.String())
	return nil
}
