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
	"strings"
	"testing"
	"time"

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
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	stranger, _ := certificate(t)
	for _, c := range []struct {
		name, address, says string
		config              *tls.Config
	}{
		{"without TLS", address, "", nil},
		{"without a certificate", address, "certificate required", &tls.Config{RootCAs: pool}},
		{"with a stranger's certificate", address, "remote error: tls", &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{stranger}}},
		{"with another authority", address, "certificate signed by unknown authority", &tls.Config{Certificates: []tls.Certificate{own}}},
		{"where nothing listens", closed.Addr().String(), "connection refused", nil},
	} {
		o := Options{Endpoints: []string{c.address}, Cluster: "tls", RequestTimeout: 5 * time.Second}
		if c.config != nil {
			o.Credentials = credentials.NewTLS(c.config)
		}
		store := openAt(t, o)
		if _, err := store.Load(context.Background()); !errors.Is(err, shardmap.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
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
