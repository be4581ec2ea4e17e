package plugin

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// grouped is a cluster of two nodes, and one in the group arm.
func grouped() (*v1alpha1.TickMeshCluster, *tickmesh.Status) {
	c, s := demo(2), meshOf(3)
	size := resource.MustParse("2Gi")
	c.Spec.NodeGroups = []v1alpha1.NodeGroup{{Name: "arm", Count: 1, Storage: &v1alpha1.NodeGroupStorage{Size: &size}}}
	c.Status.ReadyNodes, c.Status.NodeGroups = 3, []v1alpha1.NodeGroupStatus{{Name: "arm", WantedNodes: 1, Nodes: 1, ReadyNodes: 1}}
	c.Status.NodeStatuses = append(c.Status.NodeStatuses, v1alpha1.NodeStatus{Name: "demo-node-arm-0", Group: "arm", Machine: "pi-9", Alive: true})
	s.Nodes[2].Node = "demo-node-arm-0"
	return c, s
}

func TestStatusOfGroups(t *testing.T) {
	c, s := grouped()
	w := newWorld(t, c)
	w.status = s
	w.wants("status demo", "3 of 3 nodes ready", "Group arm: 1 of 1 nodes ready", "demo-node-arm-0  pi-9")
	w.wants("top --once", "demo-node-arm-0")
}

// A plan of one group leaves the nodes of others as they are.
func TestPlanOfGroups(t *testing.T) {
	for _, test := range []struct {
		line            string
		added, drained  []string
		capacityOfFirst uint64
	}{
		{"plan --replicas 3", []string{"demo-node-2"}, nil, 10 << 30},
		{"plan --replicas 3 --group arm", []string{"demo-node-arm-1", "demo-node-arm-2"}, nil, 2 << 30},
		{"plan --replicas 0 --group arm", nil, []string{"demo-node-arm-0"}, 0},
		{"plan --replicas 2 --group big", []string{"demo-node-big-0", "demo-node-big-1"}, nil, 10 << 30},
		{"plan --drain demo-node-arm-0", nil, []string{"demo-node-arm-0"}, 0},
	} {
		c, s := grouped()
		w := newWorld(t, c)
		w.status, w.forecast = s, &tickmesh.Forecast{}
		w.wants(test.line, "demo: 3 nodes now")
		change := w.asked[0]
		var added []string
		for _, n := range change.Added {
			added = append(added, n.Node)
		}
		if !slices.Equal(added, test.added) || !slices.Equal(change.Drained, test.drained) || len(change.Undrained) > 0 {
			t.Errorf("%s: %+v", test.line, change)
		}
		if len(added) > 0 && change.Added[0].CapacityBytes != test.capacityOfFirst {
			t.Errorf("%s: %d bytes", test.line, change.Added[0].CapacityBytes)
		}
	}
	c, _ := grouped()
	w := newWorld(t, c)
	w.refuses("plan --replicas 0", "expected at least 1")
	w.refuses("plan --replicas 1 --group b-node", "no such group of nodes: b-node")
	w.refuses("plan --storage-class fast --group big", "no such group of nodes: big")
}
