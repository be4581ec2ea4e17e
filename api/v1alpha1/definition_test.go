package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/api/v1alpha1/schematest"
)

func load(t *testing.T, plural string) *schematest.Definition {
	t.Helper()
	d, err := schematest.Load(plural)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// An API server takes the definitions: structural schema, cost of rules.
func TestDefinitionsAreTaken(t *testing.T) {
	for _, plural := range []string{"tickmeshclusters", "tickmeshbackups", "tickmeshbackupschedules", "tickmeshrestores"} {
		load(t, plural)
	}
}

func TestKindsAreRegistered(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{v1alpha1.KindCluster, v1alpha1.KindBackup, v1alpha1.KindBackupSchedule, v1alpha1.KindRestore} {
		for _, name := range []string{kind, kind + "List"} {
			if !s.Recognizes(v1alpha1.GroupVersion().WithKind(name)) {
				t.Errorf("kind %s is not known", name)
			}
		}
	}
}

// template is a spec with additions to the pods of each component.
func template(additions string) string {
	add := "{podTemplate: {" + additions + "}}"
	return "nodes: " + add + ", routers: " + add + ", envoy: " + add + ", etcd: {managed: " + add + "}"
}

// document is a resource of a kind with a spec, given as the lines below `spec:`.
func document(kind, name, spec string) string {
	return "apiVersion: tickmesh.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: ns}\nspec: {" + spec + "}\n"
}

func TestClusterDefaults(t *testing.T) {
	var c v1alpha1.TickMeshCluster
	if err := load(t, "tickmeshclusters").Into("apiVersion: tickmesh.dev/v1alpha1\nkind: TickMeshCluster\nmetadata: {name: demo}\nspec: {}\n", &c); err != nil {
		t.Fatal(err)
	}
	s := c.Spec
	if s.Nodes.Count != 3 || s.Replication != 2 || s.Shards != 128 || s.Retention != "0" || s.ReplaceAfter != "10m" || s.WALSync != "" || s.Paused ||
		s.Nodes.Storage.Size.String() != "10Gi" || s.Nodes.Storage.StorageClassName != nil || s.Nodes.Storage.DeletionPolicy != v1alpha1.DeletionPolicyRetain ||
		s.Nodes.Zones.TopologyKey != "topology.kubernetes.io/zone" || s.Nodes.Zones.Required || s.Nodes.Resources.Limits.Memory().String() != "1536Mi" {
		t.Errorf("nodes: %+v", s)
	}
	if s.Routers.Count != 2 || s.Routers.Autoscaling != nil || s.Envoy.Enabled == nil || !*s.Envoy.Enabled || s.Envoy.Replicas != 2 ||
		s.Envoy.ConnectionsMax != 10_000 || s.Service.Type != "ClusterIP" || s.Service.TLS != nil {
		t.Errorf("front: %+v %+v %+v", s.Routers, s.Envoy, s.Service)
	}
	if s.Etcd.Managed == nil || s.Etcd.External != nil || s.Etcd.Managed.Storage.Size.String() != "1Gi" ||
		s.TLS.Mode != v1alpha1.TLSModeOperator || s.Security.NetworkPolicies == nil || !*s.Security.NetworkPolicies || s.Monitoring.PodMonitor {
		t.Errorf("rest: %+v %+v %+v", s.Etcd, s.TLS, s.Security)
	}
}

// check tests that an error is what is wanted: none, or one that has the text.
func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: refused: %v", what, err)
	case want != "" && err == nil:
		t.Errorf("%s: taken, expected %q", what, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%s: %v, expected %q", what, err, want)
	}
}

func TestClusterIsChecked(t *testing.T) {
	d := load(t, "tickmeshclusters")
	const long = "a123456789-123456789-123456789-123456789-"
	for _, test := range []struct{ name, spec, want string }{
		{"demo", "", ""},
		{"demo", "nodes: {count: 1}, replication: 1", ""},
		{"demo", "nodes: {count: 2}", ""},
		{"demo", "nodes: {count: 1}", "raise nodes.count"},
		{"demo", "replication: 4", "less than or equal to 3"},
		{"demo", "shards: 2049", "2048"},
		{"demo", "nodes: {count: 0}", "greater than or equal to 1"},
		{"1demo", "", "begins with a letter"},
		{"de.mo", "", "begins with a letter"},
		{long + "a", "", "at most 40"},
		{long[:40], "", ""},
		{"demo-", "", "begins with a letter"},
		{"demo", "walSync: off", "walSync"},
		{"demo", "walSync: always", ""},
		{"demo", "retention: 90d", ""},
		{"demo", "retention: 59m", "at least 1h"},
		{"demo", "retention: 1h", ""},
		{"demo", "retention: 0s", "at least 1h"},
		{"demo", "retention: ninety", "retention"},
		{"demo", "replaceAfter: 29s", "at least 30s"},
		{"demo", "replaceAfter: '0'", "at least 30s"},
		{"demo", "replaceAfter: 1d", ""},
		{"demo", "moveRate: 20Mi", ""},
		{"demo", "forgetSeries: true", ""},
		{"demo", "exemplarBytes: 32Mi", ""},
		{"demo", "exemplarBytes: 0", ""},
		{"demo", "exemplarBytes: -1", "exemplarBytes must be from 0"},
		{"demo", "exemplarBytes: 1025Mi", "exemplarBytes must be from 0"},
		{"demo", "exemplarBytes: 1500m", "whole number of bytes"},
		{"demo", "routers: {mqttSecretName: brokers}", ""},
		{"demo", "moveRate: 0", ""},
		{"demo", "moveRate: 64Ki", ""},
		{"demo", "moveRate: 65535", "at least 64Ki"},
		{"demo", "moveRate: -1", "moveRate must be 0"},
		{"demo", "moveRate: '100000001m'", "whole number of bytes"},
		{"demo", "nodes: {storage: {size: 0}}", "more than 0"},
		{"demo", "nodes: {storage: {size: lots}}", "size"},
		{"demo", "nodes: {drained: [demo-node-1, demo-node-1]}", "Duplicate"},
		{"demo", "nodes: {drained: [demo-node-1, demo-node-12]}", ""},
		{"demo", "nodes: {drained: [demo-1]}", "such as demo-node-1"},
		{"demo", "nodes: {drained: [demo-node-01]}", "such as demo-node-1"},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * * 6', duration: 4h, timeZone: Europe/Berlin}, {schedule: '@daily', duration: 1w}]}", ""},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * *', duration: 4h}]}", "five fields of cron"},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * * 6'}]}", "duration"},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * * 6', duration: 14m}]}", "15m to 7d"},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * * 6', duration: 8d}]}", "15m to 7d"},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * * 6', duration: 1y}]}", "15m to 7d"},
		{"demo", "maintenance: {windows: [{schedule: '0 2 * * 6', duration: 7d}]}", ""},
		{"demo", "maintenance: {}", ""},
		{"demo", "bootstrap: {fromBackup: {backupName: monday}, verify: true}", ""},
		{"demo", "bootstrap: {fromBackup: {target: {volume: {claimName: backups}}, position: monday}}", ""},
		{"demo", "bootstrap: {fromBackup: {target: {volume: {claimName: backups}}}}", "go together"},
		{"demo", "bootstrap: {fromBackup: {}}", "set either"},
		{"demo", "bootstrap: {}", "fromBackup"},
		{"demo", "service: {tls: {hosts: [a.example.com, '*.example.com', 10.0.0.1, '2001:db8::1']}}", ""},
		{"demo", "service: {tls: {hosts: ['https://a']}}", "hosts"},
		{"demo", "service: {tls: {hosts: [a..b]}}", "hosts"},
		{"demo", "routers: {autoscaling: {min: 3, max: 2}}", "raise max, or lower min"},
		{"demo", "routers: {autoscaling: {min: 3, max: 6}}", ""},
		{"demo", "routers: {autoscaling: {}}", "max"},
		{"demo", "etcd: {managed: {}, external: {endpoints: ['http://e:2379']}}", "not both"},
		{"demo", "etcd: {}", "either"},
		{"demo", "etcd: {external: {endpoints: ['http://e:2379']}}", ""},
		{"demo", "etcd: {external: {endpoints: ['e:2379']}}", "endpoints"},
		{"demo", "etcd: {external: {endpoints: ['https://e:2379']}}", "tlsSecretName"},
		{"demo", "etcd: {external: {endpoints: ['https://e:2379'], tlsSecretName: s}}", ""},
		{"demo", "etcd: {external: {endpoints: ['https://e:2379', 'http://f:2379'], tlsSecretName: s}}", "all begin"},
		{"demo", "tls: {mode: CertManager}", "issuerRef"},
		{"demo", "tls: {mode: CertManager, issuerRef: {name: ca}}", ""},
		{"demo", "tls: {mode: Secrets}", "secretNames"},
		{"demo", "tls: {mode: Secrets, secretNames: {node: a, router: a, operator: a}}", "secretNames.etcd"},
		{"demo", "tls: {mode: Secrets, secretNames: {node: a, router: a, operator: a, etcd: a}}", ""},
		{"demo", "tls: {mode: 'Off'}", ""},
		{"demo", "tls: {mode: 'Off'}, service: {tls: {}}", "needs a certificate"},
		{"demo", "tls: {mode: 'Off'}, service: {tls: {secretName: s}}", ""},
		{"demo", "service: {tls: {}}", ""},
		{"demo", "service: {tls: {clientCASecretName: s}}, envoy: {enabled: false}", "needs Envoy"},
		{"demo", "service: {tls: {clientCASecretName: s}}", ""},
		{"demo", "service: {loadBalancerIP: 10.0.0.1}", "LoadBalancer"},
		{"demo", "service: {type: LoadBalancer, loadBalancerIP: 10.0.0.1}", ""},
		{"demo", "service: {type: ExternalName}", "service.type"},
		{"demo", template("labels: {example.com/team: weather, a: ''}, annotations: {prometheus.io/scrape: 'true'}"), ""},
		{"demo", template("labels: {app.kubernetes.io/name: mine}"), "choose another key"},
		{"demo", template("labels: {tickmesh.dev/cluster: mine}"), "choose another key"},
		{"demo", template("labels: {my.tickmesh.dev/x: mine}"), "choose another key"},
		{"demo", template("labels: {pod-template-hash: mine}"), "choose another key"},
		{"demo", template("labels: {statefulset.kubernetes.io/pod-name: mine}"), "choose another key"},
		{"demo", template("labels: {'no key': mine}"), "a key that is none"},
		{"demo", template("labels: {Example.com/team: mine}"), "a key that is none"},
		{"demo", template("labels: {a: 'no value'}"), "labels.a"},
		{"demo", template("annotations: {tickmesh.dev/zone: mine}"), "choose another key"},
		{"demo", template("annotations: {'no key': mine}"), "a key that is none"},
		{"demo", template("env: [{name: HTTPS_PROXY, value: 'http://proxy'}, {name: A, secretKeyRef: {name: s, key: k}}]"), ""},
		{"demo", template("env: [{name: TICKMESH_INSECURE, value: 'true'}]"), "which are the operator's"},
		{"demo", template("env: [{name: POD_NAME, value: a}]"), "which are the operator's"},
		{"demo", template("env: [{name: A, value: a}, {name: A, value: b}]"), "Duplicate"},
		{"demo", template("env: [{name: A, value: a, configMapKeyRef: {name: s, key: k}}]"), "set one of"},
		{"demo", template("env: [{name: A, secretKeyRef: {name: s, key: k}, configMapKeyRef: {name: s, key: k}}]"), "set one of"},
		{"demo", template("env: [{name: 1A}]"), "env[0].name"},
		{"demo", template("volumes: [{name: a}]"), "has one of"},
		{"demo", template("volumes: [{name: a, emptyDir: {}, secret: {secretName: s}}]"), "has one of"},
		{"demo", template("volumes: [{name: a, hostPath: {path: /}}]"), "hostPath"},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: b, mountPath: /mnt/a}]"), "correct the name"},
		{"demo", template("volumeMounts: [{name: b, mountPath: /mnt/a}]"), "add it there"},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /etc/ssl/certs}, {name: a, mountPath: /home/nonroot/.cache}]"), ""},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /data/x}]"), "cannot hide"},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /mnt/../data}]"), "mountPath"},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: //data}]"), "mountPath"},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /}]"), "mountPath"},
		{"demo", template("volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /mnt/a, subPath: ../b}]"), "subPath"},
		{"demo", template("topologySpreadConstraints: [{topologyKey: rack}, {topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]"), "Duplicate"},
		{"demo", template("topologySpreadConstraints: [{topologyKey: rack, maxSkew: 0}]"), "maxSkew"},
		{"demo", "nodes: {zones: {required: true, topologyKey: rack}, podTemplate: {topologySpreadConstraints: [{topologyKey: rack}]}}", "whenUnsatisfiable to DoNotSchedule"},
		{"demo", "nodes: {zones: {required: true, topologyKey: rack}, podTemplate: {topologySpreadConstraints: [{topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]}}", ""},
		{"demo", "nodes: {zones: {required: true, topologyKey: rack}, podTemplate: {topologySpreadConstraints: [{topologyKey: rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]}}", "maxSkew to 1"},
		{"demo", template("topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 2}]"), ""},
		{"demo", "nodes: {zones: {topologyKey: rack}, podTemplate: {topologySpreadConstraints: [{topologyKey: rack}]}}", ""},
		{"demo", template("topologySpreadConstraints: [{topologyKey: a rack}]"), "topologyKey"},
		{"demo", template("volumes: [{name: a, secret: {secretName: A b}}]"), "secretName"},
		{"demo", template("volumes: [{name: a, configMap: {name: -a}}]"), "configMap.name"},
		{"demo", template("volumes: [{name: a, persistentVolumeClaim: {claimName: a_b}}]"), "claimName"},
		{"demo", template("volumes: [{name: a, csi: {driver: a/b}}]"), "driver"},
		{"demo", template("env: [{name: A, secretKeyRef: {name: A, key: k}}]"), "secretKeyRef.name"},
		{"demo", template("volumes: [{name: a, secret: {secretName: a.b-c}}, {name: b, csi: {driver: secrets-store.csi.k8s.io}}]"), ""},
		{"demo", template("topologySpreadConstraints: [{topologyKey: example.com/Rack_1, maxSkew: 2}]"), ""},
	} {
		object, err := d.Read(document(v1alpha1.KindCluster, test.name, test.spec))
		if err == nil {
			err = d.Check(object, nil)
		}
		check(t, test.name+": "+test.spec, err, test.want)
	}
	if _, err := d.Read(document(v1alpha1.KindCluster, "demo", "nodez: {}")); err == nil {
		t.Error("an unknown field is taken")
	}
}

func TestClusterChangesAreChecked(t *testing.T) {
	d := load(t, "tickmeshclusters")
	for _, test := range []struct{ before, after, want string }{
		{"", "nodes: {count: 5}", ""},
		{"nodes: {count: 5}", "nodes: {count: 2}", ""},
		{"", "nodes: {count: 1}", "raise nodes.count"},
		{"", "replication: 3", "replication cannot be changed"},
		{"", "shards: 64", "shards cannot be changed"},
		{"", "nodes: {storage: {size: 11Gi}}", ""},
		{"", "nodes: {storage: {size: 9Gi}}", "size can only grow"},
		{"nodes: {storage: {size: 1073741824}}", "nodes: {storage: {size: 1Gi}}", ""},
		{"", "nodes: {storage: {storageClassName: fast}}", ""},
		{"nodes: {storage: {storageClassName: fast}}", "", "storageClassName cannot be taken away once it is set"},
		{"nodes: {storage: {storageClassName: fast}}", "nodes: {storage: {storageClassName: slow}}", ""},
		{"etcd: {managed: {storage: {storageClassName: fast}}}", "etcd: {managed: {storage: {storageClassName: slow}}}", "storageClassName cannot be changed"},
		{"nodes: {storage: {storageClassName: fast}}", "nodes: {storage: {storageClassName: fast, deletionPolicy: Delete}}", ""},
		{"", "etcd: {managed: {storage: {size: 1Mi}}}", "size can only grow"},
		{"", "etcd: {managed: {storage: {storageClassName: fast}}}", "storageClassName cannot be changed"},
		{"", "etcd: {external: {endpoints: ['http://e:2379']}}", "between managed and external"},
		{"etcd: {external: {endpoints: ['http://e:2379']}}", "etcd: {external: {endpoints: ['http://f:2379']}}", ""},
		{"etcd: {external: {endpoints: ['http://e:2379']}}", "etcd: {external: {endpoints: ['http://e:2379'], clusterName: x}}", "clusterName cannot be changed"},
		{"", "tls: {mode: 'Off'}", "tls.mode cannot be changed"},
		{"", "bootstrap: {fromBackup: {backupName: monday}}", "bootstrap cannot be changed"},
		{"bootstrap: {fromBackup: {backupName: monday}}", "bootstrap: {fromBackup: {backupName: tuesday}}", "bootstrap cannot be changed"},
		{"bootstrap: {fromBackup: {backupName: monday}}", "", "bootstrap cannot be changed"},
		{"bootstrap: {fromBackup: {backupName: monday}}", "bootstrap: {fromBackup: {backupName: monday}}, hibernated: true", ""},
		{"", "image: registry/tickmesh:2, retention: 30d, walSync: always, paused: true", ""},
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

func TestBackupsAreChecked(t *testing.T) {
	const (
		cluster = "clusterRef: {name: demo}, "
		volume  = cluster + "target: {volume: {claimName: backups, path: a/b}}"
		s3      = cluster + "target: {s3: {endpoint: 'https://s3.example.com', bucket: demo, prefix: a, secretName: s}}"
	)
	const keyed = volume + ", incremental: true, verify: true, encryption: {recipients: [age1a], identitySecretName: i}, signing: {secretName: s, verifySecretName: v}"
	for _, test := range []struct{ plural, kind, spec, after, want string }{
		{"tickmeshbackups", v1alpha1.KindBackup, volume, "", ""},
		{"tickmeshbackups", v1alpha1.KindBackup, s3, "", ""},
		{"tickmeshbackups", v1alpha1.KindBackup, cluster + "target: {}", "", "either target.volume or target.s3"},
		{"tickmeshbackups", v1alpha1.KindBackup, cluster + "target: {volume: {claimName: b, path: ../up}}", "", "path"},
		{"tickmeshbackups", v1alpha1.KindBackup, cluster + "target: {volume: {claimName: b, path: a/../b}}", "", "path"},
		{"tickmeshbackups", v1alpha1.KindBackup, cluster + "target: {volume: {claimName: b, path: /a}}", "", "path"},
		{"tickmeshbackups", v1alpha1.KindBackup, cluster + "target: {s3: {endpoint: s3, bucket: demo, secretName: s}}", "", "endpoint"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume, volume + ", verify: true", "create another one"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume, s3, "create another one"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume, volume + ", ttl: 30d", ""},
		{"tickmeshbackups", v1alpha1.KindBackup, keyed, keyed + ", ttl: 30d", ""},
		{"tickmeshbackups", v1alpha1.KindBackup, keyed, volume + ", incremental: true, verify: true", "create another one"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", signing: {secretName: a}", volume + ", signing: {secretName: b}", "create another one"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", encryption: {recipients: [age1a]}", "", ""},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", encryption: {recipients: [age1a]}, incremental: true", "", "set encryption.identitySecretName"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", encryption: {recipients: [age1a]}, verify: true", "", "set encryption.identitySecretName"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", encryption: {recipients: []}", "", "recipients"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", encryption: {recipients: [/etc/passwd]}", "", "recipients"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", encryption: {recipients: ['age1a,age1b']}", "", "recipients"},
		{"tickmeshbackups", v1alpha1.KindBackup, volume + ", signing: {verifySecretName: v}", "", "secretName"},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {backupName: b, identitySecretName: i, verifySecretName: v}", "", ""},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {backupName: b, verifySecretName: v}", cluster + "source: {backupName: b}", "create another one"},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {backupName: b}", "", ""},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {}", "", "either source.backupName"},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {target: {volume: {claimName: b}}}", "", "go together"},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {backupName: b, position: b}", "", "go together"},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {target: {volume: {claimName: b}}, position: b}", "", ""},
		{"tickmeshrestores", v1alpha1.KindRestore, cluster + "source: {backupName: b}", cluster + "source: {backupName: c}", "create another one"},
		{"tickmeshbackupschedules", v1alpha1.KindBackupSchedule, "schedule: '30 2 * * *', template: {spec: {" + volume + "}}", "", ""},
		{"tickmeshbackupschedules", v1alpha1.KindBackupSchedule, "schedule: '@daily', template: {spec: {" + s3 + "}}",
			"schedule: '@hourly', template: {spec: {" + volume + "}}", ""},
		{"tickmeshbackupschedules", v1alpha1.KindBackupSchedule, "schedule: '@daily', template: {spec: {" + keyed + "}}", "", ""},
		{"tickmeshbackupschedules", v1alpha1.KindBackupSchedule, "schedule: daily, template: {spec: {" + volume + "}}", "", "five fields"},
		{"tickmeshbackupschedules", v1alpha1.KindBackupSchedule, "schedule: '@daily', keep: 0, template: {spec: {" + volume + "}}", "", "keep"},
	} {
		d := load(t, test.plural)
		object, err := d.Read(document(test.kind, "one", test.spec))
		if err == nil {
			err = d.Check(object, nil)
		}
		if test.after != "" {
			if err != nil {
				t.Fatalf("%s: %v", test.spec, err)
			}
			var after schematest.Object
			if after, err = d.Read(document(test.kind, "one", test.after)); err == nil {
				err = d.Check(after, object)
			}
		}
		check(t, test.spec+" => "+test.after, err, test.want)
	}
}
