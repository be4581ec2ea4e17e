package transport

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{key: newKey(t)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate for 127.0.0.1 and for the name.
func (a *authority) sign(t testing.TB, name string, serial int64) (certificate, key []byte) {
	t.Helper()
	k := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func write(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// side is one side's files.
type side struct{ Files }

func newSide(t testing.TB) *side {
	t.Helper()
	dir := t.TempDir()
	return &side{Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}}
}

func (s *side) set(t testing.TB, a *authority, serial int64, trusted ...*authority) {
	t.Helper()
	certificate, key := a.sign(t, "localhost", serial)
	write(t, s.Cert, certificate)
	write(t, s.Key, key)
	var ca []byte
	for _, a := range trusted {
		ca = append(ca, a.pem...)
	}
	write(t, s.CA, ca)
}

// clock is a clock that a test turns.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.ns.Load()) }
func (c *clock) turn()          { c.ns.Add(int64(ReadInterval)) }

func open(t testing.TB, files Files, c *clock, log io.Writer) *TLS {
	t.Helper()
	x, err := NewTLS(files, slog.New(slog.NewTextHandler(log, nil)), c.now)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// handshake connects the two configurations and returns what the client has seen.
func handshake(t testing.TB, server, client *tls.Config) (serial int64, err error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.Write([]byte("x")) // a client learns of its refusal when it reads
			_ = conn.Close()
		}
		failed <- err
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, client)
	if err = c.Handshake(); err == nil {
		serial = c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
		_, err = c.Read(make([]byte, 1))
	}
	_ = raw.Close()
	if serverErr := <-failed; err == nil {
		err = serverErr
	}
	_ = listener.Close()
	return serial, err
}

func TestMutualTLSFollowsItsFiles(t *testing.T) {
	old, young := newAuthority(t, "old"), newAuthority(t, "young")
	serverSide, clientSide := newSide(t), newSide(t)
	serverSide.set(t, old, 10, old)
	clientSide.set(t, old, 20, old)
	var c clock
	var log bytes.Buffer
	server, client := open(t, serverSide.Files, &c, &log), open(t, clientSide.Files, &c, &log)
	config, err := server.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, wantSerial int64, works bool) {
		t.Helper()
		serial, err := handshake(t, config, client.ClientConfig("localhost"))
		if (err == nil) != works || works && serial != wantSerial {
			t.Fatalf("%s: certificate %d, %v", what, serial, err)
		}
	}
	expect("at the start", 10, true)
	serverSide.set(t, old, 11, old)
	expect("within the interval", 10, true)
	c.turn()
	expect("new certificate", 11, true)

	// To a new authority, as one does it: trust both, change certificates, drop the old.
	serverSide.set(t, old, 12, old, young)
	clientSide.set(t, old, 21, old, young)
	c.turn()
	expect("both trusted", 12, true)
	clientSide.set(t, young, 22, old, young)
	c.turn()
	expect("client has changed", 12, true)
	serverSide.set(t, young, 13, young)
	c.turn()
	expect("server has changed", 13, true)
	clientSide.set(t, old, 23, young)
	c.turn()
	expect("client of a dropped authority", 0, false)
	clientSide.set(t, young, 24, old)
	c.turn()
	expect("server of an authority that the client has dropped", 0, false)
}

// TestBadFilesKeepTheOld: what does not fit together is reported once, and the files
// before stay in use.
func TestBadFilesKeepTheOld(t *testing.T) {
	a := newAuthority(t, "a")
	s := newSide(t)
	s.set(t, a, 10, a)
	var c clock
	var log bytes.Buffer
	x := open(t, s.Files, &c, &log)
	config, err := x.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	other, otherKey := a.sign(t, "localhost", 11)
	reports := 0
	for name, spoil := range map[string]func(){
		"key of another": func() { write(t, s.Key, otherKey) },
		"no PEM":         func() { write(t, s.Cert, []byte("nothing")) },
		"gone":           func() { _ = os.Remove(s.CA) },
		"empty CA":       func() { write(t, s.CA, nil) },
		"too large":      func() { write(t, s.Cert, make([]byte, fileBytesMax+1)) },
	} {
		spoil()
		for range 3 {
			c.turn()
			if serial, err := handshake(t, config, x.ClientConfig("localhost")); err != nil || serial != 10 {
				t.Fatalf("%s: certificate %d, %v", name, serial, err)
			}
		}
		reports++
		if got := strings.Count(log.String(), "level=WARN"); got != reports {
			t.Fatalf("%s: %d reports instead of %d:\n%s", name, got, reports, log.String())
		}
		s.set(t, a, 10, a)
		c.turn()
		if serial, err := handshake(t, config, x.ClientConfig("localhost")); err != nil || serial != 10 {
			t.Fatalf("after %s: certificate %d, %v", name, serial, err)
		}
	}
	write(t, s.Cert, other)
	write(t, s.Key, otherKey)
	c.turn()
	if serial, err := handshake(t, config, x.ClientConfig("localhost")); err != nil || serial != 11 {
		t.Fatalf("healed: certificate %d, %v", serial, err)
	}
}

func TestNewTLSErrors(t *testing.T) {
	a := newAuthority(t, "a")
	s := newSide(t)
	s.set(t, a, 10, a)
	for name, files := range map[string]Files{
		"certificate without key": {Cert: s.Cert},
		"key without certificate": {Key: s.Key},
		"no such file":            {CA: s.CA + "x"},
		"folder":                  {CA: filepath.Dir(s.CA)},
		"key as certificate":      {Cert: s.Key, Key: s.Cert},
		"key as authority":        {CA: s.Key},
	} {
		if _, err := NewTLS(files, slog.New(slog.DiscardHandler), time.Now); !errors.Is(err, ErrTLS) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	x := open(t, Files{CA: s.CA}, &clock{}, io.Discard)
	if _, err := x.ServerConfig(); !errors.Is(err, ErrTLS) {
		t.Errorf("a server without a certificate: %v", err)
	}
	if (Files{}).Set() || !(Files{CA: "x"}).Set() {
		t.Error("Set")
	}
}

// TestServerNames: a certificate for another name, or of a foreign authority, is
// refused, and a client without a certificate where one is asked for.
func TestServerNames(t *testing.T) {
	a, foreign := newAuthority(t, "a"), newAuthority(t, "foreign")
	s, stranger := newSide(t), newSide(t)
	s.set(t, a, 10, a)
	stranger.set(t, foreign, 20, a)
	x := open(t, s.Files, &clock{}, io.Discard)
	mutual, err := x.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	public, err := open(t, Files{Cert: s.Cert, Key: s.Key}, &clock{}, io.Discard).ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	noCertificate := open(t, Files{CA: s.CA}, &clock{}, io.Discard)
	noAuthority := open(t, Files{Cert: s.Cert, Key: s.Key}, &clock{}, io.Discard)
	for _, test := range []struct {
		name           string
		server, client *tls.Config
		works          bool
	}{
		{"mutual", mutual, x.ClientConfig("localhost"), true},
		{"address", mutual, x.ClientConfig("127.0.0.1"), true},
		{"another name", mutual, x.ClientConfig("example"), false},
		{"another address", mutual, x.ClientConfig("127.0.0.2"), false},
		{"no name", mutual, x.ClientConfig(""), false},
		{"no certificate", mutual, noCertificate.ClientConfig("localhost"), false},
		{"no certificate needed", public, noCertificate.ClientConfig("localhost"), true},
		{"system's authorities", public, noAuthority.ClientConfig("localhost"), false},
		{"a stranger", mutual, open(t, stranger.Files, &clock{}, io.Discard).ClientConfig("localhost"), false},
	} {
		if _, err := handshake(t, test.server, test.client); (err == nil) != test.works {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

// TestGRPCOverTLS rotates everything under a gRPC server and client; new connections
// of the same client work.
func TestGRPCOverTLS(t *testing.T) {
	old, young := newAuthority(t, "old"), newAuthority(t, "young")
	serverSide, clientSide := newSide(t), newSide(t)
	serverSide.set(t, old, 10, old)
	clientSide.set(t, old, 20, old)
	var c clock
	var log bytes.Buffer
	server, client := open(t, serverSide.Files, &c, &log), open(t, clientSide.Files, &c, io.Discard)
	listening, err := server.ServerCredentials()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		address, stop := serveHealth(t, listening)
		if err := check(t, address, client.Credentials()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := check(t, address, nil); err == nil {
			t.Fatal("a client without TLS was served")
		}
		stop()
		if got := strings.Count(log.String(), "a connection is refused: TLS"); got != 1 { // of many, all within limitedlog.Interval
			t.Fatalf("%d lines about the refusal:\n%s", got, log.String())
		}
		serverSide.set(t, young, 11, young)
		clientSide.set(t, young, 21, young)
		c.turn()
	}
}

func serveHealth(t *testing.T, c credentials.TransportCredentials) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(ServerOptions(c)...)
	healthv1.RegisterHealthServer(g, health.NewServer())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(listener)
	}()
	return listener.Addr().String(), func() {
		g.Stop()
		<-served
	}
}

func check(t *testing.T, address string, c credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, DialOptions(c)...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	response, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if err == nil && response.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("status %v", response.GetStatus())
	}
	return err
}
