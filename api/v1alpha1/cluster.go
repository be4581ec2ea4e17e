package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationAllowVersion of a TickMeshCluster is a person's word that the version which it
// names may be put in the place of any other.
const AnnotationAllowVersion = Group + "/allow-version"

// AnnotationRestart of a TickMeshCluster, and the name of a component after it, such as
// tickmesh.dev/restart-node, has the pods of that component restarted when its value changes, as an
// upgrade would. Taken away, it restarts nothing.
const AnnotationRestart = Group + "/restart-"

// TickMeshCluster is a cluster of TickMesh: etcd, storage nodes, routers and Envoy,
// and how they are run.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=tmc,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.nodes.count,statuspath=.status.nodes,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyNodes`,description="Nodes that are caught up and serve"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.wantedNodes`,description="Nodes that are wanted, of all groups"
// +kubebuilder:printcolumn:name="Shards moving",type=integer,JSONPath=`.status.shardsMoving`,description="Shards whose copies are on their way"
// +kubebuilder:printcolumn:name="Under-replicated",type=integer,JSONPath=`.status.underReplicated`,description="Shards with fewer live complete copies than spec.replication"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="Version that the nodes run"
// +kubebuilder:printcolumn:name="Phase",type=string,priority=1,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="ETA",type=string,priority=1,JSONPath=`.status.eta`,description="How long the moves will still take"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name becomes part of the names of pods and services: choose one of at most 40 small letters, digits and inner hyphens that begins with a letter"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.nodeGroups) || self.spec.nodeGroups.all(g, size(self.metadata.name) + size(g.name) <= 46)",message="nodeGroups.name and the name of the cluster become part of the names of StatefulSets: they can have 46 letters together at most; choose a shorter name of the group"
// +kubebuilder:validation:XValidation:rule="quantity(string(self.spec.nodes.storage.size)).compareTo(quantity(string(oldSelf.spec.nodes.storage.size))) >= 0 || (has(self.status) && has(self.status.volumeSizes) && has(self.status.volumeSizes.node) && quantity(string(self.spec.nodes.storage.size)).compareTo(quantity(string(self.status.volumeSizes.node))) >= 0)",message="nodes.storage.size can only grow: volumes do not shrink below status.volumeSizes.node; add nodes with smaller volumes in another cluster, or keep the size"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.managed) || !has(oldSelf.spec.etcd.managed) || quantity(string(self.spec.etcd.managed.storage.size)).compareTo(quantity(string(oldSelf.spec.etcd.managed.storage.size))) >= 0 || (has(self.status) && has(self.status.volumeSizes) && has(self.status.volumeSizes.etcd) && quantity(string(self.spec.etcd.managed.storage.size)).compareTo(quantity(string(self.status.volumeSizes.etcd))) >= 0)",message="etcd.managed.storage.size can only grow: volumes do not shrink below status.volumeSizes.etcd; keep the size"
type TickMeshCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted; {} for all the defaults.
	Spec TickMeshClusterSpec `json:"spec"`
	// What is there, as the operator has seen it last.
	// +optional
	Status TickMeshClusterStatus `json:"status,omitzero"`
}

// TickMeshClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type TickMeshClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TickMeshCluster `json:"items"`
}

// TickMeshClusterSpec is what a cluster is to be.
//
// +kubebuilder:validation:XValidation:rule="self.replication <= self.nodes.count + (has(self.nodeGroups) ? self.nodeGroups.map(g, g.count).sum() : 0)",message="replication cannot be more than nodes.count and the count of all nodeGroups together, as each copy of a shard is on a node of its own: raise nodes.count, or that of a group, or create the cluster with a lower replication"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeGroups) || self.nodes.count + self.nodeGroups.map(g, g.count).sum() <= 256",message="nodes.count and the count of all nodeGroups can be 256 together at most: make another cluster for more"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeGroups) || !has(self.nodes.zones.required) || !self.nodes.zones.required || self.nodeGroups.all(g, !has(g.podTemplate) || !has(g.podTemplate.topologySpreadConstraints) || g.podTemplate.topologySpreadConstraints.all(t, t.topologyKey != self.nodes.zones.topologyKey || t.whenUnsatisfiable == 'DoNotSchedule' && t.maxSkew == 1))",message="nodes.zones.required keeps nodes spread evenly over zones, and nodeGroups.podTemplate.topologySpreadConstraints of the same label would not: set its whenUnsatisfiable to DoNotSchedule and its maxSkew to 1, or leave it out"
// +kubebuilder:validation:XValidation:rule="self.replication == oldSelf.replication",message="replication cannot be changed: create another cluster and restore a backup into it"
// +kubebuilder:validation:XValidation:rule="self.shards == oldSelf.shards",message="shards cannot be changed: create another cluster and restore a backup into it"
// +kubebuilder:validation:XValidation:rule="self.tls.mode == oldSelf.tls.mode",message="tls.mode cannot be changed, as nodes whose certificates come from different CAs would refuse each other: create another cluster and restore a backup into it"
// +kubebuilder:validation:XValidation:rule="has(self.bootstrap) == has(oldSelf.bootstrap) && (!has(self.bootstrap) || self.bootstrap == oldSelf.bootstrap)",message="bootstrap cannot be changed, as it is for a cluster that is being created: make a TickMeshRestore for one that is there"
// +kubebuilder:validation:XValidation:rule="self.tls.mode != 'Secrets' || !has(self.tls.secretNames) || has(self.etcd.external) || has(self.tls.secretNames.etcd)",message="tls.mode Secrets with a managed etcd needs tls.secretNames.etcd: name the Secret with tls.crt, tls.key and ca.crt of its members"
// +kubebuilder:validation:XValidation:rule="!has(self.service.tls) || !has(self.service.tls.clientCASecretName) || self.envoy.enabled",message="service.tls.clientCASecretName needs Envoy, which asks clients for certificates: set envoy.enabled to true, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.service.tls) || has(self.service.tls.secretName) || self.tls.mode == 'Operator' || self.tls.mode == 'CertManager'",message="service.tls needs a certificate: set service.tls.secretName, or tls.mode to Operator or CertManager"
type TickMeshClusterSpec struct {
	// Image of TickMesh that nodes, routers, etcd and backups run. Empty: the one that the
	// operator was released with. A change restarts the nodes one at a time.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`
	// When images are fetched. Default: IfNotPresent.
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// Secrets of this namespace for fetching images.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// The storage nodes.
	// +kubebuilder:default={}
	// +optional
	Nodes NodesSpec `json:"nodes,omitzero"`
	// Further groups of storage nodes, on machines of other kinds. Nodes of all groups are one
	// cluster, and shards are spread over all of them alike. Default: none.
	// +kubebuilder:validation:MaxItems=12
	// +listType=map
	// +listMapKey=name
	// +optional
	NodeGroups []NodeGroup `json:"nodeGroups,omitempty"`
	// Full copies of each shard, 1 to 3. With 2, a witness without data on a third node
	// keeps a majority. Cannot be changed. Default: 2.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	// +optional
	Replication int32 `json:"replication,omitempty"`
	// Shards that the series are spread over, 2048 at most: etcd takes no larger map of
	// them. Cannot be changed. Default: 128.
	// +kubebuilder:default=128
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2048
	// +optional
	Shards int32 `json:"shards,omitempty"`
	// When a node makes its log safe against a power cut: always (before each answer) or
	// interval (once a second). Default: always with replication 1, else interval. A change
	// restarts the nodes one at a time.
	// +optional
	WALSync WALSync `json:"walSync,omitempty"`
	// How long samples are kept; 0: for ever; otherwise at least 1h. Default: 0. A change
	// restarts the nodes one at a time.
	// +kubebuilder:default="0"
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.endsWith('d') || self.endsWith('w') || self.endsWith('y') || duration(self) >= duration('1h')",message="retention must be 0, for ever, or at least 1h: samples are dropped by the partition"
	// +optional
	Retention Duration `json:"retention,omitempty"`
	// Forget series whose samples are all gone. It begins when there are such series and all nodes are of a version that can,
	// and earlier versions do not open the volumes from then on: false until a new version is to stay. Default: false. A
	// change restarts the nodes one at a time.
	// +optional
	ForgetSeries bool `json:"forgetSeries,omitempty"`
	// Memory of each node for exemplars, of which the newest are kept, at most 1Gi and an eighth of what series may take; 0: none are
	// kept. Default: 16Mi. A change restarts the nodes one at a time.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="exemplarBytes must be from 0, which keeps none, to 1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isInteger()",message="exemplarBytes must be a whole number of bytes, such as 32Mi"
	// +optional
	ExemplarBytes *resource.Quantity `json:"exemplarBytes,omitempty"`
	// Bytes a second that a node sends to others, at most, and takes from them, when copies
	// of shards move: at least 64Ki; 0: no limit. Default: 16Mi, half of what a good SD card
	// writes. A change restarts the nodes one at a time.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) == 0 || quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="moveRate must be 0, no limit, or at least 64Ki bytes a second: copies that are slower count as dead"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isInteger()",message="moveRate must be a whole number of bytes a second, such as 20Mi"
	// +optional
	MoveRate *resource.Quantity `json:"moveRate,omitempty"`
	// How long a node is dead before its copies are rebuilt elsewhere, and its volume may be
	// replaced. Default: 10m.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="self.endsWith('d') || self.endsWith('w') || self.endsWith('y') || duration(self) >= duration('30s')",message="replaceAfter must be at least 30s: a restart of a node would begin to copy its shards"
	// +optional
	ReplaceAfter Duration `json:"replaceAfter,omitempty"`

	// What holds for each database, as text in YAML: retention, limits of series, rates and
	// queries, and rules of retention by metric. Nodes and routers take a change without a
	// restart; a text that is wrong changes nothing, and the condition Degraded says why.
	// Empty: what is set above holds for all.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Databases string `json:"databases,omitempty"`

	// The routers, which speak the protocols of clients.
	// +kubebuilder:default={}
	// +optional
	Routers RoutersSpec `json:"routers,omitzero"`
	// Envoy before the routers.
	// +kubebuilder:default={}
	// +optional
	Envoy EnvoySpec `json:"envoy,omitzero"`
	// The Service that clients use. It has the name of the cluster.
	// +kubebuilder:default={}
	// +optional
	Service ServiceSpec `json:"service,omitzero"`
	// Where the shard map is kept. Default: an etcd that the operator runs.
	// +kubebuilder:default={managed: {}}
	// +optional
	Etcd EtcdSpec `json:"etcd,omitzero"`
	// Certificates of the connections inside the cluster.
	// +kubebuilder:default={mode: Operator}
	// +optional
	TLS TLSSpec `json:"tls,omitzero"`
	// What Prometheus is told.
	// +optional
	Monitoring MonitoringSpec `json:"monitoring,omitzero"`
	// What pods may do.
	// +kubebuilder:default={}
	// +optional
	Security SecuritySpec `json:"security,omitzero"`
	// What a new cluster begins with. Cannot be changed. Default: nothing.
	// +optional
	Bootstrap *BootstrapSpec `json:"bootstrap,omitempty"`
	// When the operator may restart pods for reasons of its own. Default: at any time.
	// +optional
	Maintenance *MaintenanceSpec `json:"maintenance,omitempty"`
	// While true the cluster sleeps: Envoy, routers, nodes and etcd stop in this order, and their
	// volumes are kept; false brings them back. Default: false.
	// +optional
	Hibernated bool `json:"hibernated,omitempty"`
	// While true the operator changes nothing that this spec asks for. Status goes on,
	// certificates are renewed, and pods that Kubernetes makes anew start. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// WALSync is when a node makes its log safe against a power cut.
//
// +kubebuilder:validation:Enum=always;interval
type WALSync string

// Values of WALSync.
const (
	WALSyncAlways   WALSync = "always"   // before each answer
	WALSyncInterval WALSync = "interval" // once a second
)

// SecuritySpec is what pods may do. They always run without root, capabilities, a
// writable root file system and, but for the operator, a token of the API server.
type SecuritySpec struct {
	// Let each component be reached only by those that need it, and by clients at the
	// ports for clients. Default: true.
	// +kubebuilder:default=true
	// +optional
	NetworkPolicies *bool `json:"networkPolicies,omitempty"`
	// Secret whose auth.yaml has users, tokens and rights: then nothing but health is answered
	// to somebody who has not shown who it is. Changes are taken without a restart. The
	// operator adds users of its own, for itself, for backups, and for metrics. Not set:
	// everybody who reaches a router may do everything.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	AuthSecretName string `json:"authSecretName,omitempty"`
	// Security settings of all pods, in place of user, group and fsGroup 65532 and the
	// seccomp profile RuntimeDefault; runAsNonRoot stays.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
}

// MonitoringSpec is what Prometheus is told. Without the definitions of the
// Prometheus operator the two monitors are left out, and status says so.
type MonitoringSpec struct {
	// Make a PodMonitor for each component. Default: false.
	// +optional
	PodMonitor bool `json:"podMonitor,omitempty"`
	// Make a ServiceMonitor for each component, where Prometheus selects those. Default: false.
	// +optional
	ServiceMonitor bool `json:"serviceMonitor,omitempty"`
	// How often metrics are read. Default: what Prometheus is set to.
	// +optional
	Interval Duration `json:"interval,omitempty"`
	// Labels of the monitors, for Prometheus to select them by.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}
