package build

import "github.com/tickmesh/tickmesh/api/v1alpha1"

// AuthEnabled reports whether routers ask callers who they are.
func AuthEnabled(c *v1alpha1.TickMeshCluster) bool { return c.Spec.Security.AuthSecretName != "" }

// AuthSecret returns the name of the Secret with all users that routers know.
func AuthSecret(c *v1alpha1.TickMeshCluster) string { return c.Name + "-auth" }

// TokenSecret returns the name of the Secret with the tokens of the operator and of
// Prometheus.
func TokenSecret(c *v1alpha1.TickMeshCluster) string { return c.Name + "-operator-token" }

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
