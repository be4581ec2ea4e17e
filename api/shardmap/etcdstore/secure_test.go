package etcdstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// certificate makes a certificate that signs itself, for both sides.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLS speaks TLS with certificates on both sides, to a front of the server.
func TestTLS(t *testing.T) {
	server := startServer(t, t.TempDir())
	t.Cleanup(func() { server.Close() })
	own, pool := certificate(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", server.Endpoint())
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					defer out.Close()
					io.Copy(out, in)
				}()
				io.Copy(in, out)
			}()
		}
	}()
	address := listener.Addr().String()
	store := openAt(t, Options{Endpoints: []string{address}, Cluster: "tls", RequestTimeout: time.Minute, Credentials: credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}})})
	if err := store.SetDesired(context.Background(), "a", shardmap.Draining); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"without TLS": nil, "without a certificate": {RootCAs: pool}, "with another authority": {Certificates: []tls.Certificate{own}},
	} {
		o := Options{Endpoints: []string{address}, Cluster: "tls", RequestTimeout: time.Second}
		if config != nil {
			o.Credentials = credentials.NewTLS(config)
		}
		store := openAt(t, o)
		if _, err := store.Load(context.Background()); !errors.Is(err, shardmap.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func openAt(t *testing.T, o Options) *Store {
	store, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestPassword uses an etcd that asks for users.
func TestPassword(t *testing.T) {
	server := startServer(t, t.TempDir())
	t.Cleanup(func() { server.Close() })
	ctx := context.Background()
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	steps := []func() error{
		func() error { _, err := root.UserAdd(ctx, "root", "a password"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := root.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatal(i, err)
		}
	}
	endpoints := []string{server.Endpoint()}
	// To look at a password takes a busy machine seconds.
	store := openAt(t, Options{Endpoints: endpoints, Cluster: "auth", User: "root", Password: "a password", RequestTimeout: time.Minute})
	if err := store.SetDesired(ctx, "a", shardmap.Draining); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"without a user":   {Endpoints: endpoints, Cluster: "auth"},
		"a wrong password": {Endpoints: endpoints, Cluster: "auth", User: "root", Password: "guessed"},
	} {
		if _, err := openAt(t, o).Load(ctx); !errors.Is(err, shardmap.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	secure := credentials.NewTLS(&tls.Config{})
	for _, o := range []Options{
		{}, {Endpoints: []string{"127.0.0.1:1"}}, {Endpoints: []string{"127.0.0.1:1"}, Cluster: "a/b"},
		{Endpoints: []string{"http://127.0.0.1:1"}, Cluster: "a", Credentials: secure},
		{Endpoints: []string{"https://127.0.0.1:1"}, Cluster: "a"},
	} {
		if _, err := Open(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
