package ingest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crypto "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// identity makes a certificate for both sides that signs itself.
func identity(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crypto.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: "agent"},
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(crypto.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(certificate)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secured is a server whose clients need a certificate.
type secured struct {
	*running
	client *tls.Config
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func startSecured(t *testing.T, change func(*Options)) *secured {
	t.Helper()
	own, pool := identity(t)
	s := &secured{client: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}, log: &lockedBuffer{}}
	s.running = start(t, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		o.Logger = slog.New(slog.NewTextHandler(s.log, nil))
		if change != nil {
			change(o)
		}
	})
	return s
}

func (s *secured) dial(t *testing.T, to net.Addr) *tls.Conn {
	t.Helper()
	config := s.client.Clone()
	config.ServerName = "127.0.0.1"
	c := tls.Client(dial(t, to), config)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Text in records of any length is read as a plain stream is.
func TestSecureStreams(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var text strings.Builder
	var want []string
	for i := range 4000 {
		fmt.Fprintf(&text, "put m%d %d %d.5 host=h%d\n", i%7, 1_700_000_000+i, i, i%3)
		want = append(want, fmt.Sprintf("m%d{host=h%d} %d %d.5", i%7, i%3, (1_700_000_000+int64(i))*1000, i))
	}
	for _, chunkBytes := range []int{100, 3000, 64 << 10} {
		s := startSecured(t, func(o *Options) { o.TCP.ChunkBytes = chunkBytes })
		c := s.dial(t, s.Addresses().Put)
		for rest := text.String(); rest != ""; {
			n := min(len(rest), 1+random.IntN(40_000))
			send(t, c, rest[:n])
			rest = rest[n:]
		}
		send(t, c, "no command\nversion\nexit\n")
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasSuffix(string(answer), versionAnswer) || !strings.HasPrefix(string(answer), "unknown command: no") {
			t.Fatalf("%q, %v", answer, err)
		}
		equalLines(t, "stored at the answer to version", s.stored(), want)
		line := s.dial(t, s.Addresses().Line)
		send(t, line, "bad\nm,a=b x=1 1700000000\nm,a=b x=2 17000000")
		_ = line.CloseWrite()
		if answer, err := io.ReadAll(line); err != nil || string(answer) != "unable to parse 'bad': missing fields\n"+unendedAnswer {
			t.Fatalf("line: %q, %v", answer, err)
		}
		if got := s.value("m{_field=x,a=b}", 1_700_000_000_000); got != 1 {
			t.Errorf("the line is not stored: %v", got)
		}
	}
}

// Requests of one connection are answered one after the other, pipelined ones, large
// ones, and those on the put port, too.
func TestSecureHTTP(t *testing.T) {
	s := startSecured(t, nil)
	for _, port := range []net.Addr{s.Addresses().HTTP, s.Addresses().Put} {
		c := s.dial(t, port)
		from := bufio.NewReader(c)
		large := "m value=1 1700000000\n" + strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 1000)
		go func() {
			for i := range 5 {
				_, _ = io.WriteString(c, request("/write?db=d&precision=s", large)+request("/write?db=d&precision=s", fmt.Sprintf("m value=1 %d", 1_700_000_000+i)))
			}
		}()
		for range 10 {
			if response, body := readAnswer(t, from); response.StatusCode != 204 {
				t.Fatalf("%d %s", response.StatusCode, body)
			}
		}
	}
	if got := s.metric(t, "tickmesh_ingest_connections_total", "outcome=accepted"); got != 2 {
		t.Errorf("%v connections accepted", got)
	}
}

// Who has no certificate, or a foreign one, or no TLS at all, is refused, and the log
// says so.
func TestSecureRefusals(t *testing.T) {
	s := startSecured(t, func(o *Options) { o.Clock = time.Now })
	foreign, _ := identity(t)
	for i, test := range []struct {
		port   net.Addr
		config *tls.Config
		reason string
	}{
		{s.Addresses().HTTP, &tls.Config{RootCAs: s.client.RootCAs, ServerName: "127.0.0.1"}, "client didn't provide a certificate"},
		{s.Addresses().Put, &tls.Config{RootCAs: s.client.RootCAs, ServerName: "127.0.0.1", Certificates: []tls.Certificate{foreign}}, "certificate"},
		{s.Addresses().Line, nil, "first record does not look like a TLS handshake"},
	} {
		c := net.Conn(dial(t, test.port))
		if test.config != nil {
			c = tls.Client(c, test.config)
		}
		_, _ = io.WriteString(c, "put m 1700000000 1 a=b\n") // TLS 1.3 tells a client of its refusal when it reads
		if answer, err := io.ReadAll(c); test.config != nil && err == nil {
			t.Errorf("%d: served: %q", i, answer)
		}
		eventually(t, "a log line", func() bool {
			return strings.Count(s.log.String(), "a connection is refused: TLS") == i+1 && strings.Contains(s.log.String(), test.reason)
		})
	}
	looked := dial(t, s.Addresses().HTTP) // as a load balancer does
	_ = looked.Close()
	eventually(t, "four failures", func() bool {
		return s.metric(t, "tickmesh_ingest_connections_total", "outcome=tls_failed") == 4
	})
	if got := strings.Count(s.log.String(), "a connection is refused"); got != 3 || s.total() != 0 {
		t.Errorf("%d refusals, %d points:\n%s", got, s.total(), s.log.String())
	}
}

// A drain closes what is idle, handshakes under way too, and reads what has arrived.
func TestSecureDrain(t *testing.T) {
	gate := make(chan struct{})
	s := startSecured(t, func(o *Options) { o.TCP.ChunkBytes = 100 })
	s.beforeWrites(gated(gate))
	line := s.dial(t, s.Addresses().Line)
	var text strings.Builder
	const n = 500
	for i := range n {
		fmt.Fprintf(&text, "m,a=b value=%d %d\n", i, 1_700_000_000_000+i)
	}
	send(t, line, text.String())
	eventually(t, "the first chunk being written", func() bool { return len(s.workers.slots) == 1 })
	idle := []net.Conn{dial(t, s.Addresses().HTTP), s.dial(t, s.Addresses().HTTP), s.dial(t, s.Addresses().Put)}
	eventually(t, "all connections open", func() bool { return s.metric(t, "tickmesh_ingest_connections") == 4 })
	ended := s.shutdown(testTimeout)
	eventually(t, "the drain has begun", func() bool { return s.listeners[portLine].draining.Load() })
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := s.total(); got != n {
		t.Errorf("%d points stored, want %d", got, n)
	}
	for _, c := range idle {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("an idle connection lives on")
		}
	}
}

// The request's context ends when the client says goodbye, or breaks off; a request
// that follows is none of both.
func TestSecureHangUp(t *testing.T) {
	for _, breakOff := range []bool{false, true} {
		began, ended := make(chan struct{}, 1), make(chan error, 1)
		s := startSecured(t, func(o *Options) {
			o.Other = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/quick" {
					_, _ = io.WriteString(w, "quick")
					return
				}
				began <- struct{}{}
				select {
				case <-q.Context().Done():
					ended <- context.Cause(q.Context())
				case <-time.After(testTimeout):
					ended <- nil
				}
			})
		})
		c := s.dial(t, s.Addresses().HTTP)
		from := bufio.NewReader(c)
		for range 3 {
			send(t, c, "GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, body := readAnswer(t, from); body != "quick" {
				t.Fatal(body)
			}
		}
		send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-began
		if breakOff {
			_ = c.NetConn().Close()
		} else {
			_ = c.Close()
		}
		if err := <-ended; err == nil {
			t.Errorf("break off %v: the context did not end", breakOff)
		}
	}
}

// A client that does not read its replies does not hold up the reading of its lines.
func TestSecureSlowReader(t *testing.T) {
	s := startSecured(t, func(o *Options) { o.TCP.ReplyBytesMax = 10_000 })
	c := s.dial(t, s.Addresses().Put)
	go func() {
		for i := range 30_000 { // their replies are more than sockets hold
			if _, err := io.WriteString(c, strings.Repeat("put wrong now 1\n", 20)); err != nil {
				t.Error(i, err)
				return
			}
		}
		_, _ = io.WriteString(c, "put m 1700000000 1 a=b\n")
	}()
	eventually(t, "the last line", func() bool { return s.total() == 1 })
	if s.metric(t, "tickmesh_ingest_dropped_total") == 0 {
		t.Error("replies were held without a bound")
	}
}
