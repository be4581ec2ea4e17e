package reconcile

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/operator/build"
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
	return p.Meshes.Get(p.meshKey(), mesh.Target{
		Cluster: build.StoreName(p.cluster), Etcd: strings.Join(build.EtcdEndpoints(p.cluster, f), ","), EtcdTLS: etcdTLS,
		Router: access.Address, RouterTLS: routerTLS, Token: token,
	})
}
