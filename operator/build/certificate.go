package build

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// CertificateRequest makes the Certificate of cert-manager for an identity, with tls.mode
// CertManager. cert-manager's types are no dependency of ours.
func CertificateRequest(c *v1alpha1.TickMeshCluster, identity string) *unstructured.Unstructured {
	var names, addresses []any
	for _, host := range DNSNames(c, identity) {
		if _, err := netip.ParseAddr(host); err == nil {
			addresses = append(addresses, host)
		} else {
			names = append(names, host)
		}
	}
	spec := map[string]any{
		"secretName": TLSSecret(c, identity), "dnsNames": names, "usages": []any{"digital signature", "server auth", "client auth"},
		"privateKey": map[string]any{"algorithm": "ECDSA", "encoding": "PKCS8", "size": int64(256), "rotationPolicy": "Always"},
	}
	if name := PeerName(c, identity); name != (certificate.Name{}) {
		spec["uris"] = []any{name.String()}
	}
	if addresses != nil {
		spec["ipAddresses"] = addresses
	}
	if issuer := c.Spec.TLS.IssuerRef; issuer != nil {
		spec["issuerRef"] = map[string]any{"name": issuer.Name, "kind": issuer.Kind, "group": issuer.Group}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion("cert-manager.io/v1")
	u.SetKind("Certificate")
	m := meta(c, identity, TLSSecret(c, identity))
	u.SetName(m.Name)
	u.SetNamespace(m.Namespace)
	u.SetLabels(m.Labels)
	u.SetOwnerReferences(m.OwnerReferences)
	return u
}
