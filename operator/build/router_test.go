package build_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// Routers are told the names by which clients ask, each once, and any only if that is said.
func TestHTTPHosts(t *testing.T) {
	for _, c := range []struct {
		service string
		lb      []string
		want    string
	}{
		{service: "{}", want: "demo.ns"},
		{service: "{type: NodePort}", want: "demo.ns"},
		{service: "{type: LoadBalancer}", lb: []string{"abc.elb.example.net"}, want: "demo.ns,abc.elb.example.net"},
		{service: "{type: LoadBalancer, annotations: {external-dns.alpha.kubernetes.io/hostname: 'A.example.com., b.example.com'}, hosts: [b.example.com, '*.c.example.com']}",
			want: "demo.ns,b.example.com,*.c.example.com,a.example.com"},
		{service: "{tls: {secretName: s, hosts: [10.1.2.3, 'fd00::1', t.example.com]}}", want: "demo.ns,t.example.com"},
		{service: "{type: LoadBalancer, hosts: ['*']}", want: "demo.ns,*"},
		{service: "{type: LoadBalancer, annotations: {external-dns.alpha.kubernetes.io/hostname: 'a b,--pprof'}}", want: "demo.ns"},
	} {
		cluster := cluster(t, "  service: "+c.service+"\n")
		f := facts(cluster)
		f.LoadBalancerHosts = c.lb
		args := build.RouterDeployment(cluster, f).Spec.Template.Spec.Containers[0].Args
		if want := "--http-hosts=" + c.want; !slices.Contains(args, want) {
			t.Errorf("%s: want %s in %q", c.service, want, args)
		}
	}
}

// Metrics of routers are asked at a port of their own, that the policies open to all pods, and at
// the port for clients only while a router runs that has no other.
func TestRouterMetrics(t *testing.T) {
	for _, c := range []struct {
		facts   build.Facts
		port    string // of the monitor
		hasPort bool   // for metrics
		open    []int  // ports that all pods reach
	}{
		{build.Facts{}, "http-metrics", true, []int{build.PortMetrics}},
		{build.Facts{MetricsAtHTTPPort: true}, "http", true, []int{build.PortHTTP, build.PortMetrics}},
		{build.Facts{MetricsAtHTTPPort: true, NoMetricsPort: true}, "http", false, []int{build.PortHTTP, build.PortMetrics}},
	} {
		cluster := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "ns"}}
		cluster.Spec.Etcd.Managed, cluster.Spec.Monitoring.PodMonitor = &v1alpha1.ManagedEtcd{}, true
		endpoints, _, _ := unstructured.NestedSlice(build.Monitor(cluster, c.facts, build.KindPodMonitor, build.ComponentRouter).Object, "spec", "podMetricsEndpoints")
		if port := endpoints[0].(map[string]any)["port"]; port != c.port {
			t.Errorf("%+v: the monitor asks %v", c, port)
		}
		pod := build.RouterDeployment(cluster, c.facts).Spec.Template.Spec
		listens := slices.ContainsFunc(pod.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "TICKMESH_METRICS_ADDR" })
		if build.HasMetricsPort(&pod) != c.hasPort || listens != c.hasPort {
			t.Errorf("%+v: %+v", c, pod.Containers[0])
		}
		pod.Containers = slices.Insert(pod.Containers, 0, corev1.Container{Name: "proxy", Ports: []corev1.ContainerPort{{Name: "http-proxy"}}})
		if build.HasMetricsPort(&pod) != c.hasPort {
			t.Errorf("%+v: another container before it hides the port", c)
		}
		var open []int
		for _, rule := range build.NetworkPolicy(cluster, c.facts, build.ComponentRouter).Spec.Ingress {
			for _, from := range rule.From {
				if from.PodSelector != nil {
					continue
				}
				for _, port := range rule.Ports {
					open = append(open, port.Port.IntValue())
				}
			}
		}
		if !slices.Equal(open, c.open) {
			t.Errorf("%+v: open to all pods are %v", c, open)
		}
	}
}
