package reconcile

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// nodeKeys are the keys that pods of nodes make for themselves, as far as they have shown them.
type nodeKeys struct {
	cluster *v1alpha1.TickMeshCluster
	seen    *inventory.Inventory
}

// addHolders adds the nodes' pods that keep their keys to the holders of certificates, and what
// they have to the leaves. One without a key that is known waits for it. Errors, joined, are
// those of single pods: the others are not kept waiting.
func (k nodeKeys) addHolders(holders map[string]pki.Holder, state *pki.State) (pods map[string]*corev1.Pod, err error) {
	var failed []error
	pods = map[string]*corev1.Pod{}
	own := map[string]*pki.Leaf{}
	for _, pod := range k.seen.NodePods() {
		if !build.KeepsKey(&pod.Spec) {
			continue
		}
		holder := pki.Holder{Identity: build.NodeIdentity(k.cluster, pod.Name)}
		leaf, err := pki.ReadAnnotated(pod)
		if err == nil { // else it is as good as none
			leaf = state.Known(leaf, holder.Name)
		}
		if holder.Key, err = k.keyOf(pod, leaf); err != nil {
			failed = append(failed, err)
		}
		if holder.Key == nil {
			continue
		}
		name := build.IdentityNode + "/" + pod.Name
		holders[name], pods[name] = holder, pod
		if leaf != nil {
			own[name] = leaf
		}
	}
	maps.Copy(state.Leaves, own)
	return pods, errors.Join(failed...)
}

var errNotItsName = errors.New("it asks for a name that is not the pod's")

// lostMessage begins what Kubernetes returns instead of the message of a container that is not
// there any more.
const lostMessage = "Unable to get init container status"

// keyOf returns the public key of a pod: that of its request, or, when nobody has the request
// any more, of the certificate that it has; nil: it is not known yet. A request counts because
// the status of a pod is written by its machine, which cannot write that of others' pods.
func (k nodeKeys) keyOf(pod *corev1.Pod, leaf *pki.Leaf) (*ecdsa.PublicKey, error) {
	var present *ecdsa.PublicKey
	if leaf != nil {
		present, _ = leaf.Certificate.PublicKey.(*ecdsa.PublicKey)
	}
	text := requestOf(pod)
	if text == "" || !k.isNode(pod) || present != nil && strings.HasPrefix(text, lostMessage) {
		return present, nil
	}
	request, err := certificate.DecodeRequest([]byte(text))
	if err == nil && request.Name != build.NodeIdentity(k.cluster, pod.Name).Name {
		err = fmt.Errorf("%w: %s", errNotItsName, request.Name)
	}
	if err != nil {
		return present, fmt.Errorf("request for the certificate of pod %s: %w", pod.Name, err)
	}
	return request.PublicKey, nil
}

// requestOf returns what the container has left that asks for a certificate; empty: nothing yet.
func requestOf(pod *corev1.Pod) string {
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if ended := s.State.Terminated; s.Name == build.ContainerRequest && ended != nil && ended.ExitCode == 0 {
			return ended.Message
		}
	}
	return ""
}

// isNode reports whether a pod was made by the StatefulSet of its group of the cluster's nodes.
func (k nodeKeys) isNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	group, _, _ := build.NodeOf(k.cluster, pod.Name)
	g := k.seen.NodeGroup(group)
	return g != nil && g.Set != nil && metav1.IsControlledBy(g.Set, k.cluster) && owner != nil && owner.UID == g.Set.UID
}

// isShared reports whether a node may use the certificate that all of them shared before they
// kept their keys: until the last pod of such a template is gone.
func (k nodeKeys) isShared() bool {
	for _, g := range k.seen.NodeGroups {
		if g.Set != nil && !build.KeepsKey(&g.Set.Spec.Template.Spec) {
			return true
		}
	}
	for _, pod := range k.seen.NodePods() {
		if !build.KeepsKey(&pod.Spec) {
			return true
		}
	}
	return false
}
