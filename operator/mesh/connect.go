package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
)

const (
	statusTimeout = 10 * time.Second // a router asks all nodes, and gives up on them earlier
	clientName    = "tickmesh-operator"
)

// ErrTLS marks certificates with which no connection can be made.
var ErrTLS = errors.New("TLS of the operator")

// connected is a Mesh over the network.
type connected struct {
	store  *etcdstore.Store
	router *client.Client
}

var _ Mesh = (*connected)(nil)

// Connect is the Opener of real clusters. Errors: ErrTLS, etcdstore.ErrOptions,
// client.ErrOptions.
func Connect(t Target) (Mesh, error) {
	etcdCredentials, err := t.EtcdTLS.Credentials()
	if err != nil {
		return nil, err
	}
	routerCredentials, err := t.RouterTLS.Credentials()
	if err != nil {
		return nil, err
	}
	store, err := etcdstore.Open(etcdstore.Options{
		Endpoints: strings.Split(t.Etcd, ","), Cluster: t.Cluster, Credentials: etcdCredentials,
	})
	if err != nil {
		return nil, err
	}
	router, err := client.New(client.Options{
		// A resource without TLS has said that everybody in the cluster's network may know it.
		InsecureCredentials: true,
		Endpoints:           []string{t.Router}, Credentials: routerCredentials, Name: clientName, Token: t.Token,
		AttemptTimeout: statusTimeout, CallTimeout: statusTimeout,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &connected{store: store, router: router}, nil
}

// Config returns the TLS configuration of a client; nil: no encryption. Errors: ErrTLS.
func (t TLS) Config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM([]byte(t.CABundle)) {
		return nil, fmt.Errorf("%w: the CAs have no certificate", ErrTLS)
	}
	if t.Cert != "" || t.Key != "" {
		certificate, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTLS, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// Credentials returns what a gRPC client dials with; nil: no encryption. Errors: ErrTLS.
func (t TLS) Credentials() (credentials.TransportCredentials, error) {
	config, err := t.Config()
	if config == nil || err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// View implements Mesh.
func (c *connected) View(ctx context.Context) (shardmap.View, error) {
	view, err := c.store.Load(ctx)
	if err == nil {
		err = view.Overtaken()
		view.Err = err
	}
	return view, err
}

// SetDesired implements Mesh.
func (c *connected) SetDesired(ctx context.Context, node string, desired shardmap.Desired) error {
	return c.store.SetDesired(ctx, node, desired)
}

// SetManager implements Mesh.
func (c *connected) SetManager(ctx context.Context, manager string) error {
	return c.store.SetManager(ctx, manager)
}

// Retire implements Mesh.
func (c *connected) Retire(ctx context.Context, node, incarnation string) error {
	return c.store.Retire(ctx, node, incarnation)
}

// Status implements Mesh.
func (c *connected) Status(ctx context.Context) (*client.Status, error) {
	bounded, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	return c.router.Status(bounded, false)
}

// Close implements Mesh.
func (c *connected) Close() error { return errors.Join(c.router.Close(), c.store.Close()) }
