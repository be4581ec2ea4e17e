package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func TestNodeGroupsAreChecked(t *testing.T) {
	d := load(t, "tickmeshclusters")
	groups := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{name: g%d, count: 1}", i))
		}
		return "nodeGroups: [" + strings.Join(list, ", ") + "]"
	}
	const long = "a23456789-123456789-123456789-123456789-"
	for _, test := range []struct{ name, spec, want string }{
		{"demo", "nodeGroups: []", ""},
		{"demo", "nodeGroups: [{name: arm, count: 2}]", ""},
		{"demo", "nodeGroups: [{name: rpi-4, count: 0}]", ""},
		{"demo", "nodeGroups: [{name: arm}]", "count"},
		{"demo", "nodeGroups: [{name: arm, count: -1}]", "count"},
		{"demo", "nodeGroups: [{name: arm, count: 1}, {name: arm, count: 1}]", "Duplicate"},
		{"demo", "nodeGroups: [{name: Arm, count: 1}]", "name"},
		{"demo", "nodeGroups: [{name: 4, count: 1}]", "name"},
		{"demo", "nodeGroups: [{name: '4', count: 1}]", "name"},
		{"demo", "nodeGroups: [{name: arm-, count: 1}]", "name"},
		{"demo", "nodeGroups: [{name: a.b, count: 1}]", "name"},
		{"demo", "nodeGroups: [{name: a23456789-123456789-1, count: 1}]", "name"},
		{"demo", "nodeGroups: [{name: node, count: 1}]", "choose another name"},
		{"demo", "nodeGroups: [{name: etcd, count: 1}]", "choose another name"},
		{"demo", "nodeGroups: [{name: b-node, count: 1}]", "choose another name"},
		{"demo", "nodeGroups: [{name: b-node-c, count: 1}]", "choose another name"},
		{"demo", "nodeGroups: [{name: node-b, count: 1}]", "choose another name"},
		{"demo", "nodeGroups: [{name: b-etcd, count: 1}]", "choose another name"},
		{"demo", "nodeGroups: [{name: nodes, count: 1}, {name: etcds, count: 1}]", ""},
		{long[:39] + "b", "nodeGroups: [{name: abcdef, count: 1}]", ""},
		{long[:39] + "b", "nodeGroups: [{name: abcdefg, count: 1}]", "46 letters"},
		{"demo", groups(12), ""},
		{"demo", groups(13), "nodeGroups"},
		{"demo", "nodes: {count: 1}, nodeGroups: [{name: arm, count: 1}]", ""},
		{"demo", "nodes: {count: 1}, nodeGroups: [{name: arm, count: 0}]", "raise nodes.count, or that of a group"},
		{"demo", "nodes: {count: 200}, nodeGroups: [{name: arm, count: 56}]", ""},
		{"demo", "nodes: {count: 200}, nodeGroups: [{name: arm, count: 57}]", "256 together"},
		{"demo", "nodeGroups: [{name: arm, count: 1, storage: {size: 0}}]", "more than 0"},
		{"demo", "nodeGroups: [{name: arm, count: 1, storage: {size: 1Gi, storageClassName: sd}, resources: {limits: {memory: 512Mi}}, placement: {nodeSelector: {kubernetes.io/arch: arm64}}}]", ""},
		{"demo", "nodeGroups: [{name: arm, count: 1, podTemplate: {labels: {tickmesh.dev/cluster: mine}}}]", "choose another key"},
		{"demo", "nodes: {zones: {required: true, topologyKey: rack}}, nodeGroups: [{name: arm, count: 1, podTemplate: {topologySpreadConstraints: [{topologyKey: rack}]}}]", "whenUnsatisfiable to DoNotSchedule"},
		{"demo", "nodes: {zones: {required: true, topologyKey: rack}}, nodeGroups: [{name: arm, count: 1, podTemplate: {topologySpreadConstraints: [{topologyKey: other}]}}]", ""},
		{"demo", "nodes: {drained: [demo-node-1, demo-node-arm-0, demo-node-rpi-4-10]}", ""},
		{"demo", "nodes: {drained: [demo-node-4-0]}", "takes names of nodes"},
		{"demo", "nodes: {drained: [demo-node-arm-00]}", "takes names of nodes"},
	} {
		object, err := d.Read(document(v1alpha1.KindCluster, test.name, test.spec))
		if err == nil {
			err = d.Check(object, nil)
		}
		check(t, test.name+": "+test.spec, err, test.want)
	}
}

func TestChangesOfNodeGroupsAreChecked(t *testing.T) {
	d := load(t, "tickmeshclusters")
	for _, test := range []struct{ before, after, want string }{
		{"", "nodeGroups: [{name: arm, count: 2}]", ""},
		{"nodeGroups: [{name: arm, count: 2}]", "", ""},
		{"nodeGroups: [{name: arm, count: 2}]", "nodeGroups: [{name: big, count: 1}, {name: arm, count: 0}]", ""},
		{"nodes: {count: 1}, nodeGroups: [{name: arm, count: 2}]", "nodes: {count: 1}", "raise nodes.count"},
		{"nodeGroups: [{name: arm, count: 2, storage: {storageClassName: sd}}]", "nodeGroups: [{name: arm, count: 2, storage: {storageClassName: fast}}]", ""},
		{"nodeGroups: [{name: arm, count: 2, storage: {storageClassName: sd}}]", "nodeGroups: [{name: arm, count: 2, storage: {size: 1Gi}}]", "storageClassName cannot be taken away"},
		{"nodeGroups: [{name: arm, count: 2, storage: {storageClassName: sd}}]", "nodeGroups: [{name: arm, count: 2}]", "storageClassName cannot be taken away"},
		{"nodeGroups: [{name: arm, count: 2, storage: {size: 2Gi}}]", "nodeGroups: [{name: arm, count: 2, storage: {size: 1Gi}}]", ""},
	} {
		old, err := d.Read(document(v1alpha1.KindCluster, "demo", test.before))
		if err == nil {
			err = d.Check(old, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", test.before, err)
		}
		object, err := d.Read(document(v1alpha1.KindCluster, "demo", test.after))
		if err == nil {
			err = d.Check(object, old)
		}
		check(t, test.before+" => "+test.after, err, test.want)
	}
}

// What a group names takes the place of what spec.nodes has; the rest is as there.
func TestNodesOf(t *testing.T) {
	var c v1alpha1.TickMeshCluster
	if err := load(t, "tickmeshclusters").Into(document(v1alpha1.KindCluster, "demo",
		"nodes: {count: 2, storage: {size: 5Gi, storageClassName: fast, deletionPolicy: Delete}, placement: {nodeSelector: {a: b}}, podTemplate: {labels: {x: z}}}, "+
			"nodeGroups: [{name: plain, count: 1}, {name: arm, count: 3, storage: {size: 1Gi}, placement: {}, podTemplate: {}, resources: {limits: {memory: 512Mi}}}]"), &c); err != nil {
		t.Fatal(err)
	}
	if is, ok := c.Spec.NodesOf(""); !ok || is.Count != 2 || is.Storage.Size.String() != "5Gi" {
		t.Errorf("spec.nodes: %+v", is)
	}
	if is, ok := c.Spec.NodesOf("plain"); !ok || is.Count != 1 || is.Storage.Size.String() != "5Gi" || is.Placement.NodeSelector["a"] != "b" || is.PodTemplate.Labels["x"] != "z" {
		t.Errorf("plain: %+v", is)
	}
	is, ok := c.Spec.NodesOf("arm")
	if !ok || is.Count != 3 || is.Storage.Size.String() != "1Gi" || *is.Storage.StorageClassName != "fast" || is.Storage.DeletionPolicy != v1alpha1.DeletionPolicyDelete ||
		is.Placement.NodeSelector != nil || is.PodTemplate.Labels != nil || is.Resources.Limits.Memory().String() != "512Mi" || is.Resources.Requests != nil {
		t.Errorf("arm: %+v", is)
	}
	if is, ok := c.Spec.NodesOf("gone"); ok || is.Count != 0 {
		t.Errorf("gone: %+v", is)
	}
	if n := c.Spec.NodeCount(); n != 6 {
		t.Errorf("%d nodes", n)
	}
}
