package kubernetes

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const (
	issuedCluster = "issued"
	outerEtcd     = "outer-etcd"
)

// issuer stands for cert-manager with a CA as its issuer: it writes the Secret that a Certificate asks for in the
// shape that cert-manager gives it (type kubernetes.io/tls with ca.crt, a new key each time).
type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// certificateRequest is what the issuer reads of a Certificate.
type certificateRequest struct {
	SecretName string   `json:"secretName"`
	DNSNames   []string `json:"dnsNames"`
	URIs       []string `json:"uris"`
}

func newIssuer() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer of the tests"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &issuer{certificate, key, 1}, err
}

// secret makes the Secret of a request.
func (i *issuer) secret(r certificateRequest) (manifest string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	i.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(i.serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
		DNSNames: r.DNSNames, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, text := range r.URIs {
		uri, err := url.Parse(text)
		if err != nil {
			return "", err
		}
		template.URIs = append(template.URIs, uri)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.certificate, &key.PublicKey, i.key)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	text := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %s}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s, ca.crt: %s}
`, r.SecretName, text("CERTIFICATE", der), text("PRIVATE KEY", private), text("CERTIFICATE", i.certificate.Raw)), nil
}

// requests returns what Certificates ask for.
func (s *stage) requests(ctx context.Context) (all []certificateRequest, err error) {
	text, err := s.kubectl(ctx, "get", "certificates.cert-manager.io", "--output=json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Spec certificateRequest `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		all = append(all, item.Spec)
	}
	return all, nil
}

// issue writes the Secrets of all requests but those that are done.
func (s *stage) issue(ctx context.Context, i *issuer, done map[string]bool) error {
	all, err := s.requests(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if done[r.SecretName] {
			continue
		}
		manifest, err := i.secret(r)
		if err != nil {
			return err
		}
		if err := s.applyIn(ctx, namespace, manifest); err != nil {
			return err
		}
		done[r.SecretName] = true
	}
	return nil
}

// issued makes a cluster with an etcd of somebody else's, and with certificates of cert-manager, which renews them.
func (s *stage) issued() {
	etcd, err := os.ReadFile(filepath.Join("testdata", "etcd.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	definition, err := os.ReadFile(filepath.Join("testdata", "certificates.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	version, err := chartVersion(s.release)
	if err != nil {
		s.Fatal(err)
	}
	i, err := newIssuer()
	if err != nil {
		s.Fatal(err)
	}
	outside := bytes.ReplaceAll(etcd, []byte("IMAGE"), []byte("tickmesh:"+version))
	done := map[string]bool{}
	serves := func(ctx context.Context) error {
		door := fmt.Sprintf("http://%s.%s.svc.cluster.local:%d", issuedCluster, namespace, portHTTP)
		c := client(s.rack)
		if err := post(ctx, c, door+"/write?precision=s", "issued value=7 1700000042\n"); err != nil {
			return err
		}
		return get(ctx, c, door+"/api/query?start=1700000000&end=1700000100&m=sum:issued", `"1700000042":7`)
	}
	s.phase("an etcd of somebody else's, certificates of an issuer", func(ctx context.Context) error {
		host := outerEtcd + "." + namespace + ".svc"
		for _, r := range []certificateRequest{{outerEtcd, []string{host}, nil}, {outerEtcd + "-client", []string{"client"}, nil}} {
			manifest, err := i.secret(r)
			if err != nil {
				return err
			}
			if err := s.applyIn(ctx, namespace, manifest); err != nil {
				return err
			}
		}
		if err := errors.Join(s.applyIn(ctx, namespace, string(outside)), s.applyIn(ctx, namespace, string(definition))); err != nil {
			return err
		}
		if err := s.podReady(ctx, outerEtcd); err != nil {
			return err
		}
		spec := "  routers: {count: 1}\n  envoy: {replicas: 1}\n  tls: {mode: CertManager, issuerRef: {name: lab}}\n" +
			"  etcd: {external: {endpoints: ['https://" + host + ":2379'], tlsSecretName: " + outerEtcd + "-client}}\n"
		manifest := strings.Replace(neighbour(issuedCluster, spec), "nodes: {count: 1,", "nodes: {count: 3,", 1)
		if err := s.applyIn(ctx, namespace, strings.Replace(manifest, "replication: 1", "replication: 2", 1)); err != nil {
			return err
		}
		if err := lab.Wait(ctx, func() (bool, error) {
			if err := s.issue(ctx, i, done); err != nil {
				return false, err
			}
			state, err := s.kubectl(ctx, "get", "tmc/"+issuedCluster, `--output=jsonpath={.status.readyNodes} {.status.conditions[?(@.type=="Available")].status}`)
			if err == nil && state != "3 True" {
				err = fmt.Errorf("ready nodes and Available: %s; issued: %v", state, done)
			}
			return err == nil, err
		}); err != nil {
			return err
		}
		return serves(ctx)
	})
	s.phase("all of them are renewed: nobody restarts", func(ctx context.Context) error {
		before, err := s.processesOf(ctx, issuedCluster)
		if err != nil {
			return err
		}
		if err := s.issue(ctx, i, map[string]bool{}); err != nil {
			return err
		}
		secret := ""
		all, err := s.requests(ctx)
		if err != nil {
			return err
		}
		for _, r := range all {
			if len(r.URIs) == 1 && strings.HasSuffix(r.URIs[0], "/node/*") {
				secret = r.SecretName
			}
		}
		if secret == "" {
			return fmt.Errorf("no certificate is asked for nodes: %v", all)
		}
		for node := range 3 {
			if err := s.shows(ctx, fmt.Sprintf("%s-node-%d.%s-node:6190", issuedCluster, node, issuedCluster), "secret/"+secret); err != nil {
				return err
			}
		}
		if err := serves(ctx); err != nil {
			return err
		}
		after, err := s.processesOf(ctx, issuedCluster)
		if err == nil && after != before {
			err = fmt.Errorf("pods were %s, and are %s", before, after)
		}
		return err
	})
	s.phase("the cluster goes, the etcd of somebody else's stays", func(ctx context.Context) error {
		if err := s.deleteNeighbour(ctx, issuedCluster); err != nil {
			return err
		}
		if err := s.podReady(ctx, outerEtcd); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"delete", "pod/" + outerEtcd, "service/" + outerEtcd, "--grace-period=1"},
			{"delete", "customresourcedefinition/certificates.cert-manager.io"},
			append([]string{"delete", "secrets", outerEtcd, outerEtcd + "-client"}, slices.Sorted(maps.Keys(done))...),
		} {
			if _, err := s.kubectl(ctx, args...); err != nil {
				return err
			}
		}
		return s.settled(ctx, 3)
	})
}
