package controller_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// rules has a spec that breaks each rule of the definition, once, and what the API server
// says then; before is the spec that it replaces, if the rule is about a change.
var rules = []struct {
	before, spec, want string
	change             bool
}{
	{spec: "nodes: {count: 1}", want: "raise nodes.count"},
	{spec: "retention: 59m", want: "at least 1h"},
	{spec: "replaceAfter: 29s", want: "at least 30s"},
	{spec: "moveRate: -1", want: "moveRate must be 0"},
	{spec: "moveRate: 100000001m", want: "whole number of bytes"},
	{spec: "nodes: {storage: {size: 0}}", want: "more than 0"},
	{spec: "etcd: {managed: {storage: {size: 0}}}", want: "more than 0"},
	{spec: "routers: {autoscaling: {min: 3, max: 2}}", want: "raise max, or lower min"},
	{spec: "etcd: {managed: {}, external: {endpoints: ['http://e:2379']}}", want: "not both"},
	{spec: "etcd: {external: {endpoints: ['https://e:2379']}}", want: "tlsSecretName"},
	{spec: "tls: {mode: CertManager}", want: "issuerRef"},
	{spec: "tls: {mode: Secrets}", want: "secretNames"},
	{spec: "tls: {mode: Secrets, secretNames: {node: a, router: a, operator: a}}", want: "secretNames.etcd"},
	{spec: "tls: {mode: 'Off'}\nservice: {tls: {}}", want: "needs a certificate"},
	{spec: "service: {tls: {clientCASecretName: s}}\nenvoy: {enabled: false}", want: "needs Envoy"},
	{spec: "service: {loadBalancerIP: 10.0.0.1}", want: "LoadBalancer"},
	{change: true, spec: "nodes: {count: 1}", want: "raise nodes.count"},
	{change: true, spec: "replication: 3", want: "replication cannot be changed"},
	{change: true, spec: "shards: 64", want: "shards cannot be changed"},
	{change: true, spec: "tls: {mode: 'Off'}", want: "tls.mode cannot be changed"},
	{change: true, spec: "nodes: {storage: {size: 9Gi}}", want: "size can only grow"},
	{change: true, spec: "nodes: {storage: {storageClassName: fast}}", want: "storageClassName cannot be changed"},
	{change: true, spec: "etcd: {managed: {storage: {size: 1Mi}}}", want: "size can only grow"},
	{change: true, spec: "etcd: {managed: {storage: {storageClassName: fast}}}", want: "storageClassName cannot be changed"},
	{change: true, spec: "etcd: {external: {endpoints: ['http://e:2379']}}", want: "between managed and external"},
	{
		change: true, before: "etcd: {external: {endpoints: ['http://e:2379']}}",
		spec: "etcd: {external: {endpoints: ['http://e:2379'], clusterName: x}}", want: "clusterName cannot be changed",
	},
}

// The API server refuses what breaks a rule, and says what to do.
func TestRules(t *testing.T) {
	t.Parallel()
	s := kubernetes(t)
	namespace := s.namespace(t)
	raw := func(name, spec string) *rawCluster { return newRaw(t, namespace, name, spec) }
	if err := s.client.Create(t.Context(), raw("demo-", "{}").object(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "DNS-1123") && !strings.Contains(err.Error(), "RFC 1123") {
		t.Error(err)
	}
	if err := s.client.Create(t.Context(), raw(strings.Repeat("a", 41), "{}").object(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "at most 40") {
		t.Error(err)
	}
	for _, rule := range rules {
		if !rule.change {
			check(t, rule.spec, s.client.Create(t.Context(), raw("demo", rule.spec).object(), client.DryRunAll), rule.want)
			continue
		}
		before := raw("demo", rule.before).object()
		if err := s.client.Create(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		after := raw("demo", rule.spec).object()
		after.SetResourceVersion(before.GetResourceVersion())
		check(t, rule.spec, s.client.Update(t.Context(), after), rule.want)
		if err := s.client.Delete(t.Context(), before); err != nil {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %q", what, err, want)
	}
}

// kubectl scale works on the scale subresource.
func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.create(small)
	w.until("the cluster is made", w.complete)
	c := w.cluster()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":4}}`))
	w.must(w.api.SubResource("scale").Patch(t.Context(), c, patch))
	w.until("there are four nodes", func() bool { return w.cluster().Spec.Nodes.Count == 4 && w.complete() })
	if selector := w.cluster().Status.Selector; selector == "" {
		t.Fatal("the status has no selector")
	}
}

// rawCluster is a cluster as somebody wrote it: without the zero values of its type.
type rawCluster struct{ content map[string]any }

func newRaw(t *testing.T, namespace, name, spec string) *rawCluster {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	return &rawCluster{map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.KindCluster,
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": content,
	}}
}

func (r *rawCluster) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: r.content}
}
