package lab

import "fmt"

// runtimeSocket is containerd's default; each node has a /run of its own.
const runtimeSocket = "/run/containerd/containerd.sock"

// pauseImage holds the namespaces of every pod.
const pauseImage = "lab.local/pause:1"

// pluginFolder is where Debian's containernetworking-plugins are.
const pluginFolder = "/usr/lib/cni"

// networkPlugins is the configuration of pods' network: a bridge in each node, no
// change of addresses between nodes, and no way out of the lab.
func (m machine) networkPlugins() []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "0.4.0",
  "name": "lab",
  "plugins": [
    {
      "type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, m.node.pods())
}

// runtimeConfiguration is containerd's. Scores for the kernel's choice of what to kill
// when memory ends are not lowered: that takes a right which a container or virtual
// machine may not have.
func (m machine) runtimeConfiguration() []byte {
	return fmt.Appendf(nil, `version = 2
root = %q
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`, m.dir("containerd"), runtimeSocket, pauseImage, pluginFolder, m.dir("etc", "cni"))
}

// kubeletConfiguration keeps images and pods while the disk has some room left: it is
// shared with everything else of the machine. New Secrets are shown to pods after 10 s
// instead of a minute: the tests would wait for nothing else.
func (m machine) kubeletConfiguration() []byte {
	return fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %q}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s/%s
failCgroupV1: false
clusterDomain: cluster.local
clusterDNS: [%s]
resolvConf: %q
oomScoreAdj: 0
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "200Mi", nodefs.available: "1%%", imagefs.available: "1%%"}
nodeStatusUpdateFrequency: 4s
syncFrequency: 10s
maxPods: 110
`, m.node.address(), m.folders.pki("ca.crt"), m.folders.pki(m.node.name()+".crt"), m.folders.pki(m.node.name()+".key"),
		runtimeSocket, m.folders.cgroups().name, m.node.name(), dnsService, m.dir("etc", "resolv.conf"))
}
