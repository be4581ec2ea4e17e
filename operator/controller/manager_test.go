package controller_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/controller"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/reconcile"
)

const waitMax = time.Minute

// eventually waits for something that has to come.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > waitMax {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// The manager hears of what happens to a cluster by itself: it is elected, its cache and
// its watches see what is ours. Tests with a manager are named TestManager…, and run under the race detector, too.
func TestManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.api = apiServer.client // the manager writes by a client of its own
	scheme, err := controller.Scheme()
	w.must(err)
	manager, err := ctrl.NewManager(apiServer.operatorConfig, ctrl.Options{
		Scheme: scheme, Cache: controller.CacheOptions([]string{w.namespace}), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "operator", LeaderElectionNamespace: w.namespace, LeaderElectionReleaseOnCancel: true,
		LeaderElectionConfig: apiServer.config, // those rights are of another role
	})
	w.must(err)
	metrics, err := reconcile.NewMetrics(prometheus.NewRegistry())
	w.must(err)
	w.must(controller.NewCluster(&reconcile.Scope{
		Client: manager.GetClient(), Reader: manager.GetAPIReader(), Events: manager.GetEventRecorder(objects.FieldOwner),
		Now: time.Now, PKI: pki.Defaults(), Metrics: metrics, Meshes: mesh.NewPool(w.mesh.Open),
		OpenEtcd: func([]string, *tls.Config) (etcd.Admin, error) { return &fakeEtcd{}, nil },
		Defaults: build.Facts{Image: "tickmesh:test", EnvoyImage: "envoy:test", OperatorNamespace: "operators"},
	}).SetUp(manager, 1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()

	w.create(small)
	w.eventually("its objects are made, and the status", func() bool {
		return w.found(w.api.Get(ctx, w.key("demo-node"), &corev1.Service{})) && w.condition(v1alpha1.ConditionProgressing).Reason != ""
	})
	w.must(w.api.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "demo-node", Namespace: w.namespace}}))
	w.eventually("what somebody deletes is made again", func() bool {
		return w.found(w.api.Get(ctx, w.key("demo-node"), &corev1.Service{}))
	})
	w.must(w.api.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-router-tls", Namespace: w.namespace}}))
	w.eventually("a certificate, too", func() bool {
		return w.found(w.api.Get(ctx, w.key("demo-router-tls"), &corev1.Secret{}))
	})
	w.eventually("an event tells of it", func() bool {
		var list corev1.EventList
		w.must(w.api.List(ctx, &list, client.InNamespace(w.namespace)))
		return len(list.Items) > 0
	})
	w.must(w.api.Delete(ctx, w.cluster()))
	w.eventually("the cluster is gone", func() bool {
		return !w.found(w.api.Get(ctx, w.key(clusterName), &v1alpha1.TickMeshCluster{}))
	})
	cancel()
	w.must(<-ended)
}
