package build

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	// rescueKeptSeconds is for how long a Job that has ended can be looked at. Then
	// Kubernetes deletes it, and it is made anew if it is still needed.
	rescueKeptSeconds = 120
	rescueRetries     = 2
	rescueSeconds     = 900 // and then it is made anew, if it is still needed
)

// RescueJob makes the Job that builds the shard map anew from what nodes know, and
// writes it into an etcd that has lost it. It asks the nodes that are named, by pod, and
// writes nothing when one of them or of the map does not answer, but for those that are
// lost for good, or when etcd has what the nodes have seen.
func RescueJob(c *v1alpha1.TickMeshCluster, f Facts, pods, lost []string) *batchv1.Job {
	nodes := make([]string, 0, len(pods))
	for _, name := range pods {
		nodes = append(nodes, hostPort(PodAddress(c, ComponentNode, name), PortNodeRPC))
	}
	args := []string{
		"rescue-map", "--write", "--nodes=" + strings.Join(nodes, ","),
		argumentCluster + StoreName(c), "--etcd-endpoints=" + strings.Join(EtcdEndpoints(c, f), ","),
	}
	if len(lost) > 0 {
		args = append(args, "--lost="+strings.Join(lost, ","))
	}
	if TLSSecret(c, IdentityRouter) != "" {
		args = append(args, tlsArguments("rpc-tls", dirTLS, dirTLS)...)
	}
	if dir := etcdTLSFolder(c); dir != "" {
		args = append(args, tlsArguments("etcd-tls", dir, dir)...)
	}
	p := pod{
		component: ComponentRescue, placement: c.Spec.Routers.Placement, graceSecs: jobGraceSeconds,
		spread: spread{topologyKey: c.Spec.Nodes.Zones.TopologyKey}, container: corev1.Container{Args: args, Env: peerEnvironment(c, f)},
	}
	p.addPeerTLS(c, IdentityRouter)
	template := p.template(c, f)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	return &batchv1.Job{
		ObjectMeta: meta(c, ComponentRescue, Name(c, ComponentRescue)),
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr(int32(rescueRetries)), ActiveDeadlineSeconds: ptr(int64(rescueSeconds)), TTLSecondsAfterFinished: ptr(int32(rescueKeptSeconds)), Template: template,
		},
	}
}
