package process

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
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/transport"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
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

// certifiedHost is a name of servers in the certificates of tests, besides 127.0.0.1.
const certifiedHost = "tsdb.example.com"

// sign makes a certificate of 127.0.0.1 for both sides of connections, with the name of a
// process; empty: it names none.
func (a *authority) sign(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "tickmesh"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{certifiedHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if name != "" {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
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

// replaceFile replaces a file in one step, as those do who rotate certificates.
func replaceFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// identityFiles are a certificate, its key and authorities.
type identityFiles struct {
	transport.Files
	name string
}

func newIdentity(t *testing.T, name string, of *authority, trusted ...*authority) identityFiles {
	t.Helper()
	dir := t.TempDir()
	f := identityFiles{transport.Files{Cert: filepath.Join(dir, "crt.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}, name}
	f.certify(t, of)
	f.trust(t, trusted...)
	return f
}

func (f identityFiles) certify(t *testing.T, by *authority) {
	t.Helper()
	certificate, key := by.sign(t, f.name)
	replaceFile(t, f.Cert, certificate)
	replaceFile(t, f.Key, key)
}

func (f identityFiles) trust(t *testing.T, authorities ...*authority) {
	t.Helper()
	var all [][]byte
	for _, a := range authorities {
		all = append(all, a.pem)
	}
	replaceFile(t, f.CA, bytes.Join(all, nil))
}

// flags name the files by flags that begin so.
func (f identityFiles) flags(prefix, ca string) []string {
	return []string{"--" + prefix + "-cert", f.Cert, "--" + prefix + "-key", f.Key, "--" + ca, f.CA}
}

func (f identityFiles) open(t *testing.T) *transport.TLS {
	t.Helper()
	files, err := transport.NewTLS(f.Files, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tlsProxy speaks mutual TLS before a server that does not.
type tlsProxy struct {
	listener net.Listener
	mu       sync.Mutex
	open     map[net.Conn]bool
}

func startTLSProxy(t *testing.T, files identityFiles, target string) *tlsProxy {
	t.Helper()
	config, err := files.open(t).ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"h2"}
	p := &tlsProxy{open: map[net.Conn]bool{}}
	if p.listener, err = tls.Listen("tcp", "127.0.0.1:0", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.listener.Close(); p.cut() })
	go func() {
		for {
			in, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.open[in] = true
			p.mu.Unlock()
			go p.serve(in, target)
		}
	}()
	return p
}

func (p *tlsProxy) serve(in net.Conn, target string) {
	defer func() {
		_ = in.Close()
		p.mu.Lock()
		delete(p.open, in)
		p.mu.Unlock()
	}()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// cut ends all connections.
func (p *tlsProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// secureCluster is a cluster all of whose connections are mutual TLS.
type secureCluster struct {
	*testCluster
	files  identityFiles            // of all other connections
	peers  map[string]identityFiles // of nodes and "router", for those between them
	proxy  *tlsProxy                // before etcd
	router *testServer
}

// trust and certify change the files of all.
func (c *secureCluster) trust(authorities ...*authority) {
	c.t.Helper()
	c.files.trust(c.t, authorities...)
	for _, f := range c.peers {
		f.trust(c.t, authorities...)
	}
}

func (c *secureCluster) certify(by *authority) {
	c.t.Helper()
	c.files.certify(c.t, by)
	for _, f := range c.peers {
		f.certify(c.t, by)
	}
}

// peerFlags name the files that a process shows nodes and routers.
func (c *secureCluster) peerFlags(process string) []string {
	return c.peers[process].flags("rpc-tls", "rpc-tls-ca")
}

func startSecureCluster(t *testing.T, a *authority) *secureCluster {
	t.Helper()
	c := &secureCluster{testCluster: newTestCluster(t), files: newIdentity(t, "", a, a), peers: map[string]identityFiles{}}
	for _, node := range []string{"n1", "n2", "n3"} {
		c.peers[node] = newIdentity(t, "tickmesh://tickmesh/node/"+node, a, a)
	}
	c.peers["router"] = newIdentity(t, "tickmesh://tickmesh/router", a, a)
	c.proxy = startTLSProxy(t, c.files, c.address)
	c.flags[1] = c.proxy.listener.Addr().String()
	c.flags = append(c.flags, c.files.flags("etcd-tls", "etcd-tls-ca")...)
	c.flags = append(c.flags, c.files.flags("tls", "tls-client-ca")...)
	for i := range 3 {
		id := fmt.Sprintf("n%d", i+1)
		c.startNode(id, c.peerFlags(id)...)
	}
	c.router = c.startRouter(append(c.peerFlags("router"), "--initial-nodes", "3")...)
	waitFor(t, "two copies of each shard", func() bool {
		status, err := c.connect().Status(t.Context(), false)
		return err == nil && len(status.Problems) == 0
	})
	return c
}

// connect returns a client that has read the files now.
func (c *secureCluster) connect() *client.Client {
	c.t.Helper()
	cl, err := client.New(client.Options{Endpoints: []string{c.router.addr["grpc"]}, Credentials: c.files.open(c.t).Credentials()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// do sends a request on a connection of its own; a nil configuration means one that the
// files give now.
func (c *secureCluster) do(config *tls.Config, address, method, path, body string) (int, string, error) {
	if config == nil {
		config = c.files.open(c.t).ClientConfig("")
	}
	h := &http.Client{Timeout: waitMax, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(c.t.Context(), method, "https://"+address+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := h.Do(request)
	if err != nil {
		return 0, "", err
	}
	status, text := answerOf(c.t, response)
	return status, text, nil
}

// works writes and reads a point by all ways in.
func (c *secureCluster) works(value int) {
	c.t.Helper()
	waitFor(c.t, "a write", func() bool {
		status, _, err := c.do(nil, c.router.addr["http"], http.MethodPost, "/write", fmt.Sprintf("cpu,host=a value=%d %d", value, (1_700_000_000+value)*1_000_000_000))
		return err == nil && status == http.StatusNoContent
	})
	put, err := tls.Dial("tcp", c.router.addr["put"], c.files.open(c.t).ClientConfig("127.0.0.1"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer put.Close()
	_ = put.SetDeadline(time.Now().Add(waitMax))
	fmt.Fprintf(put, "put mem %d %d host=a\nversion\nexit\n", 1_700_000_000+value, value)
	if answer, err := io.ReadAll(put); err != nil || !strings.Contains(string(answer), process.Version) {
		c.t.Errorf("put: %q, %v", answer, err)
	}
	for _, metric := range []string{"cpu", "mem"} {
		q := fmt.Sprintf("/api/query?start=%d&end=%d&m=none:%s", 1_700_000_000+value-1, 1_700_000_000+value, metric)
		status, body, err := c.do(nil, c.router.addr["http"], http.MethodGet, q, "")
		if want := fmt.Sprintf(`"%d":%d}`, 1_700_000_000+value, value); err != nil || status != http.StatusOK || !strings.Contains(body, want) {
			c.t.Errorf("%s: %d %s %v, want %s", metric, status, body, err, want)
		}
	}
}

// refusal tries until there is a log line about a client that was refused; gRPC's has no
// port. There is one for each port and while, not one for each client.
func refusal(s *testServer, port, reason string, try func()) {
	s.t.Helper()
	waitFor(s.t, "a refusal: "+reason, func() bool {
		try()
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.log, func(l map[string]any) bool {
			return l["msg"] == "a connection is refused: TLS" && strings.Contains(fmt.Sprint(l["error"]), reason) && (l["port"] == port || port == "" && l["port"] == nil)
		})
	})
}

// TestSecureCluster runs a cluster in which all connections are mutual TLS, refuses
// strangers, and changes the authority while everything runs.
func TestSecureCluster(t *testing.T) {
	t.Parallel()
	old, young, foreign := newAuthority(t, "old"), newAuthority(t, "young"), newAuthority(t, "foreign")
	c := startSecureCluster(t, old)
	c.works(1)
	c.refusesStrangers(newIdentity(t, "tickmesh://tickmesh/router", foreign, old))

	// To another authority, as one does it: trust both, change certificates, drop the old.
	reread := func() { time.Sleep(transport.ReadInterval) } // from then on each handshake reads them
	c.trust(old, young)
	reread()
	c.works(2)
	c.certify(young)
	reread()
	c.works(3)
	c.trust(young)
	reread()
	c.works(4)
	// Each node in turn: those that run since the start make new connections to it, and
	// it to them. So does etcd.
	c.proxy.cut()
	for i, n := range c.nodes {
		n.signal(os.Interrupt)
		n.wait()
		id := fmt.Sprintf("n%d", i+1)
		c.nodes[i] = startProcess(t, 2, c.nodeArguments(id, c.peerFlags(id)...)...)
		cl := c.connect()
		waitFor(t, "a cluster without problems", func() bool {
			status, err := cl.Status(t.Context(), false)
			return err == nil && len(status.Problems) == 0 && status.Nodes[i].Alive
		})
		c.works(5 + i)
	}
	arguments := append([]string{"drain", "--dry-run", "--addr", c.router.addr["grpc"], "n1"}, c.files.flags("tls", "tls-ca")...)
	if code, _, stderr := run(t, nil, arguments...); code != 1 || !strings.Contains(stderr, "copies") {
		t.Errorf("a drain, which asks etcd: %d %s", code, stderr)
	}
	// Who has the certificate of the old authority is a stranger now.
	c.refusesStrangers(newIdentity(t, "tickmesh://tickmesh/router", old, young))
}

// refusesStrangers shows a certificate that nobody knows, and none, to all ports.
func (c *secureCluster) refusesStrangers(stranger identityFiles) {
	c.t.Helper()
	for _, s := range append([]*testServer{c.router}, c.nodes...) {
		s.forgetLog()
	}
	strange := stranger.open(c.t).ClientConfig("")
	none := strange.Clone()
	none.GetClientCertificate = nil
	refusal(c.router, "http", "client didn't provide a certificate", func() {
		if _, _, err := c.do(none, c.router.addr["http"], http.MethodGet, "/readyz", ""); err == nil {
			c.t.Error("a client without a certificate is served")
		}
	})
	put := strange.Clone()
	put.ServerName = "127.0.0.1"
	const unknown = "certificate signed by unknown authority"
	refusal(c.router, "put", unknown, func() {
		if conn, err := tls.Dial("tcp", c.router.addr["put"], put); err == nil {
			_, _ = io.WriteString(conn, "version\n")
			if answer, err := io.ReadAll(conn); err == nil {
				c.t.Errorf("a stranger is told %q", answer)
			}
			_ = conn.Close()
		}
	})
	cl, err := client.New(client.Options{Endpoints: []string{c.router.addr["grpc"]}, Credentials: stranger.open(c.t).Credentials()})
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	refusal(c.router, "", unknown, func() {
		bounded, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		if _, err := cl.Status(bounded, true); err == nil {
			c.t.Error("gRPC serves a stranger")
		}
	})
	if _, _, err := c.do(none, c.nodes[0].addr["http"], http.MethodGet, "/metrics", ""); err == nil {
		c.t.Error("a node's metrics are for strangers")
	}
	refusal(c.nodes[0], "", unknown, func() {
		for _, arguments := range [][]string{stranger.flags("rpc-tls", "rpc-tls-ca"), nil} {
			code, stdout, _ := run(c.t, nil, append([]string{"rescue-map", "--timeout", "1s", "--nodes", c.nodes[0].addr["rpc"]}, arguments...)...)
			if code != 1 || strings.Contains(stdout, "reported") {
				c.t.Errorf("a node reports to a stranger: %s", stdout)
			}
		}
	})
}
