package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/ownership"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// AnnotationRotate of a TickMeshCluster asks for a new authority, when it is set to
// another value; with tls.mode Operator.
const AnnotationRotate = v1alpha1.Group + "/rotate-certificates"

// secrets is what is known of a cluster's certificates.
type secrets struct {
	notAfter, authorityNotAfter time.Time // zero: not known
	expired                     []string  // Secrets and pods whose certificate has ended
	unnamed                     []string  // what is wrong with the names in certificates that others make
	namesKnown                  bool      // all of them were looked at
	etcdAuthorities             string    // stands for those that etcd is to trust; empty: nobody knows
}

// certificates brings the certificates on that the operator makes.
func (p *pass) certificates(ctx context.Context) error {
	switch p.cluster.Spec.TLS.Mode {
	case v1alpha1.TLSModeOperator:
		return p.makeCertificates(ctx)
	case v1alpha1.TLSModeCertManager:
		if p.cluster.Spec.Paused {
			return nil // cert-manager renews them
		}
		for _, identity := range build.IdentitiesToMake(p.cluster) {
			if err := p.apply(ctx, build.CertificateRequest(p.cluster, identity)); err != nil {
				return err
			}
		}
	case v1alpha1.TLSModeSecrets, v1alpha1.TLSModeOff:
	}
	return nil
}

func (p *pass) makeCertificates(ctx context.Context) error {
	c := p.cluster
	holders, state := map[string]pki.Holder{}, pki.State{Leaves: map[string]*pki.Leaf{}}
	authority, err := p.secret(ctx, build.AuthoritySecret(c))
	if err != nil {
		return err
	}
	if authority != nil {
		if state.Authority, err = pki.ReadAuthority(authority); err != nil {
			return fmt.Errorf("secret %s: %w; delete it to have a new authority made, or put it back", build.AuthoritySecret(c), err)
		}
	}
	secrets, err := p.secretHolders(ctx, holders, &state)
	if err != nil {
		return err
	}
	pods, refused := p.keyHolders(holders, &state)
	demand, err := p.demand(ctx, &state)
	if err != nil {
		return err
	}
	if c.Spec.Paused { // renewals go on, as what they are
		for name, leaf := range state.Leaves {
			holders[name] = pki.Holder{Identity: certificate.IdentityOf(leaf.Certificate, holders[name].Identity), Key: holders[name].Key}
		}
	}
	next, err := pki.Advance(p.PKI, c.Name, holders, state, demand, p.now)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if next.Authority != state.Authority {
		if err := p.writeSecret(ctx, build.AuthoritySecret(c), authority, next.Authority.Write); err != nil {
			return err
		}
	}
	// Not before that: etcd would be started again for authorities that there never are.
	p.secrets.etcdAuthorities = authoritiesHash(next.Leaves[build.IdentityEtcd])
	failed := []error{refused}
	for _, name := range slices.Sorted(maps.Keys(holders)) {
		leaf := next.Leaves[name]
		switch pod := pods[name]; {
		case leaf == nil || leaf == state.Leaves[name]:
		case pod != nil:
			failed = append(failed, p.annotate(ctx, pod, leaf))
		default:
			failed = append(failed, p.writeSecret(ctx, build.TLSSecret(c, name), secrets[name], leaf.Write))
		}
	}
	return errors.Join(failed...)
}

// secretHolders adds those whose certificates are in Secrets, and what they have; it returns the
// Secrets.
func (p *pass) secretHolders(ctx context.Context, holders map[string]pki.Holder, state *pki.State) (map[string]*corev1.Secret, error) {
	c := p.cluster
	secrets := map[string]*corev1.Secret{}
	names := build.IdentitiesToMake(c)
	if p.nodesShare() {
		names = append(names, build.IdentityNode)
	}
	for _, name := range names {
		holders[name] = pki.Holder{Identity: certificate.Identity{
			CommonName: c.Name + "-" + name, Hosts: build.DNSNames(c, name), Name: build.PeerName(c, name),
		}}
		secret, err := p.secret(ctx, build.TLSSecret(c, name))
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

// demand returns what is asked of the authority.
func (p *pass) demand(ctx context.Context, state *pki.State) (d pki.Demand, err error) {
	d.Rotation, d.Behind = p.cluster.Annotations[AnnotationRotate], p.etcdBehind(state.Leaves[build.IdentityEtcd])
	if !p.cluster.Spec.Paused {
		d.Revoked, err = p.revokeShared(ctx)
	} else if d.Rotation = ""; state.Authority != nil { // no other than before
		d.Rotation = state.Authority.Rotation
	}
	return d, err
}

// secret reads a Secret as it is now, whoever made it; nil: there is none.
func (p *pass) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := p.Reader.Get(ctx, types.NamespacedName{Namespace: p.cluster.Namespace, Name: name}, s)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	return s, nil
}

// writeSecret creates a Secret, or changes the one that was read: not if anybody has
// changed it since, because keys must not be lost.
func (p *pass) writeSecret(ctx context.Context, name string, present *corev1.Secret, write func(*corev1.Secret) error) error {
	owner := *metav1.NewControllerRef(p.cluster, v1alpha1.GroupVersion().WithKind(v1alpha1.KindCluster))
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: p.cluster.Namespace, Labels: build.Labels(p.cluster, "tls"), OwnerReferences: []metav1.OwnerReference{owner},
	}, Type: corev1.SecretTypeTLS}
	if present != nil {
		if err := ownership.CheckObject(p.cluster, "Secret", present); err != nil {
			return err
		}
		if s = present.DeepCopy(); !p.owns(s) {
			s.OwnerReferences = append(s.OwnerReferences, owner)
		}
	}
	if err := write(s); err != nil {
		return fmt.Errorf("secret %s: %w", name, err)
	}
	if present == nil {
		if err := p.Client.Create(ctx, s); err != nil {
			return fmt.Errorf("create secret %s: %w", name, err)
		}
		return nil
	}
	if err := p.Client.Update(ctx, s); err != nil {
		return fmt.Errorf("update secret %s: %w", name, err)
	}
	return nil
}

// readCertificates finds out when certificates end, whoever made them.
func (p *pass) readCertificates(ctx context.Context) error {
	c := p.cluster
	names := map[string]bool{}
	for _, identity := range []string{build.IdentityRouter, build.IdentityEtcd, build.IdentityOperator, build.IdentityEdge} {
		names[build.TLSSecret(c, identity)] = true
	}
	if !build.NodesKeepKeys(c) || p.nodesShare() {
		names[build.TLSSecret(c, build.IdentityNode)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == "" {
			continue
		}
		secret, err := p.secret(ctx, name)
		if err != nil {
			return err
		}
		if secret == nil {
			continue // whoever needs it says so
		}
		if at, err := pki.NotAfter(secret); err == nil { // else whoever uses it says so
			p.ends("secret "+name, at)
		}
	}
	for _, ordinal := range slices.Sorted(maps.Keys(p.seen.nodePods)) {
		pod := p.seen.nodePods[ordinal]
		if leaf, err := pki.ReadAnnotated(pod); err == nil && build.KeepsKey(&pod.Spec) {
			p.ends("pod "+pod.Name, leaf.Certificate.NotAfter)
		}
	}
	if c.Spec.TLS.Mode != v1alpha1.TLSModeOperator {
		return p.readNames(ctx)
	}
	authority, err := p.secret(ctx, build.AuthoritySecret(c))
	if err != nil || authority == nil {
		return err
	}
	if at, err := pki.NotAfter(authority); err == nil {
		p.secrets.authorityNotAfter = at
	}
	return nil
}

// ends notes when the certificate of a holder ends.
func (p *pass) ends(holder string, at time.Time) {
	if p.secrets.notAfter.IsZero() || at.Before(p.secrets.notAfter) {
		p.secrets.notAfter = at
	}
	if at.Before(p.now) {
		p.secrets.expired = append(p.secrets.expired, holder)
	}
}

// readNames finds out whether the certificates that others make name what they are for.
func (p *pass) readNames(ctx context.Context) error {
	for _, identity := range []string{build.IdentityNode, build.IdentityRouter} {
		name, want := build.TLSSecret(p.cluster, identity), build.PeerName(p.cluster, identity)
		if name == "" {
			continue
		}
		secret, err := p.secret(ctx, name)
		if err != nil {
			return err
		}
		if secret == nil {
			continue // whoever needs it says so
		}
		chain, err := certificate.DecodeCertificates(secret.Data[corev1.TLSCertKey])
		if err != nil {
			p.secrets.unnamed = append(p.secrets.unnamed, fmt.Sprintf("secret %s: %v", name, err))
			continue
		}
		is, err := certificate.NameOf(chain[0])
		switch {
		case err != nil:
			p.secrets.unnamed = append(p.secrets.unnamed, fmt.Sprintf("secret %s: %v; its certificate needs the URI %s", name, err, want))
		case is == (certificate.Name{}):
			p.secrets.unnamed = append(p.secrets.unnamed, fmt.Sprintf("secret %s: its certificate needs the URI %s, and has none", name, want))
		case is != want:
			p.secrets.unnamed = append(p.secrets.unnamed, fmt.Sprintf("secret %s: its certificate needs the URI %s, and is of %s", name, want, is))
		}
	}
	p.secrets.namesKnown = true
	return nil
}

// othersMakeCertificates reports whether somebody else decides on the names in certificates.
func (p *pass) othersMakeCertificates() bool {
	mode := p.cluster.Spec.TLS.Mode
	return mode == v1alpha1.TLSModeCertManager || mode == v1alpha1.TLSModeSecrets
}

// namesOptional reports whether certificates without names are let in now. A cluster that
// lets them in goes on until its spec demands names and all certificates have them.
func (p *pass) namesOptional() bool {
	if !p.othersMakeCertificates() {
		return false
	}
	isOptional := p.wasMade() && len(p.secrets.unnamed) > 0 // somebody deleted the set: its pods go on
	if p.seen.nodeSet != nil {
		isOptional = build.NamesOptional(&p.seen.nodeSet.Spec.Template)
	}
	switch p.cluster.Spec.TLS.Names {
	case v1alpha1.CertificateNamesOptional:
		return true
	case v1alpha1.CertificateNamesRequired:
		return isOptional && (len(p.secrets.unnamed) > 0 || !p.secrets.namesKnown)
	}
	return isOptional
}

// namesProblem returns what is to be done about names in certificates; empty: nothing.
func (p *pass) namesProblem() string {
	names, unnamed := p.cluster.Spec.TLS.Names, strings.Join(p.secrets.unnamed, "; ")
	switch {
	case !p.othersMakeCertificates() || names == v1alpha1.CertificateNamesOptional:
		return ""
	case names == "" && p.namesOptional():
		text := "certificates that name no process are let in, and may do everything: set spec.tls.names to Required, or to Optional to leave it so"
		if unnamed != "" {
			text += "; before that, " + unnamed
		}
		return text
	case unnamed != "" && p.namesOptional():
		return "certificates that name no process are let in until those of the cluster have names: " + unnamed
	case unnamed != "":
		return "nodes and routers take no certificate that does not name its process: " + unnamed + "; or set spec.tls.names to Optional"
	}
	return ""
}
