package plugin

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// What another image would restart is told in order, and what would be refused is refused.
func TestPlanUpgrade(t *testing.T) {
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	c.Status.Version = "0.1.0"
	c.Status.Etcd = &v1alpha1.EtcdStatus{Members: []v1alpha1.EtcdMemberStatus{{Name: "demo-etcd-0"}}}
	c.Status.NodeStatuses = []v1alpha1.NodeStatus{{Name: "demo-node-0"}, {Name: "demo-node-1"}}
	var out bytes.Buffer
	if err := planUpgrade(c, "tickmesh:0.2.0").write(&out); err != nil {
		t.Fatal(err)
	}
	const want = `demo: 0.1.0 now, tickmesh:0.2.0 then
In this order, each when the one before is ready:
  etcd: one at a time, as demo-etcd-0
  node: one at a time, as demo-node-1, demo-node-0
  router: new pods beside the old ones
`
	if out.String() != want {
		t.Fatalf("%s", out.String())
	}
	c.Status.Maintenance = &v1alpha1.MaintenanceStatus{Until: &metav1.Time{Time: time.Date(2026, 1, 3, 1, 0, 0, 0, time.UTC)}}
	out.Reset()
	if err := planUpgrade(c, "tickmesh:0.2.0").write(&out); err != nil || !strings.Contains(out.String(), "opens at 2026-01-03T01:00:00Z. In this order") {
		t.Fatal(err, out.String())
	}
	if r := planUpgrade(c, "tickmesh:0.3.0"); !strings.Contains(r.Refusal, "upgrade to 0.2 first") || len(r.Steps) > 0 {
		t.Fatalf("%+v", r)
	}
	c.Status.NewestVersion = "0.2.0" // of nodes that are away
	if r := planUpgrade(c, "tickmesh:0.1.9"); !strings.Contains(r.Refusal, "older programs") {
		t.Fatalf("%+v", r)
	}
}
