package build_test

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/api/v1alpha1/schematest"
	"github.com/tickmesh/tickmesh/operator/build"
)

// clusters is the definition of clusters, which takes long to load.
var clusters = sync.OnceValues(func() (*schematest.Definition, error) { return schematest.Load("tickmeshclusters") })

func definition(t *testing.T, plural string) *schematest.Definition {
	t.Helper()
	load := clusters
	if plural != "tickmeshclusters" {
		load = func() (*schematest.Definition, error) { return schematest.Load(plural) }
	}
	d, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// cluster returns a cluster as an API server would keep it, from the lines of its spec.
func cluster(t *testing.T, spec string) *v1alpha1.TickMeshCluster {
	t.Helper()
	c := &v1alpha1.TickMeshCluster{}
	text := "apiVersion: tickmesh.dev/v1alpha1\nkind: TickMeshCluster\nmetadata: {name: demo, namespace: ns}\nspec: {}\n"
	if spec != "" {
		text = strings.Replace(text, "spec: {}\n", "spec:\n"+spec, 1)
	}
	if err := definition(t, "tickmeshclusters").Into(text, c); err != nil {
		t.Fatal(err)
	}
	c.UID = types.UID("6f1c9f5e-0000-4000-8000-000000000001")
	return c
}

// facts are those of a cluster that is as its spec wants it.
func authoritiesOf(c *v1alpha1.TickMeshCluster) string {
	if c.Spec.TLS.Mode == v1alpha1.TLSModeOperator && c.Spec.Etcd.Managed != nil {
		return "0123456789abcdef"
	}
	return ""
}

func facts(c *v1alpha1.TickMeshCluster) build.Facts {
	f := build.Facts{
		Image: "tickmesh:1.2.3", CertificateImage: "tickmesh:1.2.3", EtcdCABundle: authoritiesOf(c), EnvoyImage: "envoy:1.40.0", OperatorNamespace: "tickmesh-system", NodeReplicas: c.Spec.Nodes.Count,
		PodMonitors: true, ServiceMonitors: true,
	}
	if c.Spec.Etcd.Managed != nil {
		f.EtcdReplicas = build.EtcdMembersWanted(c)
		f.EtcdEndpoints = f.EtcdReplicas
		f.EtcdMembers = build.PodNames(c, build.ComponentEtcd, f.EtcdReplicas)
	}
	for i := range c.Spec.NodeGroups {
		if f.Groups == nil {
			f.Groups = map[string]build.NodeGroup{}
		}
		f.Groups[c.Spec.NodeGroups[i].Name] = build.NodeGroup{Replicas: c.Spec.NodeGroups[i].Count}
	}
	if c.Spec.Databases != "" {
		f.Databases = build.DatabasesConfigMap(c).Name
	}
	return f
}

// specs are the clusters of the golden files.
var specs = map[string]string{
	"default": "",
	"single": `  replication: 1
  nodes: {count: 1}
  routers: {count: 1}
  envoy: {enabled: false}
  tls: {mode: "Off"}
  security: {networkPolicies: false}
`,
	"full": `  image: example.com/tickmesh:2
  imagePullPolicy: Always
  imagePullSecrets: [{name: pull}]
  nodes:
    count: 5
    zones: {topologyKey: rack, required: true}
    storage: {size: 100Gi, storageClassName: fast, deletionPolicy: Delete}
    resources: {requests: {cpu: "2", memory: 8Gi}, limits: {memory: 8Gi}}
    drained: [demo-node-1]
    placement:
      nodeSelector: {disk: ssd}
      tolerations: [{key: storage, operator: Exists}]
      priorityClassName: high
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64, amd64]}]}]
  replication: 3
  shards: 256
  walSync: always
  retention: 90d
  moveRate: 50Mi
  forgetSeries: true
  exemplarBytes: 32Mi
  replaceAfter: 30m
  routers: {autoscaling: {min: 2, max: 8, cpuPercent: 60}, mqttSecretName: brokers}
  envoy: {replicas: 3, connectionsMax: 5000, accessLog: true}
  service:
    type: LoadBalancer
    annotations: {example.com/pool: public}
    hosts: [metrics.example.com]
    loadBalancerClass: example.com/lb
    loadBalancerIP: 10.1.2.3
    loadBalancerSourceRanges: [10.0.0.0/8]
    externalTrafficPolicy: Local
    tls: {hosts: [tickmesh.example.com, 10.1.2.3], clientCASecretName: clients}
  tls: {mode: CertManager, issuerRef: {name: ca, kind: ClusterIssuer}}
  monitoring: {podMonitor: true, serviceMonitor: true, interval: 15s, labels: {release: prometheus}}
  security: {podSecurityContext: {fsGroup: 1000}, authSecretName: users}
  databases: "defaults: {retention: 30d}"
`,
	"groups": `  nodes: {count: 3, storage: {storageClassName: ssd}, placement: {nodeSelector: {kubernetes.io/arch: amd64}}}
  nodeGroups:
    - name: arm
      count: 2
      storage: {size: 8Gi, storageClassName: sd}
      resources: {limits: {memory: 512Mi}}
      placement: {nodeSelector: {kubernetes.io/arch: arm64}, tolerations: [{key: board, operator: Exists}]}
      podTemplate: {labels: {example.com/team: attic}}
    - {name: rpi-4, count: 1}
`,
	"external": `  etcd: {external: {endpoints: ["https://etcd.infra.svc:2379"], tlsSecretName: etcd-client, clusterName: plant-7}}
  envoy: {enabled: false}
  service: {type: NodePort, tls: {secretName: public}}
  tls: {mode: Secrets, secretNames: {node: mesh, router: mesh, operator: mesh-client}}
  monitoring: {serviceMonitor: true}
`,
}
