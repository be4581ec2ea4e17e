package reconcile

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// keyHolders adds the nodes' pods that keep their keys to the holders of certificates, and what
// they have to the leaves. One without a key that is known waits for it. Errors, joined, are
// those of single pods: the others are not kept waiting.
func (p *pass) keyHolders(holders map[string]pki.Holder, state *pki.State) (pods map[string]*corev1.Pod, err error) {
	var failed []error
	pods = map[string]*corev1.Pod{}
	own := map[string]*pki.Leaf{}
	for _, ordinal := range slices.Sorted(maps.Keys(p.seen.nodePods)) {
		pod := p.seen.nodePods[ordinal]
		if !build.KeepsKey(&pod.Spec) {
			continue
		}
		holder := pki.Holder{Identity: build.NodeIdentity(p.cluster, pod.Name)}
		leaf, err := pki.ReadAnnotated(pod)
		if err == nil { // else it is as good as none
			leaf = state.Known(leaf, holder.Name)
		}
		if holder.Key, err = p.keyOf(pod, leaf); err != nil {
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

// lostMessage begins what Kubernetes tells instead of the message of a container that is not
// there any more.
const lostMessage = "Unable to get init container status"

// keyOf returns the public key of a pod: that of its request, or, when nobody has the request
// any more, of the certificate that it has; nil: it is not known yet. A request counts because
// the status of a pod is written by its machine, which cannot write that of others' pods.
func (p *pass) keyOf(pod *corev1.Pod, leaf *pki.Leaf) (*ecdsa.PublicKey, error) {
	var present *ecdsa.PublicKey
	if leaf != nil {
		present, _ = leaf.Certificate.PublicKey.(*ecdsa.PublicKey)
	}
	text := requestOf(pod)
	if text == "" || !p.isNode(pod) || present != nil && strings.HasPrefix(text, lostMessage) {
		return present, nil
	}
	request, err := certificate.DecodeRequest([]byte(text))
	if err == nil && request.Name != build.NodeIdentity(p.cluster, pod.Name).Name {
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

// isNode reports whether a pod was made by the StatefulSet of the cluster's nodes.
func (p *pass) isNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return p.seen.nodeSet != nil && p.owns(p.seen.nodeSet) && owner != nil && owner.UID == p.seen.nodeSet.UID
}

// annotate shows a pod its certificate.
func (p *pass) annotate(ctx context.Context, pod *corev1.Pod, leaf *pki.Leaf) error {
	changed := pod.DeepCopy()
	leaf.Annotate(changed)
	if err := p.Client.Patch(ctx, changed, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("show pod %s its certificate: %w", pod.Name, err)
	}
	pod.Annotations = changed.Annotations
	return nil
}

// nodesShare reports whether a node may use the certificate that all of them shared before they
// kept their keys: until the last pod of such a template is gone.
func (p *pass) nodesShare() bool {
	if set := p.seen.nodeSet; set != nil && !build.KeepsKey(&set.Spec.Template.Spec) {
		return true
	}
	for _, pod := range p.seen.nodePods {
		if !build.KeepsKey(&pod.Spec) {
			return true
		}
	}
	return false
}

// revokeShared throws away the key that the nodes shared, once none uses it, and returns its
// certificates: whoever has the key could call as any node for as long as their authority is
// trusted.
func (p *pass) revokeShared(ctx context.Context) ([]*x509.Certificate, error) {
	if p.nodesShare() {
		return nil, nil
	}
	name := build.TLSSecret(p.cluster, build.IdentityNode)
	secret, err := p.secret(ctx, name)
	if err != nil || secret == nil || !p.owns(secret) {
		return nil, err
	}
	leaf, err := pki.ReadLeaf(secret)
	if err != nil {
		return nil, nil //nolint:nilerr // there is nothing that could be taken
	}
	if leaf.Key != nil {
		leaf.Key = nil
		if err := p.writeSecret(ctx, name, secret, leaf.Write); err != nil {
			return nil, err
		}
	}
	return []*x509.Certificate{leaf.Certificate}, nil
}

// authoritiesHash stands for the authorities that a leaf's holder trusts, in whatever order.
func authoritiesHash(l *pki.Leaf) string {
	if l == nil {
		return ""
	}
	sums := make([][]byte, 0, len(l.Bundle))
	for _, c := range l.Bundle {
		sum := sha256.Sum256(c.Raw)
		sums = append(sums, sum[:])
	}
	slices.SortFunc(sums, slices.Compare)
	const bytes = 8 // tells some few apart
	sum := sha256.Sum256(slices.Concat(sums...))
	return hex.EncodeToString(sum[:bytes])
}

// etcdBehind reports whether a member of a managed etcd was started with other authorities than
// it is to trust.
func (p *pass) etcdBehind(l *pki.Leaf) bool {
	if !managedEtcd(p.cluster) || p.seen.etcdSet == nil {
		return false
	}
	want := authoritiesHash(l)
	for _, pod := range p.seen.etcdPods {
		if pod.Annotations[build.AnnotationConfigHash] != want {
			return true
		}
	}
	return false
}
