package reconcile

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/pki"
)

// tlsOf reads what the operator connects with; empty name: without TLS.
func (p *pass) tlsOf(ctx context.Context, name string, authoritiesOnly bool) (mesh.TLS, error) {
	if name == "" {
		return mesh.TLS{}, nil
	}
	secret, err := p.secret(ctx, name)
	if err != nil {
		return mesh.TLS{}, err
	}
	if secret == nil {
		return mesh.TLS{}, fmt.Errorf("secret %s is not there", name)
	}
	t := mesh.TLS{Authorities: string(secret.Data[pki.KeyAuthorities])}
	if !authoritiesOnly {
		t.Cert, t.Key = string(secret.Data[corev1.TLSCertKey]), string(secret.Data[corev1.TLSPrivateKeyKey])
	}
	return t, nil
}

// etcdTLS reads what the operator connects to etcd with.
func (p *pass) etcdTLS(ctx context.Context) (mesh.TLS, error) {
	if external := p.cluster.Spec.Etcd.External; external != nil {
		return p.tlsOf(ctx, external.TLSSecretName, false)
	}
	return p.tlsOf(ctx, build.TLSSecret(p.cluster, build.IdentityOperator), false)
}

// mesh connects to the cluster.
func (p *pass) mesh(ctx context.Context, f build.Facts) (mesh.Mesh, error) {
	etcdTLS, err := p.etcdTLS(ctx)
	if err != nil {
		return nil, err
	}
	access := build.AccessRouters(p.cluster)
	routerTLS, err := p.tlsOf(ctx, access.CASecret, true)
	if err != nil {
		return nil, err
	}
	token, err := p.routerToken(ctx, access.TokenSecret)
	if err != nil {
		return nil, err
	}
	return p.Meshes.Get(p.key(), mesh.Target{
		Cluster: build.StoreName(p.cluster), Etcd: strings.Join(build.EtcdEndpoints(p.cluster, f), ","), EtcdTLS: etcdTLS,
		Router: access.Address, RouterTLS: routerTLS, Token: token,
	})
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
