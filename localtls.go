package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
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
	authority, err := certificate.NewAuthority(lonelyName, "tickmesh standalone", localValidity, now)
	if err != nil {
		return nil, err
	}
	c := &closedDoors{authority: authority, pool: x509.NewCertPool(), now: now, dir: dir}
	c.pool.AddCert(authority.Certificate)
	pair, err := c.issue(certificate.RoleEtcd, "")
	if err != nil {
		return nil, err
	}
	key, err := pair.EncodeKey()
	if err != nil {
		return nil, err
	}
	if err := c.remove(); err != nil { // of a process that was killed
		return nil, err
	}
	if err := makePrivateDir(dir); err != nil {
		return nil, err
	}
	c.etcd = etcdserver.TLSFiles{Cert: filepath.Join(dir, "etcd.crt"), Key: filepath.Join(dir, "etcd.key"), CA: filepath.Join(dir, "ca.crt")}
	return c, errors.Join(
		writePrivate(c.etcd.Cert, certificate.EncodeCertificates(pair.Certificate)),
		writePrivate(c.etcd.Key, key),
		writePrivate(c.etcd.CA, certificate.EncodeCertificates(authority.Certificate)))
}

func (c *closedDoors) issue(role certificate.Role, id string) (*certificate.Pair, error) {
	return c.authority.Issue(certificate.Identity{
		CommonName: string(role), Hosts: []string{localHost}, Name: certificate.Name{Cluster: lonelyName, Role: role, ID: id},
	}, localValidity, c.now)
}

// process returns the credentials of a node or the router.
func (c *closedDoors) process(role certificate.Role, id string) (p settings.PeerCredentials, err error) {
	pair, err := c.issue(role, id)
	if err != nil {
		return p, err
	}
	p.Names = handshake.Names{Cluster: lonelyName}
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

// The modes of keys and of folders that hold some, whatever the umask.
const (
	privateFileMode fs.FileMode = 0o600
	privateDirMode  fs.FileMode = 0o700
)

// makePrivateDir makes a folder that only this user can look into, and those above it.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, privateDirMode); err != nil {
		return err
	}
	return os.Chmod(dir, privateDirMode)
}

// writePrivate writes a file that only this user can read, in one step: whoever reads it
// finds all of it, or what was there before.
func writePrivate(name string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(privateFileMode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
