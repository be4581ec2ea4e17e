package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NodeGroup is a group of storage nodes beside those of spec.nodes, on machines of another kind. What
// it leaves out is as spec.nodes has it; what it names takes the place of that as a whole.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storage) || !has(oldSelf.storage.storageClassName) || has(self.storage) && has(self.storage.storageClassName)",message="nodeGroups.storage.storageClassName cannot be taken away once it is set: volumes would be left as they are; name the class that they are to have"
type NodeGroup struct {
	// Its name, which is a part of those of its nodes: group arm of cluster demo has
	// demo-node-arm-0. It cannot be changed: a group of another name is another group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|-)(node|etcd)(-|$)')",message="nodeGroups.name cannot have the words node and etcd between its hyphens: its StatefulSet would have the name of another cluster's; choose another name"
	Name string `json:"name"`
	// How many. Nodes that are more join and the cluster rebalances; nodes that are less are
	// emptied first, the highest number first. A group that is taken from the list is emptied likewise.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	Count int32 `json:"count"`
	// The volume of each node of the group. Default: as of spec.nodes.
	// +optional
	Storage *NodeGroupStorage `json:"storage,omitempty"`
	// Processor and memory of each node of the group. Default: as of spec.nodes.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Where the pods of the group may run. Default: as of spec.nodes.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// Additions to the pods of the group. Default: as of spec.nodes. A change restarts them one
	// at a time.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// NodeGroupStorage describes the volumes of a group of nodes. What becomes of those that are not
// needed any more spec.nodes.storage.deletionPolicy says, for all groups.
type NodeGroupStorage struct {
	// Storage class. Default: as of spec.nodes. It can be changed: volumes are then replaced
	// one at a time, each when its node is empty.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Size in bytes. Default: as of spec.nodes. Volumes grow to it, if the storage class allows
	// it; one that is larger stays as it is.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be more than 0"
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}

// NodeGroupStatus describes a group of nodes.
type NodeGroupStatus struct {
	// Its name.
	Name string `json:"name"`
	// Nodes that are wanted; 0: it was taken from the spec, and is being emptied.
	// +optional
	WantedNodes int32 `json:"wantedNodes"`
	// Pods that there are.
	// +optional
	Nodes int32 `json:"nodes"`
	// Nodes that are caught up and serve.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`
}

// NodesOf returns what a group of nodes is to be, with what it leaves out as spec.nodes has it; the
// empty name is that of spec.nodes itself. It returns false, and spec.nodes without any node, for a group
// that the spec does not have.
func (s *TickMeshClusterSpec) NodesOf(group string) (nodes NodesSpec, ok bool) {
	nodes = *s.Nodes.DeepCopy()
	if group == "" {
		return nodes, true
	}
	nodes.Count = 0
	for i := range s.NodeGroups {
		if g := &s.NodeGroups[i]; g.Name == group {
			g.applyTo(&nodes)
			return nodes, true
		}
	}
	return nodes, false
}

func (g *NodeGroup) applyTo(nodes *NodesSpec) {
	nodes.Count = g.Count
	if g.Storage != nil && g.Storage.StorageClassName != nil {
		nodes.Storage.StorageClassName = g.Storage.StorageClassName
	}
	if g.Storage != nil && g.Storage.Size != nil {
		nodes.Storage.Size = g.Storage.Size.DeepCopy()
	}
	if g.Resources != nil {
		nodes.Resources = *g.Resources.DeepCopy()
	}
	if g.Placement != nil {
		nodes.Placement = *g.Placement.DeepCopy()
	}
	if g.PodTemplate != nil {
		nodes.PodTemplate = g.PodTemplate.DeepCopy()
	}
}

// NodeCount returns how many nodes are wanted, in all groups together.
func (s *TickMeshClusterSpec) NodeCount() int32 {
	count := s.Nodes.Count
	for i := range s.NodeGroups {
		count += s.NodeGroups[i].Count
	}
	return count
}

// NodeGroupNames returns the names of the groups, that of spec.nodes, which is empty, first.
func (s *TickMeshClusterSpec) NodeGroupNames() []string {
	names := []string{""}
	for i := range s.NodeGroups {
		names = append(names, s.NodeGroups[i].Name)
	}
	return names
}
