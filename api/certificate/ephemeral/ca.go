// Package ephemeral makes certificates for a cluster whose roles share one process. The key of their CA never
// leaves memory, so no other process can call these roles, and the certificates are worthless once the process ends.
// It depends on no role's code: who serves and calls with the credentials is the caller's matter.
package ephemeral

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/durable"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

const (
	validity = 20 * 365 * 24 * time.Hour // longer than a process lives, with which the CA ends
	host     = "127.0.0.1"
)

// CA signs the certificates of one process.
type CA struct {
	signer  *certificate.Pair
	pool    *x509.CertPool
	cluster string
	now     time.Time
	dir     string
	etcd    etcdserver.TLSFiles // etcd reads its certificate from files, which only this user can read
}

// New makes a CA for a cluster, and writes the certificate of etcd to dir, which it empties first.
func New(cluster, dir string, now time.Time) (*CA, error) {
	signer, err := certificate.NewCA(cluster, "tickmesh standalone", validity, now)
	if err != nil {
		return nil, err
	}
	c := &CA{signer: signer, pool: x509.NewCertPool(), cluster: cluster, now: now, dir: dir}
	c.pool.AddCert(signer.Certificate)
	pair, err := c.issue(certificate.RoleEtcd, "")
	if err != nil {
		return nil, err
	}
	key, err := certificate.EncodeKey(pair.Key)
	if err != nil {
		return nil, err
	}
	if err := c.Remove(); err != nil { // of a process that was killed
		return nil, err
	}
	if err := durable.MakeDir(dir); err != nil {
		return nil, err
	}
	c.etcd = etcdserver.TLSFiles{Cert: filepath.Join(dir, "etcd.crt"), Key: filepath.Join(dir, "etcd.key"), CA: filepath.Join(dir, "ca.crt")}
	return c, errors.Join(
		durable.Replace(c.etcd.Cert, certificate.EncodeCertificates(pair.Certificate)),
		durable.Replace(c.etcd.Key, key),
		durable.Replace(c.etcd.CA, certificate.EncodeCertificates(signer.Certificate)))
}

func (c *CA) issue(role certificate.Role, id string) (*certificate.Pair, error) {
	return c.signer.Issue(certificate.Identity{
		CommonName: string(role), Hosts: []string{host}, Name: certificate.Name{Cluster: c.cluster, Role: role, ID: id},
	}, validity, c.now)
}

// EtcdFiles returns the names of the files that etcd reads.
func (c *CA) EtcdFiles() etcdserver.TLSFiles { return c.etcd }

// Credentials returns those of a node or the router.
func (c *CA) Credentials(role certificate.Role, id string) (p settings.PeerCredentials, err error) {
	pair, err := c.issue(role, id)
	if err != nil {
		return p, err
	}
	p.Names = handshake.Names{Cluster: c.cluster}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair.TLS()}, RootCAs: c.pool, ClientCAs: c.pool,
		ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.VerifiedChains) == 0 {
				return errors.New("the other side has no certificate of this process")
			}
			return nil
		},
	}
	p.Client = credentials.NewTLS(config)
	server := config.Clone()
	server.VerifyConnection = func(state tls.ConnectionState) error { return p.Names.VerifyCaller(state.VerifiedChains) }
	p.Server = credentials.NewTLS(server)
	return p, nil
}

// Remove deletes the files of etcd.
func (c *CA) Remove() error { return os.RemoveAll(c.dir) }
