package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	f.CertificateImage, f.EtcdAuthorities = p.certificateImage(), p.secrets.etcdAuthorities
	if p.seen.nodeSet != nil {
		f.NodeClaimSize = build.ClaimSize(p.seen.nodeSet)
	}
	if p.seen.etcdSet != nil {
		f.EtcdClaimSize = build.ClaimSize(p.seen.etcdSet)
		if f.EtcdAuthorities == "" {
			f.EtcdAuthorities = p.seen.etcdSet.Spec.Template.Annotations[build.AnnotationConfigHash]
		}
	}
	f.DoorHosts = p.seen.doorHosts
	f.NamesOptional = p.namesOptional()
	f.PodMonitors, f.ServiceMonitors = p.hasKind(build.KindPodMonitor), p.hasKind(build.KindServiceMonitor)
	return f
}

// certificateImage returns what pods make their keys with. Where spec names the image of nodes,
// a new operator leaves it as it is until that changes: it restarts no node.
func (p *pass) certificateImage() string {
	set, image := p.seen.nodeSet, p.cluster.Spec.Image
	if set != nil && image != "" && set.Spec.Template.Spec.Containers[0].Image == image {
		if present := build.CertificateImage(&set.Spec.Template.Spec); present != "" {
			return present
		}
	}
	return p.Defaults.Image
}

// etcdCreated reports whether the managed etcd has answered before.
func (p *pass) etcdCreated() bool {
	return managedEtcd(p.cluster) && (p.etcd.view.ClusterID != "" || p.etcdFacts().Created)
}

// monitorGroup is the group of the Prometheus operator's kinds.
const monitorGroup = "monitoring.coreos.com"

// hasKind reports whether Kubernetes has one of the Prometheus operator's kinds. To ask for
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

// monitorsLeftOut returns the kinds of monitors that are asked for and that Kubernetes does
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
	if err := p.planUpgrade(objects); err != nil {
		return err
	}
	// What is refused of one component ends what comes after it of the same one: pods do not
	// start without what they need.
	var failed []error
	stopped := map[string]bool{}
	if err := p.keepReplicas(ctx); err != nil {
		stopped[build.ComponentRouter], failed = true, append(failed, err)
	}
	for _, object := range objects {
		component := object.GetLabels()[build.LabelComponent]
		if stopped[component] {
			continue
		}
		if err := p.apply(ctx, object); err != nil {
			stopped[component], failed = true, append(failed, err)
		} else if _, is := object.(*corev1.ConfigMap); is && component == build.ComponentEtcd {
			p.etcdConfigured = true
		}
	}
	for _, object := range build.Unwanted(p.cluster, f) {
		if err := p.remove(ctx, object); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// volumes lets claims grow to the size that is asked for.
func (p *pass) volumes(ctx context.Context) error {
	failed := []error{p.growClaims(ctx, "nodes.storage", p.seen.nodeClaims, p.cluster.Spec.Nodes.Storage.Size)}
	if managedEtcd(p.cluster) {
		failed = append(failed, p.growClaims(ctx, "etcd.managed.storage", p.seen.etcdClaims, p.cluster.Spec.Etcd.Managed.Storage.Size))
	}
	return errors.Join(failed...)
}

// growClaims lets the claims of a component grow, where their storage class lets them.
// What does not grow is told in a condition: to ask all the same would fail for ever.
func (p *pass) growClaims(ctx context.Context, field string, claims map[int]*corev1.PersistentVolumeClaim, size resource.Quantity) error {
	var failed []error
	fixed := map[string][]string{} // names of claims by class
	for _, ordinal := range slices.Sorted(maps.Keys(claims)) {
		claim := claims[ordinal]
		if claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil || size.Cmp(sizeOf(claim)) <= 0 {
			continue
		}
		class := ""
		if claim.Spec.StorageClassName != nil {
			class = *claim.Spec.StorageClassName
		}
		expands, err := p.expands(ctx, class)
		switch {
		case err != nil:
			failed = append(failed, err)
		case expands:
			failed = append(failed, p.growClaim(ctx, claim, size))
		default:
			fixed[class] = append(fixed[class], claim.Name)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(fixed)) {
		p.volumesRefused = append(p.volumesRefused, fmt.Sprintf(
			"spec.%s.size asks for %s, and storage class %q does not let volumes grow (allowVolumeExpansion), so these stay as they are: %s; set the size back to that of the volumes, let the class grow them, or move the data to a cluster with another class",
			field, size.String(), class, strings.Join(fixed[class], ", ")))
	}
	return errors.Join(failed...)
}

func sizeOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// expands reports whether a storage class lets volumes grow. One that is not there does not.
func (p *pass) expands(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	class := &storagev1.StorageClass{}
	err := p.Reader.Get(ctx, types.NamespacedName{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at storage class %s: %w", name, err)
	}
	return class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion, nil
}

func (p *pass) growClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	asked := sizeOf(claim)
	changed := claim.DeepCopy()
	changed.Spec.Resources.Requests[corev1.ResourceStorage] = size
	if err := p.Client.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("grow volume claim %s from %s to %s: %w", claim.Name, asked.String(), size.String(), err)
	}
	p.event(corev1.EventTypeNormal, "VolumeGrows", "volume claim %s grows from %s to %s", claim.Name, asked.String(), size.String())
	return nil
}
