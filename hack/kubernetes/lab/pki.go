package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is longer than any lab lives.
const certificateLife = 30 * 24 * time.Hour

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// leaf describes what a certificate is for.
type leaf struct {
	file         string // without ending
	name         string // common name: the user's name for Kubernetes
	organization string // the user's group for Kubernetes
	hosts        []string
	addresses    []string
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, key, 1}, err
}

// issue signs l, for servers and clients alike, and returns certificate and key as PEM.
func (a *authority) issue(l leaf) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: l.name},
		NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    l.hosts,
	}
	if l.organization != "" {
		template.Subject.Organization = []string{l.organization}
	}
	for _, address := range l.addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = pemKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, err
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func pemKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// clusterLeaves lists the certificates that the cluster's authority signs.
func clusterLeaves() []leaf {
	leaves := []leaf{
		{"apiserver", "kube-apiserver", "", []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}, []string{"127.0.0.1", rackAddress, apiService}},
		{"apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters", nil, nil},
		{"admin", "lab-admin", "system:masters", nil, nil},
		{"controllers", "system:kube-controller-manager", "", nil, []string{"127.0.0.1"}},
		{"scheduler", "system:kube-scheduler", "", nil, []string{"127.0.0.1"}},
		{"proxy", "system:kube-proxy", "", nil, nil},
	}
	for _, n := range allNodes() {
		leaves = append(leaves, leaf{n.name(), "system:node:" + n.name(), "system:nodes", []string{n.name()}, []string{n.address()}})
	}
	return leaves
}

// writePKI makes all keys, certificates and kubeconfigs of one cluster in dir. Every
// leaf L has L.crt, L.key and L.kubeconfig.
func writePKI(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	files := map[string][]byte{}
	cluster, err := newAuthority("lab", now)
	if err != nil {
		return err
	}
	files["ca.crt"] = cluster.pem()
	if files["ca.key"], err = pemKey(cluster.key); err != nil {
		return err
	}
	for _, l := range clusterLeaves() {
		certificate, key, err := cluster.issue(l)
		if err != nil {
			return err
		}
		files[l.file+".crt"], files[l.file+".key"] = certificate, key
		files[l.file+".kubeconfig"] = kubeconfig(cluster.pem(), certificate, key)
	}
	front, err := newAuthority("lab-front-proxy", now)
	if err != nil {
		return err
	}
	files["front.crt"] = front.pem()
	if files["front-client.crt"], files["front-client.key"], err = front.issue(leaf{name: "front-proxy-client"}); err != nil {
		return err
	}
	if err := addTokenKeys(files); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// addTokenKeys adds the pair that signs the tokens of service accounts.
func addTokenKeys(files map[string][]byte) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if files["tokens.key"], err = pemKey(key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	files["tokens.pub"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return err
}

func kubeconfig(authority, certificate, key []byte) []byte {
	var b bytes.Buffer
	base := base64.StdEncoding.EncodeToString
	fmt.Fprintf(&b, `apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: user
  user: {client-certificate-data: %s, client-key-data: %s}
contexts:
- name: lab
  context: {cluster: lab, user: user}
current-context: lab
`, apiURL(), base(authority), base(certificate), base(key))
	return b.Bytes()
}
