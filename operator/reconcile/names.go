package reconcile

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// peerNames are the names of processes in certificates that others make.
type peerNames struct {
	cluster *v1alpha1.TickMeshCluster
	set     *appsv1.StatefulSet // of nodes; nil: there is none

	unnamed []string // what is wrong with the names
	known   bool     // all certificates were looked at
}

// read finds out whether the certificates that others make name what they are for.
func (n *peerNames) read(secretOf func(name string) (*corev1.Secret, error)) error {
	for _, identity := range []string{build.IdentityNode, build.IdentityRouter} {
		name, want := build.TLSSecret(n.cluster, identity), build.PeerName(n.cluster, identity)
		if name == "" {
			continue
		}
		secret, err := secretOf(name)
		if err != nil {
			return err
		}
		if secret == nil {
			continue // whoever needs it says so
		}
		chain, err := certificate.DecodeCertificates(secret.Data[corev1.TLSCertKey])
		if err != nil {
			n.unnamed = append(n.unnamed, fmt.Sprintf("secret %s: %v", name, err))
			continue
		}
		is, err := certificate.NameOf(chain[0])
		switch {
		case err != nil:
			n.unnamed = append(n.unnamed, fmt.Sprintf("secret %s: %v; its certificate needs the URI %s", name, err, want))
		case is == (certificate.Name{}):
			n.unnamed = append(n.unnamed, fmt.Sprintf("secret %s: its certificate needs the URI %s, and has none", name, want))
		case is != want:
			n.unnamed = append(n.unnamed, fmt.Sprintf("secret %s: its certificate needs the URI %s, and is of %s", name, want, is))
		}
	}
	n.known = true
	return nil
}

// ofOthers reports whether somebody else decides on the names in certificates.
func (n *peerNames) ofOthers() bool {
	mode := n.cluster.Spec.TLS.Mode
	return mode == v1alpha1.TLSModeCertManager || mode == v1alpha1.TLSModeSecrets
}

// optional reports whether certificates without names are let in now. A cluster that
// lets them in goes on until its spec demands names and all certificates have them.
func (n *peerNames) optional() bool {
	if !n.ofOthers() {
		return false
	}
	isOptional := n.cluster.Status.Shards > 0 && len(n.unnamed) > 0 // somebody deleted the set: its pods go on
	if n.set != nil {
		isOptional = build.NamesOptional(&n.set.Spec.Template)
	}
	switch n.cluster.Spec.TLS.Names {
	case v1alpha1.CertificateNamesOptional:
		return true
	case v1alpha1.CertificateNamesRequired:
		return isOptional && (len(n.unnamed) > 0 || !n.known)
	}
	return isOptional
}

// problem returns what is to be done about names in certificates; empty: nothing.
func (n *peerNames) problem() string {
	names, unnamed := n.cluster.Spec.TLS.Names, strings.Join(n.unnamed, "; ")
	switch {
	case !n.ofOthers() || names == v1alpha1.CertificateNamesOptional:
		return ""
	case names == "" && n.optional():
		text := "certificates that name no process are let in, and may do everything: set spec.tls.names to Required, or to Optional to leave it so"
		if unnamed != "" {
			text += "; before that, " + unnamed
		}
		return text
	case unnamed != "" && n.optional():
		return "certificates that name no process are let in until those of the cluster have names: " + unnamed
	case unnamed != "":
		return "nodes and routers take no certificate that does not name its process: " + unnamed + "; or set spec.tls.names to Optional"
	}
	return ""
}
