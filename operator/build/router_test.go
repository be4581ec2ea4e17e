package build_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// A new cluster waits for the nodes that are to hold shards, and a drain of one that is
// there restarts no router.
func TestInitialNodes(t *testing.T) {
	for _, c := range []struct {
		count   int32
		drained []string
		shards  int32 // as status has them
		want    int
	}{
		{count: 1, want: 1},
		{count: 2, want: 2},
		{count: 7, want: 3},
		{count: 3, drained: []string{"demo-node-0"}, want: 2},
		{count: 5, drained: []string{"demo-node-0"}, want: 3},
		{count: 3, drained: []string{"demo-node-8", "other-node-1"}, want: 3},
		{count: 1, drained: []string{"demo-node-0"}, want: 1},
		{count: 3, drained: []string{"demo-node-0"}, shards: 128, want: 3},
	} {
		cluster := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "ns"}}
		cluster.Spec.Nodes.Count, cluster.Spec.Nodes.Drained, cluster.Status.Shards = c.count, c.drained, c.shards
		cluster.Spec.Etcd.Managed = &v1alpha1.ManagedEtcd{}
		args := build.RouterDeployment(cluster, build.Facts{}).Spec.Template.Spec.Containers[0].Args
		if want := fmt.Sprintf("--initial-nodes=%d", c.want); !slices.Contains(args, want) {
			t.Errorf("%+v: want %s in %q", c, want, args)
		}
	}
}
