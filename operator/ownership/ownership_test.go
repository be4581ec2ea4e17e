package ownership_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

func ptr[T any](v T) *T { return &v }

func TestCheckObject(t *testing.T) {
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "ns", UID: "now"}}
	owned := func(kind, name, uid string, controls bool) []metav1.OwnerReference {
		r := metav1.OwnerReference{Kind: kind, Name: name, Controller: &controls}
		r.UID = c.UID
		if uid != "now" {
			r.UID = "another"
		}
		return []metav1.OwnerReference{r}
	}
	other := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo-node", Namespace: "ns"}}
	for _, test := range []struct {
		name   string
		owners []metav1.OwnerReference
		labels map[string]string
		want   string // in the error; empty: none
	}{
		{name: "ours", owners: owned(v1alpha1.KindCluster, "demo", "now", true)},
		{name: "left over by a deletion that orphans", labels: build.Labels(c, build.ComponentNode)},
		{name: "of an earlier cluster", owners: owned(v1alpha1.KindCluster, "demo", "before", true), labels: build.Labels(c, build.ComponentNode), want: "Kubernetes deletes it"},
		{name: "of another cluster", owners: owned(v1alpha1.KindCluster, "demo-node", "x", true), labels: build.Labels(other, build.ComponentEnvoy), want: "belongs to TickMeshCluster demo-node"},
		{name: "left over of another cluster", labels: build.Labels(other, build.ComponentEnvoy), want: "does not belong to this cluster"},
		{name: "of another kind", owners: owned("Application", "demo", "x", true), want: "delete Application demo"},
		{name: "not controlled by us", owners: owned(v1alpha1.KindCluster, "demo", "now", false), want: "hand it over with `kubectl --namespace=ns label Service/demo-node app.kubernetes.io/managed-by=tickmesh-operator tickmesh.dev/cluster=demo`"},
		{name: "of nobody", want: "give the cluster another name"},
	} {
		err := ownership.CheckObject(c, "Service", &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "demo-node", OwnerReferences: test.owners, Labels: test.labels}})
		foreign := new(ownership.ForeignError)
		if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &foreign) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "Service demo-node exists")) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestOperators(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr(int32(15)), RenewTime: &metav1.MicroTime{Time: now.Add(-age)},
		}}
	}
	for _, test := range []struct {
		name   string
		holder string
		lease  *coordinationv1.Lease
		hidden bool
		want   ownership.Standing
	}{
		{name: "a new cluster", want: ownership.Free},
		{name: "ours", holder: "a", want: ownership.Acting},
		{name: "of one that runs", holder: "b", lease: lease("b-0", 5*time.Second), want: ownership.Excluded},
		{name: "of one whose clock is ahead", holder: "b", lease: lease("b-0", -time.Hour), want: ownership.Excluded},
		{name: "of one that is a little late", holder: "b", lease: lease("b-0", time.Minute), want: ownership.Excluded},
		{name: "of one that has ended", holder: "b", lease: lease("", 5*time.Second), want: ownership.Free},
		{name: "of one that was lost", holder: "b", lease: lease("b-0", 76*time.Second), want: ownership.Free},
		{name: "of one that is not there", holder: "b", want: ownership.Free},
		{name: "of one that cannot be looked at", holder: "b", hidden: true, want: ownership.Excluded},
		{name: "an empty lease", holder: "b", lease: &coordinationv1.Lease{}, want: ownership.Free},
	} {
		o := ownership.Operators{Self: "a", Holder: test.holder, Lease: test.lease, LeaseHidden: test.hidden, Now: now}
		if got := o.Decide(); got != test.want {
			t.Errorf("%s: %d, expected %d", test.name, got, test.want)
		}
	}
}
