package build

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Facts are what the objects of a cluster depend on beside its spec.
type Facts struct {
	// Image and EnvoyImage are used where the spec names none.
	Image, EnvoyImage string
	// CertificateImage is what pods that keep their keys make them with: that of the operator's
	// release, as one of spec may be of an older release, which cannot.
	CertificateImage string
	// EtcdCABundle stands for the CAs that etcd trusts: its processes read them at
	// their start, so they are started again when there are others; empty: unknown.
	EtcdCABundle string
	// OperatorNamespace is where the operator runs; network policies let it in.
	OperatorNamespace string
	// NodeReplicas is how many pods of nodes of spec.nodes there are to be now: what the spec
	// wants, or more while nodes are being emptied. At least 1.
	NodeReplicas int32
	// Groups are the groups of nodes, by name, that have a StatefulSet or are to have one now, beside
	// that of spec.nodes: those of spec.nodeGroups, and others while they are being emptied.
	Groups map[string]NodeGroup
	// EtcdReplicas is how many pods of a managed etcd there are to be now. None while one
	// that has lost its majority for good is cleared away.
	EtcdReplicas int32
	// EtcdEndpoints is how many members of a managed etcd its clients are told of, those
	// that are still to come among them: what is told does not change while it grows. At
	// least 1, if etcd is managed.
	EtcdEndpoints int32
	// EtcdGeneration is how often a new etcd took the place of one that was lost.
	EtcdGeneration int64
	// EtcdMembers are the names of the pods that a member which starts without data is to
	// meet, itself among them: all of a new etcd, or those that the running one has been
	// told of. If etcd is managed.
	EtcdMembers []string
	// EtcdExists reports that the etcd runs, so that a member without data joins it.
	EtcdExists bool
	// NodeClaims and EtcdClaims are the claim templates of the StatefulSets that exist, which
	// cannot be changed; nil: they do not exist yet. Claims themselves are made larger one by
	// one, and replaced one by one for another storage class.
	NodeClaims, EtcdClaims *ClaimTemplate
	// Databases is the name of the ConfigMap with what holds for each database; empty: there
	// is none yet, or none is wanted.
	Databases string
	// LoadBalancerHosts are the names that the load balancer of the Service for clients has.
	LoadBalancerHosts []string
	// NamesOptional admits certificates that name no process, with tls.mode CertManager and
	// Secrets.
	NamesOptional bool
	// Restarted has, by component, what RestartedFor returns of the pod template that exists.
	Restarted map[string]string
	// ClientsKeptOut keeps clients out, where it can: see ClientService.
	ClientsKeptOut bool
	// Stopped has the components that are to have no pods, as the cluster sleeps.
	Stopped map[string]bool
	// PodMonitors and ServiceMonitors say that the Prometheus operator's definitions are
	// there.
	PodMonitors, ServiceMonitors bool
	// NoMetricsPort reports that routers run an image of spec that they ran before they had a port
	// of their own for metrics: it may not know of that.
	NoMetricsPort bool
	// MetricsAtHTTPPort reports that routers run that have no port of their own for metrics: all are
	// asked at the port for clients, until the last has one.
	MetricsAtHTTPPort bool
}

// NodeGroup is what the StatefulSet of a group of nodes depends on beside the spec.
type NodeGroup struct {
	Replicas int32          // as NodeReplicas, and none for a group that begins, or is empty
	Claims   *ClaimTemplate // as NodeClaims
}

// ClaimTemplate is what a StatefulSet makes the claims of its pods' volumes from.
type ClaimTemplate struct {
	Size             resource.Quantity
	StorageClassName *string
	// Class is the storage class that claims are marked with as the one asked for; nil: they are not.
	Class *string
}

// annotationStorageClass of a claim has the storage class that was asked for when its StatefulSet
// was made. The claim may have another one where a policy of Kubernetes' cluster sees to that.
const annotationStorageClass = v1alpha1.Group + "/storage-class"

// ClaimTemplateOf returns the claim template of a StatefulSet; nil: it has none.
func ClaimTemplateOf(s *appsv1.StatefulSet) *ClaimTemplate {
	for i := range s.Spec.VolumeClaimTemplates {
		if t := &s.Spec.VolumeClaimTemplates[i]; t.Name == volumeData {
			return &ClaimTemplate{t.Spec.Resources.Requests[corev1.ResourceStorage], t.Spec.StorageClassName, markedClass(t)}
		}
	}
	return nil
}

// markedClass returns the storage class that a claim is marked with; nil: none.
func markedClass(claim *corev1.PersistentVolumeClaim) *string {
	if class, marked := claim.Annotations[annotationStorageClass]; marked {
		return &class
	}
	return nil
}

// IsClaimMarked reports whether a claim says which storage class it was made for.
func IsClaimMarked(claim *corev1.PersistentVolumeClaim) bool { return markedClass(claim) != nil }

// MarkClaim marks a claim with the storage class that it was made for, see IsClaimOutdated.
func MarkClaim(claim *corev1.PersistentVolumeClaim, before *string) {
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, annotationStorageClass, claimClass(claim, before))
}

// IsClaimOutdated reports whether a claim was made for another storage class than is asked for.
// Where none is asked for, any will do. A claim that is not marked, as one of an older operator or
// one that somebody made by hand, was made for the class that was asked for before (nil: none was,
// and its own class counts): only a change of what is asked for replaces volumes.
func IsClaimOutdated(claim *corev1.PersistentVolumeClaim, before *string, asked v1alpha1.VolumeSpec) bool {
	class := claimClass(claim, before)
	return isOtherClass(&class, asked)
}

// claimClass returns the storage class that a claim was made for; "": none.
func claimClass(claim *corev1.PersistentVolumeClaim, before *string) string {
	for _, class := range []*string{markedClass(claim), before, claim.Spec.StorageClassName} {
		if class != nil {
			return *class
		}
	}
	return ""
}

// IsOutdated reports whether claims that are made from a template are for another storage class
// than is asked for.
func (t *ClaimTemplate) IsOutdated(asked v1alpha1.VolumeSpec) bool {
	return asked.StorageClassName != nil && (t.StorageClassName == nil || isOtherClass(t.StorageClassName, asked))
}

func isOtherClass(class *string, asked v1alpha1.VolumeSpec) bool {
	if asked.StorageClassName == nil {
		return false
	}
	is := "" // no class at all
	if class != nil {
		is = *class
	}
	return is != *asked.StorageClassName
}

// Image returns the image that a cluster runs.
func Image(c *v1alpha1.TickMeshCluster, f Facts) string {
	if c.Spec.Image != "" {
		return c.Spec.Image
	}
	return f.Image
}

// EtcdMembersWanted returns how many members a managed etcd is to have: three, or one
// below three nodes. An etcd never gets smaller, whatever this says later.
func EtcdMembersWanted(c *v1alpha1.TickMeshCluster) int32 {
	if c.Spec.NodeCount() >= etcdMembersMax {
		return etcdMembersMax
	}
	return 1
}

const etcdMembersMax = 3

// EnvoyEnabled reports whether Envoy stands before the routers.
func EnvoyEnabled(c *v1alpha1.TickMeshCluster) bool {
	return c.Spec.Envoy.Enabled == nil || *c.Spec.Envoy.Enabled
}

// NetworkPoliciesEnabled reports whether components are closed to those that do not need
// them.
func NetworkPoliciesEnabled(c *v1alpha1.TickMeshCluster) bool {
	return c.Spec.Security.NetworkPolicies == nil || *c.Spec.Security.NetworkPolicies
}

// WALSync returns when nodes make their logs safe.
func WALSync(c *v1alpha1.TickMeshCluster) v1alpha1.WALSync {
	switch {
	case c.Spec.WALSync != "":
		return c.Spec.WALSync
	case c.Spec.Replication == 1:
		return v1alpha1.WALSyncAlways
	}
	return v1alpha1.WALSyncInterval
}
