package controller_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// rules has an object that breaks each rule of the definitions, once, and what the API
// server says then; before is the spec that it replaces, if the rule is about a change.
var rules = []struct {
	kind, name, before, spec, want string
	change                         bool
}{
	{spec: "nodes: {count: 1}", want: "raise nodes.count"},
	{spec: "retention: 59m", want: "at least 1h"},
	{spec: "replaceAfter: 29s", want: "at least 30s"},
	{spec: "moveRate: -1", want: "moveRate must be 0"},
	{spec: "moveRate: 100000001m", want: "moveRate must be a whole number of bytes"},
	{spec: "exemplarBytes: 1025Mi", want: "exemplarBytes must be from 0"},
	{spec: "exemplarBytes: 1m", want: "exemplarBytes must be a whole number of bytes"},
	{spec: "nodes: {storage: {size: 0}}", want: "size must be more than 0"},
	{spec: "nodes: {drained: [demo-1]}", want: "nodes.drained takes names of nodes"},
	{spec: "etcd: {managed: {storage: {size: 0}}}", want: "size must be more than 0"},
	{spec: "routers: {autoscaling: {min: 3, max: 2}}", want: "raise max, or lower min"},
	{spec: "etcd: {managed: {}, external: {endpoints: ['http://e:2379']}}", want: "set either etcd.managed or etcd.external, not both"},
	{spec: "etcd: {external: {endpoints: ['https://e:2379']}}", want: "need etcd.external.tlsSecretName"},
	{spec: "tls: {mode: CertManager}", want: "needs tls.issuerRef"},
	{spec: "tls: {mode: Secrets}", want: "needs tls.secretNames:"},
	{spec: "tls: {mode: Secrets, secretNames: {node: a, router: a, operator: a}}", want: "needs tls.secretNames.etcd"},
	{spec: "tls: {names: Required}", want: "tls.names is for tls.mode CertManager and Secrets"},
	{spec: "tls: {mode: Secrets, names: Required, secretNames: {node: a, router: a, operator: a, etcd: a}}", want: "name different Secrets"},
	{spec: "tls: {mode: 'Off'}\nservice: {tls: {}}", want: "service.tls needs a certificate"},
	{spec: "service: {tls: {clientCASecretName: s}}\nenvoy: {enabled: false}", want: "clientCASecretName needs Envoy"},
	{spec: "service: {loadBalancerIP: 10.0.0.1}", want: "need service.type LoadBalancer"},
	{spec: "nodes: {podTemplate: {labels: {'no key': a}}}", want: "podTemplate.labels has a key that is none"},
	{spec: "nodes: {podTemplate: {labels: {app.kubernetes.io/instance: a}}}", want: "podTemplate.labels cannot have those by which the operator and Kubernetes find their pods"},
	{spec: "routers: {podTemplate: {annotations: {'no key': a}}}", want: "podTemplate.annotations has a key that is none"},
	{spec: "routers: {podTemplate: {annotations: {tickmesh.dev/zone: a}}}", want: "podTemplate.annotations cannot have those that the operator writes"},
	{spec: "envoy: {podTemplate: {env: [{name: TICKMESH_INSECURE, value: 'true'}]}}", want: "podTemplate.env cannot have TICKMESH_…"},
	{spec: "envoy: {podTemplate: {env: [{name: A, value: a, secretKeyRef: {name: s, key: k}}]}}", want: "set one of value, secretKeyRef and configMapKeyRef"},
	{spec: "envoy: {podTemplate: {env: [{name: A, configMapKeyRef: {name: s, key: k}, secretKeyRef: {name: s, key: k}}]}}", want: "set one of value, secretKeyRef and configMapKeyRef"},
	{spec: "etcd: {managed: {podTemplate: {volumes: [{name: a}]}}}", want: "each of podTemplate.volumes has one of secret"},
	{spec: "etcd: {managed: {podTemplate: {volumeMounts: [{name: a, mountPath: /mnt/a}]}}}", want: "podTemplate.volumeMounts names a volume that podTemplate.volumes has not"},
	{spec: "nodes: {podTemplate: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /data}]}}", want: "podTemplate.volumeMounts cannot hide what the container runs on"},
	{
		spec: "nodes: {zones: {required: true}, podTemplate: {topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone}]}}",
		want: "nodes.zones.required keeps nodes spread evenly over zones",
	},
	{spec: "maintenance: {windows: [{schedule: daily, duration: 4h}]}", want: "schedule must have the five fields of cron, as in '0 2 * * 6'"},
	{spec: "maintenance: {windows: [{schedule: '@daily', duration: 8d}]}", want: "duration must be 15m to 7d"},
	{spec: "bootstrap: {fromBackup: {}}", want: "set either source.backupName"},
	{spec: "bootstrap: {fromBackup: {target: {volume: {claimName: b}}}}", want: "source.target and source.position go together"},
	{name: strings.Repeat("a", 41), want: "at most 40 small letters, digits and inner hyphens that begins with a letter"},
	{spec: "nodeGroups: [{name: b-node, count: 1}]", want: "nodeGroups.name cannot have the words node and etcd between its hyphens"},
	{spec: "nodes: {count: 200}\nnodeGroups: [{name: arm, count: 57}]", want: "can be 256 together at most"},
	{name: strings.Repeat("a", 40), spec: "nodeGroups: [{name: abcdefg, count: 1}]", want: "they can have 46 letters together at most"},
	{
		spec: "nodes: {zones: {required: true}}\nnodeGroups: [{name: arm, count: 1, podTemplate: {topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone}]}}]",
		want: "nodeGroups.podTemplate.topologySpreadConstraints of the same label would not",
	},
	{
		change: true, before: "nodeGroups: [{name: arm, count: 1, storage: {storageClassName: sd}}]",
		spec: "nodeGroups: [{name: arm, count: 1}]", want: "nodeGroups.storage.storageClassName cannot be taken away once it is set",
	},
	{change: true, spec: "nodes: {count: 1}", want: "raise nodes.count"},
	{change: true, spec: "replication: 3", want: "replication cannot be changed"},
	{change: true, spec: "shards: 64", want: "shards cannot be changed"},
	{change: true, spec: "tls: {mode: 'Off'}", want: "tls.mode cannot be changed"},
	{change: true, spec: "bootstrap: {fromBackup: {backupName: monday}}", want: "bootstrap cannot be changed"},
	{change: true, spec: "nodes: {storage: {size: 9Gi}}", want: "nodes.storage.size can only grow: volumes do not shrink below"},
	{
		change: true, before: "nodes: {storage: {storageClassName: fast}}",
		spec: "nodes: {storage: {size: 20Gi}}", want: "storageClassName cannot be taken away once it is set",
	},
	{change: true, spec: "etcd: {managed: {storage: {size: 1Mi}}}", want: "etcd.managed.storage.size can only grow: volumes do not shrink below"},
	{change: true, spec: "etcd: {managed: {storage: {storageClassName: fast}}}", want: "storageClassName cannot be changed"},
	{change: true, spec: "etcd: {external: {endpoints: ['http://e:2379']}}", want: "between managed and external"},
	{
		change: true, before: "etcd: {external: {endpoints: ['http://e:2379']}}",
		spec: "etcd: {external: {endpoints: ['http://e:2379'], clusterName: x}}", want: "clusterName cannot be changed",
	},

	{kind: v1alpha1.KindBackup, spec: "clusterRef: {name: demo}\ntarget: {}", want: "set either target.volume or target.s3"},
	{kind: v1alpha1.KindBackup, name: strings.Repeat("a", 53), spec: target, want: "at most 52 small letters"},
	{kind: v1alpha1.KindBackup, spec: target + "verify: true\nencryption: {recipients: [age1a]}", want: "set encryption.identitySecretName"},
	{kind: v1alpha1.KindBackup, spec: target + "timeout: 5s", want: "timeout must be at least 1m"},
	{kind: v1alpha1.KindRestore, spec: restored + "timeout: 5s", want: "timeout must be at least 1m"},
	{
		kind: v1alpha1.KindBackupSchedule, want: "timeout must be at least 1m",
		spec: "schedule: '@daily'\n" + strings.Replace(scheduled, "target:", "timeout: 5s, target:", 1),
	},
	{kind: v1alpha1.KindBackup, change: true, before: target, spec: target + "verify: true", want: "a backup cannot be changed"},
	{kind: v1alpha1.KindRestore, spec: "clusterRef: {name: demo}\nsource: {}", want: "set either source.backupName"},
	{kind: v1alpha1.KindRestore, spec: "clusterRef: {name: demo}\nsource: {target: {volume: {claimName: b}}}", want: "source.target and source.position go together"},
	{kind: v1alpha1.KindRestore, name: strings.Repeat("a", 53), spec: restored, want: "at most 52 small letters"},
	{kind: v1alpha1.KindRestore, change: true, before: restored, spec: restored + "verify: true", want: "a restore cannot be changed"},
	{kind: v1alpha1.KindBackupSchedule, spec: "schedule: daily\n" + scheduled, want: "five fields of cron"},
	{
		kind: v1alpha1.KindBackupSchedule, want: "set encryption.identitySecretName",
		spec: "schedule: '@daily'\n" + strings.Replace(scheduled, "target:", "incremental: true, encryption: {recipients: [age1a]}, target:", 1),
	},
	{kind: v1alpha1.KindBackupSchedule, name: strings.Repeat("a", 41), spec: "schedule: '@daily'\n" + scheduled, want: "becomes part of the names of backups: choose one of at most 40"},
}

const (
	restored  = "clusterRef: {name: demo}\nsource: {backupName: monday}\n"
	scheduled = "template: {spec: {clusterRef: {name: demo}, target: {volume: {claimName: backups}}}}\n"
)

// The API server refuses what breaks a rule, and says what to do.
func TestRules(t *testing.T) {
	t.Parallel()
	s := kubernetes(t)
	namespace := s.namespace(t)
	if err := s.client.Create(t.Context(), newRaw(t, "", namespace, "demo-", "{}"), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "DNS-1123") && !strings.Contains(err.Error(), "RFC 1123") {
		t.Error(err)
	}
	for _, rule := range rules {
		name, what := cmp.Or(rule.name, "demo"), rule.kind+" "+rule.spec
		if !rule.change {
			check(t, what, s.client.Create(t.Context(), newRaw(t, rule.kind, namespace, name, rule.spec), client.DryRunAll), rule.want)
			continue
		}
		before := newRaw(t, rule.kind, namespace, name, rule.before)
		if err := s.client.Create(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		after := newRaw(t, rule.kind, namespace, name, rule.spec)
		after.SetResourceVersion(before.GetResourceVersion())
		check(t, what, s.client.Update(t.Context(), after), rule.want)
		if err := s.client.Delete(t.Context(), before); err != nil {
			t.Fatal(err)
		}
	}
}

// No rule of the definitions is left out above.
func TestRulesAreAllBroken(t *testing.T) {
	files, err := filepath.Glob("../../charts/tickmesh/crds/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := map[string]any{}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		names, _, _ := unstructured.NestedMap(definition, "spec", "names")
		for _, message := range messages(definition) {
			found++
			broken := false
			for _, rule := range rules {
				broken = broken || cmp.Or(rule.kind, v1alpha1.KindCluster) == names["kind"] && strings.Contains(message, rule.want)
			}
			// The target's rule is the same one in each kind that names a target.
			if !broken && !strings.HasPrefix(message, "set either target.volume or target.s3") {
				t.Errorf("%s: no rule above is broken with %q", names["kind"], message)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d rules were found", found)
	}
}

// messages returns the messages of all rules below a place of a definition.
func messages(at any) (all []string) {
	switch at := at.(type) {
	case map[string]any:
		for key, value := range at {
			list, is := value.([]any)
			if key != "x-kubernetes-validations" || !is {
				all = append(all, messages(value)...)
				continue
			}
			for _, rule := range list {
				message, _ := rule.(map[string]any)["message"].(string) // one without would be in no case
				all = append(all, message)
			}
		}
	case []any:
		for _, value := range at {
			all = append(all, messages(value)...)
		}
	}
	return all
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

// newRaw makes an object, a cluster unless a kind is named, as somebody wrote it: without
// the zero values of its type.
func newRaw(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": cmp.Or(kind, v1alpha1.KindCluster),
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": content,
	}}
}
