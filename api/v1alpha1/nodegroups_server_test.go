package v1alpha1_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// A real API server refuses groups whose names could be those of other clusters, that are there twice, or
// that are too few nodes for the copies.
func TestServerChecksNodeGroups(t *testing.T) {
	api := serve(t)
	create := func(name string, nodes int32, groups ...v1alpha1.NodeGroup) error {
		c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		c.Spec.Nodes.Count, c.Spec.NodeGroups = nodes, groups
		if err := api.Create(t.Context(), c); err != nil {
			return err
		}
		return api.Delete(t.Context(), c)
	}
	group := func(name string, count int32) v1alpha1.NodeGroup { return v1alpha1.NodeGroup{Name: name, Count: count} }
	for _, test := range []struct {
		name   string
		nodes  int32
		groups []v1alpha1.NodeGroup
		want   string
	}{
		{"a", 1, []v1alpha1.NodeGroup{group("arm", 1), group("rpi-4", 0)}, ""},
		{"a", 3, []v1alpha1.NodeGroup{group("b-node", 1)}, "choose another name"},
		{"a", 3, []v1alpha1.NodeGroup{group("etcd", 1)}, "choose another name"},
		{"a", 3, []v1alpha1.NodeGroup{group("arm", 1), group("arm", 1)}, "Duplicate"},
		{"a", 3, []v1alpha1.NodeGroup{group("4", 1)}, "nodeGroups[0].name"},
		{"a", 1, []v1alpha1.NodeGroup{group("arm", 0)}, "raise nodes.count, or that of a group"},
		{"a", 200, []v1alpha1.NodeGroup{group("arm", 57)}, "256 together"},
		{"a23456789-123456789-123456789-123456789b", 3, []v1alpha1.NodeGroup{group("abcdefg", 1)}, "46 letters"},
	} {
		err := create(test.name, test.nodes, test.groups...)
		if err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		check(t, test.name, err, test.want)
	}
	large := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: "default"}}
	for i := range 12 {
		large.Spec.NodeGroups = append(large.Spec.NodeGroups, group(string(rune('a'+i)), 1))
	}
	if err := api.Create(t.Context(), large); err != nil {
		t.Error(err)
	}
	large.Spec.NodeGroups = nil
	if err := api.Update(t.Context(), large); err != nil {
		t.Error(err)
	}
}
