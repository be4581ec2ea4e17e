package build

import (
	corev1 "k8s.io/api/core/v1"

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

func hostNames(service string) []string { return []string{service, service + ".cluster.local"} }

// Keys of Secrets.
const (
	keyCA              = "ca.crt"
	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey"
	keyIdentities      = "identities.txt"
	keySigning         = "signing.pem"
	keyVerify          = "verify.pem"
)

// RouterAccess is how the operator and the Jobs of backups reach the routers.
type RouterAccess struct {
	// Address is host:port of the gRPC API.
	Address string
	// CASecret is the Secret whose ca.crt has the CA of the routers' certificates;
	// empty: there is no TLS.
	CASecret string
	// TokenSecret is the Secret whose KeyToken has the token to show; empty: nobody asks for
	// one.
	TokenSecret string
}

// AccessRouters returns how the operator and the Jobs of backups reach the routers.
func AccessRouters(c *v1alpha1.TickMeshCluster) RouterAccess {
	access := RouterAccess{Address: hostPort(routerServerName(c), PortGRPC)}
	if AuthEnabled(c) {
		access.TokenSecret = TokenSecret(c)
	}
	switch {
	case routerFrontSecret(c) == "":
	case EnvoyEnabled(c):
		access.CASecret = TLSSecret(c, IdentityOperator)
	default:
		access.CASecret = TLSSecret(c, IdentityEdge)
	}
	return access
}

// routerServerName returns the name that the certificate of the routers' ports for clients
// is valid for: without Envoy it is the one that clients see.
func routerServerName(c *v1alpha1.TickMeshCluster) string {
	if routerFrontSecret(c) != "" && !EnvoyEnabled(c) {
		return ServiceAddress(c, ClientServiceName(c))
	}
	return ServiceAddress(c, Name(c, ComponentRouter))
}

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

// secretFileMode allows any user of a pod to read its Secrets; nobody else can see them.
const secretFileMode = 0o444

// secretVolume is a Secret as files. It need not be there when the pod is made.
func secretVolume(name, secret string) corev1.Volume {
	mode := int32(secretFileMode)
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode}}}
}
