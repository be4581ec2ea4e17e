package build

import (
	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Identities that have certificates: those of the components inside a cluster, of the
// operator, and of the Service that clients use.
const (
	IdentityNode     = "node"
	IdentityRouter   = "router"
	IdentityEtcd     = "etcd"
	IdentityOperator = "operator"
	IdentityEdge     = "edge"
)

// TLSEnabled reports whether connections inside a cluster are encrypted.
func TLSEnabled(c *v1alpha1.TickMeshCluster) bool { return c.Spec.TLS.Mode != v1alpha1.TLSModeOff }

// CASecretName returns the name of the Secret with the CA that the operator
// makes certificates with.
func CASecretName(c *v1alpha1.TickMeshCluster) string { return c.Name + "-ca" }

// TLSSecret returns the name of the Secret with an identity's certificate; empty: it has
// none.
func TLSSecret(c *v1alpha1.TickMeshCluster, identity string) string {
	if identity == IdentityEdge {
		switch t := c.Spec.Service.TLS; {
		case t == nil:
			return ""
		case t.SecretName != "":
			return t.SecretName
		}
		return c.Name + "-edge-tls"
	}
	if !TLSEnabled(c) || identity == IdentityEtcd && c.Spec.Etcd.Managed == nil {
		return ""
	}
	if names := c.Spec.TLS.SecretNames; names != nil && c.Spec.TLS.Mode == v1alpha1.TLSModeSecrets {
		return map[string]string{
			IdentityNode: names.Node, IdentityRouter: names.Router, IdentityEtcd: names.Etcd, IdentityOperator: names.Operator,
		}[identity]
	}
	return c.Name + "-" + identity + "-tls"
}

// IdentitiesToMake returns the identities whose certificates, in Secrets, the operator, or
// cert-manager for it, has to make.
func IdentitiesToMake(c *v1alpha1.TickMeshCluster) (identities []string) {
	if c.Spec.TLS.Mode != v1alpha1.TLSModeOperator && c.Spec.TLS.Mode != v1alpha1.TLSModeCertManager {
		return nil
	}
	if !NodesKeepKeys(c) {
		identities = append(identities, IdentityNode)
	}
	identities = append(identities, IdentityRouter, IdentityOperator)
	if c.Spec.Etcd.Managed != nil {
		identities = append(identities, IdentityEtcd)
	}
	if t := c.Spec.Service.TLS; t != nil && t.SecretName == "" {
		identities = append(identities, IdentityEdge)
	}
	return identities
}

// DNSNames returns the names that an identity's certificate has to be valid for. The
// operator's is shown only, and has its name for logs.
func DNSNames(c *v1alpha1.TickMeshCluster, identity string) []string {
	pods := func(component string) []string {
		service := ServiceAddress(c, Name(c, component))
		return append(hostNames(service), "*."+service, "*."+service+".cluster.local", "localhost")
	}
	switch identity {
	case IdentityNode:
		return pods(ComponentNode)
	case IdentityEtcd:
		return pods(ComponentEtcd)
	case IdentityRouter:
		return append(pods(ComponentRouter), hostNames(ServiceAddress(c, ClientServiceName(c)))...)
	case IdentityEdge:
		names := append(hostNames(ServiceAddress(c, ClientServiceName(c))), ClientServiceName(c), ClientServiceName(c)+"."+c.Namespace)
		return append(names, c.Spec.Service.TLS.Hosts...)
	}
	return []string{ServiceAddress(c, Name(c, identity))}
}

// PeerName returns the name in an identity's certificate for the other processes of the
// cluster. That of all nodes is shared, so it is for any of them; see NodeIdentity for those
// that have their own. The edge has no name: what clients see opens nothing inside.
func PeerName(c *v1alpha1.TickMeshCluster, identity string) certificate.Name {
	n := certificate.Name{Cluster: StoreName(c)}
	switch identity {
	case IdentityNode:
		n.Role, n.ID = certificate.RoleNode, certificate.AnyID
	case IdentityRouter:
		n.Role = certificate.RoleRouter
	case IdentityEtcd:
		n.Role = certificate.RoleEtcd
	case IdentityOperator:
		n.Role = certificate.RoleOperator
	default:
		return certificate.Name{}
	}
	return n
}

// Keys of Secrets.
const (
	keyCA              = "ca.crt"
	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey"
	keyIdentities      = "identities.txt"
	keySigning         = "signing.pem"
	keyVerify          = "verify.pem"
)

// routerFrontSecret returns the Secret with the certificate of the routers' ports for
// clients; empty: they have no TLS. Behind Envoy that is the routers' own one, so that
// what clients send encrypted stays so.
func routerFrontSecret(c *v1alpha1.TickMeshCluster) string {
	switch {
	case c.Spec.Service.TLS == nil:
		return ""
	case EnvoyEnabled(c):
		return TLSSecret(c, IdentityRouter)
	}
	return TLSSecret(c, IdentityEdge)
}

// NodesKeepKeys reports whether each node has a certificate of its own, of a key that never
// leaves its pod. Whoever else makes the certificates cannot be asked by a pod.
func NodesKeepKeys(c *v1alpha1.TickMeshCluster) bool {
	return c.Spec.TLS.Mode == v1alpha1.TLSModeOperator
}
