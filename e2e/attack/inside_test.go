package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// TestCluster attacks a cluster in one process, and its ports on the inside, which are found
// by what the process listens on, so that none is forgotten.
func TestCluster(t *testing.T) {
	t.Logf("seed %d", *seed)
	g := newGround(t, *seed, true, "--nodes", "3", "--replication", "2")
	p := startPhases(t, g)
	inside := g.insidePorts(t)
	if len(inside) < 4 {
		t.Fatalf("three nodes and an etcd listen at %v only", inside)
	}
	var storms []storm
	for _, address := range inside {
		samples := append(grpcSamples("/tickmesh.node.v1.NodeService/Write"), grpcSamples("/etcdserverpb.KV/Range")...)
		storms = append(storms, storm{"inside " + address, "tcp", address, append(samples, httpSamples()...)})
	}
	p.storms(t, storms, time.Second)
	p.step(t, "streams of nobody", phaseLong, once(func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), scaled(2*time.Second))
		defer cancel()
		sent := floodStreamsOf(ctx, t, inside[0], "/tickmesh.node.v1.NodeService/Write")
		t.Logf("%d MiB were taken of the messages of one connection", sent>>20)
	}))
	for name, c := range inOrder(g.strangers(t)) {
		p.step(t, "calls by "+name, phaseLong, once(func(t *testing.T) {
			for _, address := range inside {
				g.tryInside(t, address, name, c)
			}
		}))
	}
	for _, b := range wideBombs() {
		p.step(t, "bomb "+b.name, bombLong, func(t *testing.T) func(*testing.T) { return g.throw(t, b) })
	}
	p.clients.stop()
	g.checkVault(t)
	g.checkEnd(t)
}

// insidePorts are all TCP ports of the server that are not for clients.
func (g *ground) insidePorts(t *testing.T) (inside []string) {
	t.Helper()
	ports, err := harness.ListeningPorts(g.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	public := map[string]bool{g.at.HTTP: true, g.at.Put: true, g.at.Line: true, g.at.Graphite: true, g.at.OTLP: true, g.grpc: true, g.metrics: true}
	for _, port := range ports {
		if !port.Addr().IsLoopback() {
			t.Errorf("the server listens at %v, beyond the loopback", port)
		}
		if !public[port.String()] {
			inside = append(inside, port.String())
		}
	}
	return inside
}

// strangers are ways to come to an inside port without being a member.
func (g *ground) strangers(t *testing.T) map[string]credentials.TransportCredentials {
	t.Helper()
	forged := forgedCertificate(t)
	return map[string]credentials.TransportCredentials{
		"a stranger without TLS":              nil,
		"a stranger without a certificate":    credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"a stranger with its own authority":   credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{forged}}),
		"a stranger with the oldest protocol": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}),
	}
}

// forgedCertificate has the names that a node of the cluster has, of an authority of its own.
func forgedCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node/n1", Organization: []string{"tickmesh"}}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost", "n1", "n1.tickmesh"},
		URIs: []*url.URL{{Scheme: "tickmesh", Host: "tickmesh", Path: "/node/n1"}}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// tryInside calls all that a node offers, and etcd's store, as somebody who says to be a router.
func (g *ground) tryInside(t *testing.T, address, name string, c credentials.TransportCredentials) {
	t.Helper()
	conn := dial(t, address, c)
	hello, err := handshake.New("standalone", "", "", "", 1).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range expectations(t) {
		if e.port != "rpc" {
			continue
		}
		method := methodOf(t, e.path)
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), handshake.Header, hello), waitMax)
		received, err := invoke(ctx, conn, e.path, method, requestOf(method.Input(), g.vault(), 2))
		cancel()
		g.spy.see("inside call of "+e.path+" by "+name, "", received)
		switch status.Code(err) {
		case codes.Unauthenticated, codes.PermissionDenied, codes.Unavailable, codes.Unimplemented: // refused, or another service
		default:
			t.Errorf("%s at %s by %s: %v", e.path, address, name, err)
			return // one is enough to tell
		}
	}
}
