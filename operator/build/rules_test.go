package build_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/api/v1alpha1/schematest"
	"github.com/tickmesh/tickmesh/operator/build"
)

// choices are the lines of specs, by what they are about. Some of them, and some pairs,
// are refused.
var choices = [][]string{
	{"nodes: {count: 1}", "nodes: {count: 2}", "nodes: {count: 7, zones: {required: true}}", "nodes: {storage: {size: 1Gi}}",
		"nodes: {storage: {size: 20Gi, storageClassName: fast}}", "nodes: {storage: {size: 30Gi, storageClassName: fast, deletionPolicy: Delete}}",
		"nodes: {placement: {nodeSelector: {a: b}}, drained: [demo-node-0]}"},
	{"replication: 1", "replication: 3"},
	{"shards: 16"},
	{"walSync: always", "retention: 1y", "image: other:1", "replaceAfter: 1h"},
	{"routers: {count: 5}", "routers: {autoscaling: {max: 4}}"},
	{"envoy: {enabled: false}", "envoy: {accessLog: true, replicas: 1}", "envoy: {image: 'envoy:2', connectionsMax: 7}"},
	{"service: {type: LoadBalancer}", "service: {type: NodePort, tls: {}}", "service: {tls: {secretName: s}}",
		"service: {tls: {clientCASecretName: ca, hosts: [a.example.com]}}"},
	{"etcd: {managed: {storage: {size: 2Gi}}}", "etcd: {managed: {storage: {storageClassName: fast}}}",
		"etcd: {external: {endpoints: ['http://e:2379']}}", "etcd: {external: {endpoints: ['https://e:2379'], tlsSecretName: e}}"},
	{"tls: {mode: 'Off'}", "tls: {mode: CertManager, issuerRef: {name: ca}}",
		"tls: {mode: Secrets, secretNames: {node: a, router: b, etcd: c, operator: d}}"},
	{"monitoring: {podMonitor: true}", "monitoring: {serviceMonitor: true, labels: {a: b}}"},
	{"databases: '{}'"},
	{"security: {authSecretName: users}", "security: {networkPolicies: false}", "security: {podSecurityContext: {runAsUser: 7, runAsNonRoot: false}}"},
}

// drawn is a cluster as an API server keeps it, and the line of its spec of each of the
// choices; empty: the default.
type drawn struct {
	lines   []string
	object  schematest.Object
	cluster *v1alpha1.TickMeshCluster
}

// triesMax is how many specs are drawn until one is taken.
const triesMax = 20

// drawCluster draws specs until one is taken: changes of another one, if there is one.
func drawCluster(t *rapid.T, d *schematest.Definition, old *drawn) drawn {
	for range triesMax {
		lines := make([]string, len(choices))
		var before schematest.Object
		if old != nil {
			before = old.object
			copy(lines, old.lines)
		}
		for i, line := range choices {
			if old == nil || rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
				lines[i] = rapid.SampledFrom(append([]string{""}, line...)).Draw(t, "line")
			}
		}
		spec := "\nspec: {" + strings.Join(slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return s == "" }), ", ") + "}\n"
		object, err := d.Read("apiVersion: tickmesh.dev/v1alpha1\nkind: TickMeshCluster\nmetadata: {name: demo, namespace: ns}" + spec)
		if err != nil {
			t.Fatal(err)
		}
		if d.Check(object, before) != nil {
			continue
		}
		c := &v1alpha1.TickMeshCluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, c); err != nil {
			t.Fatal(err)
		}
		return drawn{lines, object, c}
	}
	t.Skip("none of the specs was taken")
	return drawn{}
}

func objectsOf(t *rapid.T, c *v1alpha1.TickMeshCluster, f build.Facts) map[string]build.Object {
	objects, err := build.Objects(c, f)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]build.Object{}
	for _, o := range objects {
		if byName[nameOf(o)] != nil {
			t.Fatalf("%s is made twice", nameOf(o))
		}
		byName[nameOf(o)] = o
	}
	return byName
}

// nameOf returns type and name of an object.
func nameOf(o build.Object) string {
	kind := fmt.Sprintf("%T", o)
	if strings.Contains(kind, "Unstructured") {
		kind = o.GetObjectKind().GroupVersionKind().Kind
	}
	return kind + "/" + o.GetName()
}

// Whatever change of the spec is taken, what Kubernetes does not let change stays; and
// what is not made any more is deleted, but for StatefulSets.
func TestChangesKeepImmutables(t *testing.T) {
	d := definition(t, "tickmeshclusters")
	rapid.Check(t, func(t *rapid.T) {
		first := drawCluster(t, d, nil)
		second := drawCluster(t, d, &first)
		f := facts(first.cluster)
		before := objectsOf(t, first.cluster, f)
		g := facts(second.cluster)
		g.NodeClaims = build.ClaimTemplateOf(before["*v1.StatefulSet/demo-node"].(*appsv1.StatefulSet))
		if s, ok := before["*v1.StatefulSet/demo-etcd"]; ok {
			g.EtcdClaims = build.ClaimTemplateOf(s.(*appsv1.StatefulSet))
		}
		after := objectsOf(t, second.cluster, g)
		unwanted := map[string]bool{}
		for _, o := range build.Unwanted(second.cluster, g) {
			unwanted[nameOf(o)] = true
			if after[nameOf(o)] != nil {
				t.Fatalf("%s is made, and deleted", nameOf(o))
			}
			if strings.Contains(nameOf(o), "StatefulSet") {
				t.Fatalf("%s is deleted", nameOf(o))
			}
		}
		for name, o := range before {
			now, stays := after[name]
			if !stays {
				_, is := o.(*corev1.ConfigMap) // of Envoy, whose pods may have it still: see inventory.UnusedEnvoyConfigs
				envoys := is && o.GetLabels()[build.LabelComponent] == build.ComponentEnvoy
				if !unwanted[name] && !envoys {
					t.Fatalf("%s is not made any more, and nobody deletes it", name)
				}
				continue
			}
			compareImmutables(t, name, o, now)
		}
	})
}

func compareImmutables(t *rapid.T, name string, before, after build.Object) {
	type fixed struct{ selector, claims, rest any }
	of := func(o build.Object) any {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			return fixed{o.Spec.Selector, o.Spec.VolumeClaimTemplates, []any{o.Spec.ServiceName, o.Spec.PodManagementPolicy}}
		case *appsv1.Deployment:
			return fixed{selector: o.Spec.Selector}
		case *corev1.Service:
			return fixed{rest: o.Spec.ClusterIP}
		case *corev1.ConfigMap:
			if o.Immutable != nil && *o.Immutable {
				return fixed{rest: o.Data}
			}
		}
		return nil
	}
	if a, b := of(before), of(after); !reflect.DeepEqual(a, b) {
		t.Fatalf("%s: %+v became %+v", name, a, b)
	}
}

// Selectors find the pods that they are there for, and pods may do nothing that they
// need not.
func TestObjectsFitTogether(t *testing.T) {
	d := definition(t, "tickmeshclusters")
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, d, nil).cluster
		objects := objectsOf(t, c, facts(c))
		templates := map[string]corev1.PodTemplateSpec{}
		for name, o := range objects {
			switch o := o.(type) {
			case *appsv1.StatefulSet:
				templates[name] = o.Spec.Template
				checkSelector(t, name, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
			case *appsv1.Deployment:
				templates[name] = o.Spec.Template
				checkSelector(t, name, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
			}
			if o.GetNamespace() != "ns" || o.GetLabels()[build.LabelCluster] != "demo" || len(o.GetOwnerReferences()) != 1 {
				t.Fatalf("%s: namespace, labels or owner: %v", name, o)
			}
		}
		for name, template := range templates {
			checkPod(t, name, template)
		}
		for name, o := range objects {
			switch o := o.(type) {
			case *corev1.Service:
				checkService(t, name, o, templates)
			case *policyv1.PodDisruptionBudget:
				selected(t, name, o.Spec.Selector.MatchLabels, templates)
			case *networkingv1.NetworkPolicy:
				if o.Name != "demo-backup" {
					checkPolicy(t, name, o, selected(t, name, o.Spec.PodSelector.MatchLabels, templates))
				}
			}
		}
	})
}

func checkSelector(t *rapid.T, name string, selector, has map[string]string) {
	if !labels.SelectorFromSet(selector).Matches(labels.Set(has)) {
		t.Fatalf("%s: selector %v does not find %v", name, selector, has)
	}
}

// selected returns the one template that a selector finds.
func selected(t *rapid.T, name string, selector map[string]string, templates map[string]corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	var found []corev1.PodTemplateSpec
	for _, template := range templates {
		if labels.SelectorFromSet(selector).Matches(labels.Set(template.Labels)) {
			found = append(found, template)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: selector %v finds %d kinds of pods", name, selector, len(found))
	}
	return found[0]
}

// served returns the ports of all containers of a pod.
func served(template corev1.PodTemplateSpec) (ports []corev1.ContainerPort) {
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		ports = append(ports, c.Ports...)
	}
	return ports
}

func checkService(t *rapid.T, name string, s *corev1.Service, templates map[string]corev1.PodTemplateSpec) {
	template := selected(t, name, s.Spec.Selector, templates)
	for _, port := range s.Spec.Ports {
		has := slices.ContainsFunc(served(template), func(p corev1.ContainerPort) bool {
			return p.Name == port.Name && p.ContainerPort == port.TargetPort.IntVal && p.ContainerPort == port.Port
		})
		if !has {
			t.Fatalf("%s: no container has port %s %d", name, port.Name, port.Port)
		}
	}
}

// checkPolicy tests that every port of the pods is open to somebody.
func checkPolicy(t *rapid.T, name string, p *networkingv1.NetworkPolicy, template corev1.PodTemplateSpec) {
	open := map[int32]bool{}
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.IntVal] = true
		}
	}
	for _, port := range served(template) {
		if !open[port.ContainerPort] {
			t.Fatalf("%s: nobody may connect to port %d", name, port.ContainerPort)
		}
		delete(open, port.ContainerPort)
	}
	if len(open) > 0 {
		t.Fatalf("%s: ports %v are open and nothing listens there", name, slices.Collect(maps.Keys(open)))
	}
}

func checkPod(t *rapid.T, name string, template corev1.PodTemplateSpec) {
	s := template.Spec
	if s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken || s.HostNetwork || s.HostPID ||
		s.SecurityContext.RunAsNonRoot == nil || !*s.SecurityContext.RunAsNonRoot {
		t.Fatalf("%s: the pod may do too much: %+v", name, s.SecurityContext)
	}
	if p := s.SecurityContext.SeccompProfile; p == nil || p.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Fatalf("%s: the pod has no default seccomp profile: %+v", name, p)
	}
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		if volumes[v.Name] {
			t.Fatalf("%s: volume %s is there twice", name, v.Name)
		}
		volumes[v.Name] = true
		if v.HostPath != nil || v.Secret != nil && v.Secret.SecretName == "" {
			t.Fatalf("%s: volume %+v", name, v)
		}
	}
	used := map[string]bool{}
	for _, c := range s.InitContainers {
		isSidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if !isSidecar && !strings.HasPrefix(c.Name, "certificate-") {
			t.Fatalf("%s: %s is no sidecar", name, c.Name)
		}
	}
	if keeps := build.KeepsKey(&s); keeps && volumes["tls"] && slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == "tls" && v.Secret != nil }) {
		t.Fatalf("%s: the pod makes its key, and has a Secret with another", name)
	}
	if len(s.Containers) != 1 {
		t.Fatalf("%s: %d containers", name, len(s.Containers))
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		checkContainer(t, name, c, volumes, used)
	}
	for v := range volumes {
		if !used[v] {
			t.Fatalf("%s: volume %s is not mounted", name, v)
		}
	}
}

func checkContainer(t *rapid.T, name string, c corev1.Container, volumes, used map[string]bool) {
	paths := map[string]bool{}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] && m.Name != "data" || paths[m.MountPath] {
			t.Fatalf("%s: mount %+v", name, m)
		}
		used[m.Name], paths[m.MountPath] = true, true
	}
	sc := c.SecurityContext
	if c.Image == "" || *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem || sc.Privileged != nil ||
		!slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || sc.Capabilities.Add != nil {
		t.Fatalf("%s: the container may do too much: %+v", name, sc)
	}
	for _, arg := range c.Args {
		checkFile(t, name, arg, paths)
	}
}

// checkFile tests that the file that an argument names is below a mount.
func checkFile(t *rapid.T, name, arg string, mounts map[string]bool) {
	_, file, _ := strings.Cut(arg, "=")
	if !strings.HasPrefix(file, "/") || file == corev1.TerminationMessagePathDefault {
		return
	}
	for mount := range mounts {
		if file == mount || strings.HasPrefix(file, mount+"/") {
			return
		}
	}
	t.Fatalf("%s: %s is on no volume", name, arg)
}
