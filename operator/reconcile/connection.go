package reconcile

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// connections are the ways to the parts of a cluster that run.
type connections struct {
	cluster  *v1alpha1.TickMeshCluster
	objects  *objects.Client
	meshes   *mesh.Pool
	kept     *etcdConnection
	openEtcd func(endpoints []string, secure *tls.Config) (etcd.Admin, error)
}

// tlsOf reads what the operator connects with; empty name: without TLS.
func (c *connections) tlsOf(ctx context.Context, name string, caOnly bool) (mesh.TLS, error) {
	if name == "" {
		return mesh.TLS{}, nil
	}
	secret, err := c.objects.Secret(ctx, name)
	if err != nil {
		return mesh.TLS{}, err
	}
	if secret == nil {
		return mesh.TLS{}, fmt.Errorf("secret %s is not there", name)
	}
	t := mesh.TLS{CABundle: string(secret.Data[pki.KeyCABundle])}
	if !caOnly {
		t.Cert, t.Key = string(secret.Data[corev1.TLSCertKey]), string(secret.Data[corev1.TLSPrivateKeyKey])
	}
	return t, nil
}

// etcdTLS reads what the operator connects to etcd with.
func (c *connections) etcdTLS(ctx context.Context) (mesh.TLS, error) {
	if external := c.cluster.Spec.Etcd.External; external != nil {
		return c.tlsOf(ctx, external.TLSSecretName, false)
	}
	return c.tlsOf(ctx, build.TLSSecret(c.cluster, build.IdentityOperator), false)
}

// toMesh connects to the routers and to the placement store, which as many members of a managed
// etcd serve.
func (c *connections) toMesh(ctx context.Context, members int) (mesh.Mesh, error) {
	etcdTLS, err := c.etcdTLS(ctx)
	if err != nil {
		return nil, err
	}
	access := build.AccessRouters(c.cluster)
	routerTLS, err := c.tlsOf(ctx, access.CASecret, true)
	if err != nil {
		return nil, err
	}
	token, err := c.routerToken(ctx, access.TokenSecret)
	if err != nil {
		return nil, err
	}
	return c.meshes.Get(clusterKey(c.cluster), mesh.Target{
		Cluster: build.StoreName(c.cluster), Etcd: strings.Join(c.etcdEndpoints(members), ","), EtcdTLS: etcdTLS,
		Router: access.Address, RouterTLS: routerTLS, Token: token,
	})
}

// toEtcd connects to a managed etcd of so many members.
func (c *connections) toEtcd(ctx context.Context, members int) (etcd.Admin, error) {
	material, err := c.etcdTLS(ctx)
	if err != nil {
		return nil, err
	}
	return c.kept.get(c.openEtcd, c.etcdEndpoints(members), material)
}

func (c *connections) etcdEndpoints(members int) []string {
	return build.EtcdEndpoints(c.cluster, build.Facts{EtcdEndpoints: int32(max(members, 1))})
}

// routerToken returns the token that routers are shown; empty: they ask for none.
func (c *connections) routerToken(ctx context.Context, secretName string) (string, error) {
	if secretName == "" {
		return "", nil
	}
	secret, err := c.objects.Secret(ctx, secretName)
	if err != nil || secret == nil {
		return "", err // it is made soon
	}
	return string(secret.Data[build.KeyToken]), nil
}

// etcdConnection is the client of a managed etcd, kept for as long as it is reached in the same
// way: members answer to one that is connected at once.
type etcdConnection struct {
	endpoints string
	tls       mesh.TLS
	admin     etcd.Admin // nil: there is none
}

// get returns the client for some endpoints, opened anew if they are others than before.
func (e *etcdConnection) get(open func([]string, *tls.Config) (etcd.Admin, error), endpoints []string, material mesh.TLS) (etcd.Admin, error) {
	joined := strings.Join(endpoints, ",")
	if e.admin != nil && e.endpoints == joined && e.tls == material {
		return e.admin, nil
	}
	secure, err := material.Config()
	if err != nil {
		return nil, err
	}
	admin, err := open(endpoints, secure)
	if err != nil {
		return nil, err
	}
	e.close()
	*e = etcdConnection{joined, material, admin}
	return admin, nil
}

func (e *etcdConnection) close() {
	if e.admin != nil {
		_ = e.admin.Close() // what was to be known was answered
		e.admin = nil
	}
}

// Close ends the connections that are kept of a cluster.
func (m *Memory) Close() { m.etcd.close() }

// clusterKey names a cluster: namespace/name.
func clusterKey(c *v1alpha1.TickMeshCluster) string { return c.Namespace + "/" + c.Name }
