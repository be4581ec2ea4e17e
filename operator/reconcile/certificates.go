package reconcile

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/report"
)

// AnnotationRotate of a TickMeshCluster asks for a new CA, when it is set to
// another value; with tls.mode Operator.
const AnnotationRotate = v1alpha1.Group + "/rotate-certificates"

// certificates are those inside a cluster, in Secrets and on pods, whoever makes them.
type certificates struct {
	cluster  *v1alpha1.TickMeshCluster
	seen     *inventory.Inventory
	objects  *objects.Client
	settings pki.Settings
	now      time.Time
	keys     nodeKeys
	names    peerNames

	notAfter, caNotAfter time.Time // zero: not known
	expired              []string  // Secrets and pods whose certificate has ended
	etcdCABundle         string    // stands for those that etcd is to trust; empty: unknown
	unsigned             bool      // the CA's key is lost, and the next one does not sign yet
}

func newCertificates(c *v1alpha1.TickMeshCluster, seen *inventory.Inventory, o *objects.Client, settings pki.Settings, now time.Time) certificates {
	return certificates{
		cluster: c, seen: seen, objects: o, settings: settings, now: now,
		keys: nodeKeys{c, seen}, names: peerNames{cluster: c, set: seen.NodeGroups[0].Set},
	}
}

// addTo adds to the facts that objects depend on.
func (c *certificates) addTo(f *build.Facts) {
	f.NamesOptional, f.EtcdCABundle = c.names.optional(), c.etcdCABundle
	if set := c.seen.EtcdSet; set != nil && f.EtcdCABundle == "" {
		f.EtcdCABundle = set.Spec.Template.Annotations[build.AnnotationConfigHash]
	}
}

// pressing reports whether etcd has to read other CAs before long: nothing is signed until
// then, or the present one ends within the time of a certificate.
func (c *certificates) pressing() bool {
	return c.unsigned || !c.caNotAfter.IsZero() && c.caNotAfter.Sub(c.now) < c.settings.LeafValidity
}

// known returns what is known of them.
func (c *certificates) known() report.Certificates {
	return report.Certificates{
		NotAfter: c.notAfter, AuthorityNotAfter: c.caNotAfter, Expired: c.expired,
		NamesProblem: c.names.problem(), NamesOptional: c.names.optional(), NodesShare: c.keys.isShared(),
	}
}

// renew advances the certificates that the operator makes.
func (c *certificates) renew(ctx context.Context) error {
	switch c.cluster.Spec.TLS.Mode {
	case v1alpha1.TLSModeOperator:
		return c.make(ctx)
	case v1alpha1.TLSModeCertManager:
		if c.cluster.Spec.Paused {
			return nil // cert-manager renews them
		}
		for _, identity := range build.IdentitiesToMake(c.cluster) {
			if err := c.objects.Apply(ctx, build.CertificateRequest(c.cluster, identity)); err != nil {
				return err
			}
		}
	case v1alpha1.TLSModeSecrets, v1alpha1.TLSModeOff:
	}
	return nil
}

func (c *certificates) make(ctx context.Context) error {
	holders, state := map[string]pki.Holder{}, pki.State{Leaves: map[string]*pki.Leaf{}}
	caSecret, err := c.objects.Secret(ctx, build.CASecretName(c.cluster))
	if err != nil {
		return err
	}
	if caSecret != nil {
		if state.CA, err = pki.ReadCA(caSecret); err != nil {
			return fmt.Errorf("secret %s: %w; delete it to have a new CA made, or put it back", build.CASecretName(c.cluster), err)
		}
	}
	secrets, err := c.secretHolders(ctx, holders, &state)
	if err != nil {
		return err
	}
	pods, refused := c.keys.addHolders(holders, &state)
	demand, err := c.demand(ctx, &state)
	if err != nil {
		return err
	}
	if c.cluster.Spec.Paused { // renewals go on, as what they are
		for name, leaf := range state.Leaves {
			holders[name] = pki.Holder{Identity: certificate.IdentityOf(leaf.Certificate, holders[name].Identity), Key: holders[name].Key}
		}
	}
	next, err := pki.Advance(c.settings, c.cluster.Name, holders, state, demand, c.now)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if next.CA != state.CA {
		if err := c.objects.WriteSecret(ctx, build.CASecretName(c.cluster), caSecret, next.CA.Write); err != nil {
			return err
		}
	}
	c.unsigned = next.CA.Signer.Key == nil
	// Not before that: etcd would be started again for CAs that there never are.
	c.etcdCABundle = caBundleHash(next.Leaves[build.IdentityEtcd])
	failed := []error{refused}
	for _, name := range slices.Sorted(maps.Keys(holders)) {
		leaf := next.Leaves[name]
		switch pod := pods[name]; {
		case leaf == nil || leaf == state.Leaves[name]:
		case pod != nil:
			failed = append(failed, c.annotate(ctx, pod, leaf))
		default:
			failed = append(failed, c.objects.WriteSecret(ctx, build.TLSSecret(c.cluster, name), secrets[name], leaf.Write))
		}
	}
	return errors.Join(failed...)
}

// secretHolders adds those whose certificates are in Secrets, and what they have; it returns the
// Secrets.
func (c *certificates) secretHolders(ctx context.Context, holders map[string]pki.Holder, state *pki.State) (map[string]*corev1.Secret, error) {
	secrets := map[string]*corev1.Secret{}
	names := build.IdentitiesToMake(c.cluster)
	if c.keys.isShared() {
		names = append(names, build.IdentityNode)
	}
	for _, name := range names {
		holders[name] = pki.Holder{Identity: certificate.Identity{
			CommonName: c.cluster.Name + "-" + name, Hosts: build.DNSNames(c.cluster, name), Name: build.PeerName(c.cluster, name),
		}}
		secret, err := c.objects.Secret(ctx, build.TLSSecret(c.cluster, name))
		if err != nil {
			return nil, err
		}
		if secrets[name] = secret; secret != nil {
			// One that cannot be read is as good as none: it is made anew.
			if leaf, err := pki.ReadLeaf(secret); err == nil {
				state.Leaves[name] = leaf
			}
		}
	}
	return secrets, nil
}

// demand returns what is asked of the CA.
func (c *certificates) demand(ctx context.Context, state *pki.State) (d pki.Demand, err error) {
	d.Rotation = c.cluster.Annotations[AnnotationRotate]
	d.Behind = c.etcdBehind(state.Leaves[build.IdentityEtcd], state.CA != nil && state.CA.Signer.Key == nil)
	if !c.cluster.Spec.Paused {
		d.Revoked, err = c.revokeShared(ctx)
	} else if d.Rotation = ""; state.CA != nil { // no other than before
		d.Rotation = state.CA.Rotation
	}
	return d, err
}

// read finds out when certificates end, whoever made them.
func (c *certificates) read(ctx context.Context) error {
	names := map[string]bool{}
	for _, identity := range []string{build.IdentityRouter, build.IdentityEtcd, build.IdentityOperator, build.IdentityEdge} {
		names[build.TLSSecret(c.cluster, identity)] = true
	}
	if !build.NodesKeepKeys(c.cluster) || c.keys.isShared() {
		names[build.TLSSecret(c.cluster, build.IdentityNode)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == "" {
			continue
		}
		secret, err := c.objects.Secret(ctx, name)
		if err != nil {
			return err
		}
		if secret == nil {
			continue // whoever needs it says so
		}
		if at, err := pki.NotAfter(secret); err == nil { // else whoever uses it says so
			c.ends("secret "+name, at)
		}
	}
	for _, pod := range c.seen.NodePods() {
		if leaf, err := pki.ReadAnnotated(pod); err == nil && build.KeepsKey(&pod.Spec) {
			c.ends("pod "+pod.Name, leaf.Certificate.NotAfter)
		}
	}
	if c.cluster.Spec.TLS.Mode != v1alpha1.TLSModeOperator {
		return c.names.read(func(name string) (*corev1.Secret, error) { return c.objects.Secret(ctx, name) })
	}
	caSecret, err := c.objects.Secret(ctx, build.CASecretName(c.cluster))
	if err != nil || caSecret == nil {
		return err
	}
	if at, err := pki.NotAfter(caSecret); err == nil {
		c.caNotAfter = at
	}
	return nil
}

// ends notes when the certificate of a holder ends.
func (c *certificates) ends(holder string, at time.Time) {
	if c.notAfter.IsZero() || at.Before(c.notAfter) {
		c.notAfter = at
	}
	if at.Before(c.now) {
		c.expired = append(c.expired, holder)
	}
}

// annotate shows a pod its certificate.
func (c *certificates) annotate(ctx context.Context, pod *corev1.Pod, leaf *pki.Leaf) error {
	changed := pod.DeepCopy()
	leaf.Annotate(changed)
	if err := c.objects.Cached.Patch(ctx, changed, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("show pod %s its certificate: %w", pod.Name, err)
	}
	pod.Annotations = changed.Annotations
	return nil
}

// revokeShared throws away the key that the nodes shared, once none uses it, and returns its
// certificates: whoever has the key could call as any node for as long as their CA is
// trusted.
func (c *certificates) revokeShared(ctx context.Context) ([]*x509.Certificate, error) {
	if c.keys.isShared() {
		return nil, nil
	}
	name := build.TLSSecret(c.cluster, build.IdentityNode)
	secret, err := c.objects.Secret(ctx, name)
	if err != nil || secret == nil || !c.objects.Owns(secret) {
		return nil, err
	}
	leaf, err := pki.ReadLeaf(secret)
	if err != nil {
		return nil, nil //nolint:nilerr // there is nothing that could be taken
	}
	if leaf.Key != nil {
		leaf.Key = nil
		if err := c.objects.WriteSecret(ctx, name, secret, leaf.Write); err != nil {
			return nil, err
		}
	}
	return []*x509.Certificate{leaf.Certificate}, nil
}

// caBundleHash stands for the CAs that a leaf's holder trusts, in whatever order.
func caBundleHash(l *pki.Leaf) string {
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

// etcdBehind reports whether a member of a managed etcd was started with other CAs than
// it is to trust. While nothing signs, one whose machine says nothing does not count: it is
// restarted when it is back, and new pods cannot wait for that. But it may still run, so that a
// majority has to know them: an etcd that trusts none of its own certificates would stay so.
func (c *certificates) etcdBehind(l *pki.Leaf, unsigned bool) bool {
	if c.cluster.Spec.Etcd.Managed == nil || c.seen.EtcdSet == nil {
		return false
	}
	want := caBundleHash(l)
	know, excused := 0, 0
	for _, pod := range c.seen.EtcdPods {
		machine := c.seen.Machines[pod.Spec.NodeName]
		silent := machine == nil || inventory.NotReadySinceMs(machine) > 0
		switch {
		case pod.Annotations[build.AnnotationConfigHash] == want:
			know++
		case unsigned && silent:
			excused++
		default:
			return true
		}
	}
	return excused > 0 && 2*know <= inventory.Replicas(c.seen.EtcdSet)
}
