package build

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Object is any object of Kubernetes; controller-runtime calls it client.Object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Components of a cluster: values of LabelComponent.
const (
	ComponentNode   = "node"
	ComponentEtcd   = "etcd"
	ComponentRouter = "router"
	ComponentEnvoy  = "envoy"
	ComponentBackup = "backup"
	ComponentRescue = "rescue"
)

// Labels and annotations.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelCluster   = v1alpha1.Group + "/cluster"
	// LabelNodeGroup of what belongs to a group of nodes has its name. That of spec.nodes has none.
	LabelNodeGroup = v1alpha1.Group + "/node-group"

	// AnnotationZone of a node's pod has the zone of its machine. The operator writes it
	// when the pod is scheduled, and the node waits for it.
	AnnotationZone = v1alpha1.Group + "/zone"
	// AnnotationConfigHash of a pod template changes with configuration that is not read
	// again when it changes.
	AnnotationConfigHash = v1alpha1.Group + "/config-hash"

	appName      = "tickmesh"
	operatorName = "tickmesh-operator" // name label of the operator's pods, and manager
)

// Ports of the components.
const (
	PortLine        = 6180 // router, Envoy: InfluxDB line protocol over TCP
	PortPut         = 6181 // router, Envoy: OpenTSDB put lines over TCP
	PortHTTP        = 6182 // router, Envoy: HTTP
	PortGRPC        = 6183 // router, Envoy: gRPC
	PortMetrics     = 6184 // router: metrics and health
	PortNodeRPC     = 6190 // node: other nodes and routers
	PortNodeHTTP    = 6191 // node: metrics and health
	PortEtcdClient  = 2379
	PortEtcdPeer    = 2380
	PortEtcdMetrics = 2381 // etcd: metrics and health, without TLS
)

// Name returns the name of a component's objects: demo-node, demo-etcd, and so on.
func Name(c *v1alpha1.TickMeshCluster, component string) string { return c.Name + "-" + component }

// ClientServiceName returns the name of the Service that clients use.
func ClientServiceName(c *v1alpha1.TickMeshCluster) string { return c.Name }

// PodName returns the name of a pod of a StatefulSet. A node's id is the name of its pod,
// and so is the name of a member of etcd.
func PodName(c *v1alpha1.TickMeshCluster, component string, ordinal int32) string {
	return fmt.Sprintf("%s-%d", Name(c, component), ordinal)
}

// PodNames returns the names of the first n pods of a StatefulSet.
func PodNames(c *v1alpha1.TickMeshCluster, component string, n int32) []string {
	names := make([]string, 0, max(n, 0))
	for i := range n {
		names = append(names, PodName(c, component, i))
	}
	return names
}

// NodeSetName returns the name of the StatefulSet of a group of nodes, which begins those of its
// nodes. The group of spec.nodes has an empty name.
//
// No two clusters of a namespace have the same: what comes after the last word `node` between hyphens is
// a group's name, which has no such word, and what comes before it a cluster's. Nor does one end in the
// word `etcd`, as that of another cluster's etcd does.
func NodeSetName(c *v1alpha1.TickMeshCluster, group string) string {
	if group == "" {
		return Name(c, ComponentNode)
	}
	return Name(c, ComponentNode) + "-" + group
}

// NodeName returns the name of a node, and its pod.
func NodeName(c *v1alpha1.TickMeshCluster, group string, ordinal int) string {
	return NodeSetName(c, group) + "-" + strconv.Itoa(ordinal)
}

// groupName is what the names of groups are like, as the definition says, but for their words.
var groupName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// NodeOf takes the name of a node apart, and returns false if it is none of the cluster.
func NodeOf(c *v1alpha1.TickMeshCluster, name string) (group string, ordinal int, ok bool) {
	rest, ok := strings.CutPrefix(name, Name(c, ComponentNode)+"-")
	if !ok {
		return "", 0, false
	}
	digits := rest
	if at := strings.LastIndex(rest, "-"); at >= 0 {
		group, digits = rest[:at], rest[at+1:]
		if words := strings.Split(group, "-"); !groupName.MatchString(group) || slices.Contains(words, ComponentNode) || slices.Contains(words, ComponentEtcd) {
			return "", 0, false
		}
	}
	ordinal, err := strconv.Atoi(digits)
	return group, ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits
}

// NodeNames returns the names of the nodes that are wanted, of all groups.
func NodeNames(c *v1alpha1.TickMeshCluster) (names []string) {
	for _, group := range c.Spec.NodeGroupNames() {
		nodes, _ := c.Spec.NodesOf(group)
		for ordinal := range nodes.Count {
			names = append(names, NodeName(c, group, int(ordinal)))
		}
	}
	return names
}

// volumeData is the name of the claim template of StatefulSets.
const volumeData = "data"

// ClaimName returns the name of the claim of a pod of a StatefulSet.
func ClaimName(podName string) string { return volumeData + "-" + podName }

// PodOfClaim returns the name of the pod that a claim of a StatefulSet belongs to; empty: it is of none.
func PodOfClaim(claimName string) string {
	pod, ok := strings.CutPrefix(claimName, volumeData+"-")
	if !ok {
		return ""
	}
	return pod
}

// PodAddress returns the name under which a pod of a StatefulSet is reached.
func PodAddress(c *v1alpha1.TickMeshCluster, component, podName string) string {
	return podName + "." + ServiceAddress(c, Name(c, component))
}

// ServiceAddress returns the name under which a Service of the cluster's namespace is
// reached.
func ServiceAddress(c *v1alpha1.TickMeshCluster, service string) string {
	return service + "." + c.Namespace + ".svc"
}

// Selector returns the labels that select the pods of a component. They never change.
func Selector(c *v1alpha1.TickMeshCluster, component string) map[string]string {
	return map[string]string{LabelName: appName, LabelInstance: c.Name, LabelComponent: component}
}

// OperatorSelector returns the labels that select the operator's own pods, in whichever namespace it runs.
func OperatorSelector() map[string]string { return map[string]string{LabelName: operatorName} }

// Labels returns the labels of a component's objects. The claims of a StatefulSet have
// them, too, so they never change.
func Labels(c *v1alpha1.TickMeshCluster, component string) map[string]string {
	labels := map[string]string{LabelManagedBy: operatorName, LabelCluster: c.Name}
	maps.Copy(labels, Selector(c, component))
	return labels
}

// meta returns the metadata of an object that belongs to a cluster.
func meta(c *v1alpha1.TickMeshCluster, component, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: c.Namespace, Labels: Labels(c, component), OwnerReferences: []metav1.OwnerReference{ownedBy(c)},
	}
}

func ownedBy(c *v1alpha1.TickMeshCluster) metav1.OwnerReference {
	return *metav1.NewControllerRef(c, v1alpha1.GroupVersion().WithKind(v1alpha1.KindCluster))
}

// StoreName returns the name that a cluster's shard map is kept under in etcd. An external one
// may be shared, so there it is what the status says, which NewStoreName has decided.
func StoreName(c *v1alpha1.TickMeshCluster) string {
	if external := c.Spec.Etcd.External; external != nil {
		return cmp.Or(external.ClusterName, c.Status.StoreName, c.Name)
	}
	return c.Name
}

// NewStoreName returns the StoreName of a cluster with an external etcd whose spec and status
// have none. One that was made by an older operator keeps its own name, which the arguments
// of its nodes have; nodes is nil if there are none. A new one gets a name that no cluster of
// another namespace has.
func NewStoreName(c *v1alpha1.TickMeshCluster, nodes *appsv1.StatefulSet) string {
	if nodes != nil {
		for _, argument := range nodes.Spec.Template.Spec.Containers[0].Args {
			if name, is := strings.CutPrefix(argument, argumentCluster); is {
				return name
			}
		}
	}
	if c.Status.Shards > 0 {
		return c.Name // its nodes were taken away
	}
	sum := sha256.Sum256([]byte(c.Namespace + "/" + c.Name))
	return c.Name + "-" + hex.EncodeToString(sum[:storeNameHashBytes])
}

const (
	argumentCluster    = "--cluster="
	storeNameHashBytes = 4
)

func hostNames(service string) []string { return []string{service, service + ".cluster.local"} }
