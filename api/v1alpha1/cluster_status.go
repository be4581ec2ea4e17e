package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TickMeshClusterStatus is what the operator has seen last.
type TickMeshClusterStatus struct {
	// Generation of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Available, Progressing, Degraded and Rebalancing, among others.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Namespace of the operator that acts for this cluster. One in another namespace that
	// looks after this one, too, does nothing while that one runs.
	// +optional
	Operator string `json:"operator,omitempty"`
	// Name that the shard map is kept under, where etcd.external.clusterName has none.
	// +optional
	StoreName string `json:"storeName,omitempty"`
	// In one word, for people; programs go by the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Nodes that are wanted, of all groups.
	// +optional
	WantedNodes int32 `json:"wantedNodes"`
	// Pods of nodes that there are, of all groups; status of the scale subresource.
	// +optional
	Nodes int32 `json:"nodes"`
	// Selector of the nodes' pods, as text; of the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Nodes that are caught up and serve.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`
	// Shards of the cluster.
	// +optional
	Shards int32 `json:"shards"`
	// Shards whose copies are on their way.
	// +optional
	ShardsMoving int32 `json:"shardsMoving"`
	// Bytes that are still to be moved.
	// +optional
	BytesMoving int64 `json:"bytesMoving"`
	// How long the moves will still take, as far as is known; empty: nothing moves.
	// +optional
	ETA Duration `json:"eta,omitempty"`
	// Shards with fewer live complete copies than spec.replication.
	// +optional
	UnderReplicated int32 `json:"underReplicated"`
	// Since when some shards have had no leader; not set: all have one. Available changes
	// only when that has lasted 10 s, as a shard has none for a moment while its leadership
	// moves.
	// +optional
	LeaderlessSince *metav1.Time `json:"leaderlessSince,omitempty"`
	// Version that the nodes run; several, with commas between, during an upgrade.
	// +optional
	Version string `json:"version,omitempty"`
	// Newest version that nodes have run: older programs may not read what it has written, so
	// no image of an earlier minor version is taken, whatever runs now.
	// +optional
	NewestVersion string `json:"newestVersion,omitempty"`
	// Zones that nodes are in.
	// +listType=map
	// +listMapKey=name
	// +optional
	Zones []ZoneStatus `json:"zones,omitempty"`
	// The managed etcd.
	// +optional
	Etcd *EtcdStatus `json:"etcd,omitempty"`
	// Each group of nodeGroups that the spec has, or had and that is not gone yet.
	// +listType=map
	// +listMapKey=name
	// +optional
	NodeGroups []NodeGroupStatus `json:"nodeGroups,omitempty"`
	// Each node, by groups, in the order of their numbers.
	// +listType=map
	// +listMapKey=name
	// +optional
	NodeStatuses []NodeStatus `json:"nodeStatuses,omitempty"`
	// Sizes of the volumes, which those of the spec may go back to.
	// +optional
	VolumeSizes *VolumeSizes `json:"volumeSizes,omitempty"`
	// What the cluster began with, where spec.bootstrap says anything.
	// +optional
	Bootstrap *BootstrapStatus `json:"bootstrap,omitempty"`
	// Since when the cluster has been waking after spec.hibernated; not set: it is not.
	// +optional
	WakingSince *metav1.Time `json:"wakingSince,omitempty"`
	// The maintenance windows, where spec has any.
	// +optional
	Maintenance *MaintenanceStatus `json:"maintenance,omitempty"`
	// The certificates inside the cluster.
	// +optional
	Certificates *CertificatesStatus `json:"certificates,omitempty"`
}

// Phase is the state of a cluster in one word.
type Phase string

// Values of Phase.
const (
	PhaseCreating  Phase = "Creating"  // there is no shard map yet
	PhaseRunning   Phase = "Running"   // all is as wanted
	PhaseScaling   Phase = "Scaling"   // nodes come or leave
	PhaseUpdating  Phase = "Updating"  // nodes are restarted one at a time
	PhaseRepairing Phase = "Repairing" // copies are being rebuilt, or a volume replaced
	PhaseDegraded  Phase = "Degraded"  // something is broken and waits
	PhasePaused    Phase = "Paused"    // spec.paused

	PhaseHibernating Phase = "Hibernating" // pods end, as spec.hibernated is set
	PhaseHibernated  Phase = "Hibernated"  // none is left
	PhaseWaking      Phase = "Waking"      // they come back
)

// Types of conditions of a cluster.
const (
	// ConditionAvailable: every shard takes writes and answers queries, and a router is ready.
	ConditionAvailable = "Available"
	// ConditionProgressing: the operator is bringing the cluster to its spec. False with
	// reason Complete: it is there.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something is broken: a machine lost, copies missing, certificates expired.
	ConditionDegraded = "Degraded"
	// ConditionRebalancing: copies of shards move.
	ConditionRebalancing = "Rebalancing"
	// ConditionBootstrapped: the backup of spec.bootstrap was restored, or is not to be. Not there
	// without spec.bootstrap.
	ConditionBootstrapped = "Bootstrapped"
	// ConditionHibernated: the cluster has no pods, as spec.hibernated asks for. Not there before
	// that was asked for.
	ConditionHibernated = "Hibernated"
	// ConditionNodesIdentified: each node has a certificate of its own, so that none can call as
	// another.
	ConditionNodesIdentified = "NodesIdentified"
)

// ZoneStatus describes a zone.
type ZoneStatus struct {
	// Its name.
	Name string `json:"name"`
	// Nodes in it.
	Nodes int32 `json:"nodes"`
}

// EtcdStatus describes a managed etcd.
type EtcdStatus struct {
	// Id of the etcd cluster, in hex; set when it was first healthy, and from then on new
	// members join it. Empty: it was not healthy yet.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Members that are healthy.
	// +optional
	ReadyMembers int32 `json:"readyMembers"`
	// Its members, as they were when it answered last.
	// +listType=map
	// +listMapKey=name
	// +optional
	Members []EtcdMemberStatus `json:"members,omitempty"`
	// Since when it has not answered; not set: it does.
	// +optional
	UnavailableSince *metav1.Time `json:"unavailableSince,omitempty"`
	// How often a new etcd took the place of one that had lost its majority for good.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// What is being done while a new etcd takes the place of such a one; empty: none does.
	// +optional
	Rebuild EtcdRebuildPhase `json:"rebuild,omitempty"`
}

// EtcdRebuildPhase is what is being done while a new etcd is made.
//
// +kubebuilder:validation:Enum=Clearing;Making
type EtcdRebuildPhase string

// Values of EtcdRebuildPhase.
const (
	EtcdRebuildClearing EtcdRebuildPhase = "Clearing" // pods and volumes of the old one go
	EtcdRebuildMaking   EtcdRebuildPhase = "Making"   // none is left; the new one has not answered yet
)

// EtcdMemberStatus describes a member of a managed etcd.
type EtcdMemberStatus struct {
	// Name of its pod.
	Name string `json:"name"`
	// Its id, in hex.
	// +optional
	ID string `json:"id,omitempty"`
	// It answers.
	// +optional
	Healthy bool `json:"healthy"`
	// It has no vote yet.
	// +optional
	Learner bool `json:"learner,omitempty"`
	// UID of the volume claim that has its data.
	// +optional
	ClaimUID string `json:"claimUID,omitempty"`
}

// NodeStatus describes a storage node.
type NodeStatus struct {
	// Name of the node and its pod.
	Name string `json:"name"`
	// Its group of nodeGroups; empty: it is one of spec.nodes.
	// +optional
	Group string `json:"group,omitempty"`
	// Machine that its pod is on.
	// +optional
	Machine string `json:"machine,omitempty"`
	// Zone of the machine.
	// +optional
	Zone string `json:"zone,omitempty"`
	// What is desired of it: active, draining or gone.
	// +optional
	Desired string `json:"desired,omitempty"`
	// It holds its lease.
	// +optional
	Alive bool `json:"alive"`
	// Copies of shards on it.
	// +optional
	Shards int32 `json:"shards"`
	// Shards that it leads.
	// +optional
	Leads int32 `json:"leads"`
	// Bytes of data on its volume.
	// +optional
	UsedBytes int64 `json:"usedBytes"`
	// Version that it runs.
	// +optional
	Version string `json:"version,omitempty"`
}

// VolumeSizes is what the largest volume claim of each component asks for.
type VolumeSizes struct {
	// Of the nodes.
	// +optional
	Node *resource.Quantity `json:"node,omitempty"`
	// Of the members of a managed etcd.
	// +optional
	Etcd *resource.Quantity `json:"etcd,omitempty"`
}

// CertificatesStatus describes the certificates inside a cluster.
type CertificatesStatus struct {
	// When the first of them ends.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// When the CA's certificate ends.
	// +optional
	AuthorityNotAfter *metav1.Time `json:"authorityNotAfter,omitempty"`
}
