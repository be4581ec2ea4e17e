package reconcile

import (
	"context"
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
	expired                     []string  // Secrets whose certificate has ended
	unnamed                     []string  // what is wrong with the names in certificates that others make
	namesKnown                  bool      // all of them were looked at
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
	identities, state := map[string]certificate.Identity{}, pki.State{Leaves: map[string]*pki.Leaf{}}
	present := map[string]*corev1.Secret{}
	for _, identity := range build.IdentitiesToMake(c) {
		identities[identity] = certificate.Identity{
			CommonName: c.Name + "-" + identity, Hosts: build.DNSNames(c, identity), Name: build.PeerName(c, identity),
		}
		secret, err := p.secret(ctx, build.TLSSecret(c, identity))
		if err != nil {
			return err
		}
		if present[identity] = secret; secret != nil {
			// One that cannot be read is as good as none: it is made anew.
			if leaf, err := pki.ReadLeaf(secret); err == nil {
				state.Leaves[identity] = leaf
			}
		}
	}
	authority, err := p.secret(ctx, build.AuthoritySecret(c))
	if err != nil {
		return err
	}
	if authority != nil {
		if state.Authority, err = pki.ReadAuthority(authority); err != nil {
			return fmt.Errorf("secret %s: %w; delete it to have a new authority made, or put it back", build.AuthoritySecret(c), err)
		}
	}
	rotation := c.Annotations[AnnotationRotate]
	if c.Spec.Paused { // renewals go on, as what they are
		if rotation = ""; state.Authority != nil {
			rotation = state.Authority.Rotation
		}
		for identity, leaf := range state.Leaves {
			identities[identity] = certificate.IdentityOf(leaf.Certificate, identities[identity])
		}
	}
	next, err := pki.Advance(p.PKI, c.Name, identities, state, rotation, p.now)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if next.Authority != state.Authority {
		if err := p.writeSecret(ctx, build.AuthoritySecret(c), authority, next.Authority.Write); err != nil {
			return err
		}
	}
	for _, identity := range slices.Sorted(maps.Keys(identities)) {
		leaf := next.Leaves[identity]
		if leaf == nil || leaf == state.Leaves[identity] {
			continue
		}
		if err := p.writeSecret(ctx, build.TLSSecret(c, identity), present[identity], leaf.Write); err != nil {
			return err
		}
	}
	return nil
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
	for _, identity := range []string{build.IdentityNode, build.IdentityRouter, build.IdentityEtcd, build.IdentityOperator, build.IdentityEdge} {
		names[build.TLSSecret(c, identity)] = true
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
		at, err := pki.NotAfter(secret)
		if err != nil {
			continue // so does whoever uses it
		}
		if p.secrets.notAfter.IsZero() || at.Before(p.secrets.notAfter) {
			p.secrets.notAfter = at
		}
		if at.Before(p.now) {
			p.secrets.expired = append(p.secrets.expired, name)
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
