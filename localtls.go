package main

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
	"github.com/tickmesh/tickmesh/node/member"
)

const (
	// localValidity is longer than a process lives: its authority ends with it.
	localValidity = 20 * 365 * 24 * time.Hour
	localHost     = "127.0.0.1"
)

// closedDoors are the certificates of a cluster in one process. The key of the authority
// never leaves its memory.
type closedDoors struct {
	authority *certificate.Pair
	pool      *x509.CertPool
	now       time.Time
	dir       string
	etcd      etcdserver.TLSFiles // etcd reads its certificate from files, which only this user can read
}

// newClosedDoors makes an authority, and the files of etcd in dir.
func newClosedDoors(dir string, now time.Time) (*closedDoors, error) {
	authority, err := certificate.NewAuthority(member.StandaloneName, "tickmesh standalone", localValidity, now)
	if err != nil {
		return nil, err
	}
	c := &closedDoors{authority: authority, pool: x509.NewCertPool(), now: now, dir: dir}
	c.pool.AddCert(authority.Certificate)
	pair, err := c.issue(certificate.RoleEtcd, "")
	if err != nil {
		return nil, err
	}
	key, err := certificate.EncodeKey(pair.Key)
	if err != nil {
		return nil, err
	}
	if err := c.remove(); err != nil { // of a process that was killed
		return nil, err
	}
	if err := durable.MakeDir(dir); err != nil {
		return nil, err
	}
	c.etcd = etcdserver.TLSFiles{Cert: filepath.Join(dir, "etcd.crt"), Key: filepath.Join(dir, "etcd.key"), CA: filepath.Join(dir, "ca.crt")}
	return c, errors.Join(
		durable.Replace(c.etcd.Cert, certificate.EncodeCertificates(pair.Certificate)),
		durable.Replace(c.etcd.Key, key),
		durable.Replace(c.etcd.CA, certificate.EncodeCertificates(authority.Certificate)))
}

func (c *closedDoors) issue(role certificate.Role, id string) (*certificate.Pair, error) {
	return c.authority.Issue(certificate.Identity{
		CommonName: string(role), Hosts: []string{localHost}, Name: certificate.Name{Cluster: member.StandaloneName, Role: role, ID: id},
	}, localValidity, c.now)
}

// process returns the credentials of a node or the router.
func (c *closedDoors) process(role certificate.Role, id string) (p settings.PeerCredentials, err error) {
	pair, err := c.issue(role, id)
	if err != nil {
		return p, err
	}
	p.Names = handshake.Names{Cluster: member.StandaloneName}
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

// remove deletes the files of etcd.
func (c *closedDoors) remove() error { return os.RemoveAll(c.dir) }
