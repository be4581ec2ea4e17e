package envoy

import (
	"bufio"
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
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// program returns the real Envoy, which a script of the project installs.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test installs and runs Envoy")
	}
	out, err := exec.Command("../../hack/scripts/envoy.sh").Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			t.Logf("%s", ended.Stderr)
		}
		if os.Getenv("CI") != "" {
			t.Fatal("Envoy cannot be installed: ", err)
		}
		t.Skip("Envoy cannot be installed: ", err)
	}
	return strings.TrimSpace(string(out))
}

// place writes the configuration for folders of this test, and gives Envoy's arguments.
func place(t *testing.T, o *Options) string {
	t.Helper()
	dir := t.TempDir()
	if o.Edge != nil {
		o.Edge.Folder, o.Edge.Secrets = filepath.Join(dir, "edge"), dir
		writePair(t, o.Edge.Folder, "edge", 1)
	}
	if o.Upstream != nil {
		o.Upstream.Folder, o.Upstream.Secrets = filepath.Join(dir, "ca"), dir
		writePair(t, o.Upstream.Folder, o.Upstream.ServerName, 2)
	}
	texts, err := Secrets(*o)
	if err != nil {
		t.Fatal(err)
	}
	if texts["bootstrap.yaml"], err = Bootstrap(*o); err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "bootstrap.yaml")
}

// writePair writes a certificate that signs itself, as a mounted Secret has it: the
// files are replaced together, by the rename of a link.
func writePair(t *testing.T, dir, name string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	data := fmt.Sprintf("..%d", serial)
	if err := os.MkdirAll(filepath.Join(dir, data), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{
		"tls.crt": certificate, "ca.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, data, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "..link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestRealEnvoyAccepts has Envoy read each kind of configuration.
func TestRealEnvoyAccepts(t *testing.T) {
	envoy := program(t)
	withoutClients := secure()
	withoutClients.Edge.ClientCA = false
	withoutClients.Upstream = nil
	for name, o := range map[string]Options{"plain": plain(), "secure": secure(), "without client certificates": withoutClients} {
		out, err := exec.Command(envoy, "--mode", "validate", "--config-path", place(t, &o)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// freePorts returns ports that nothing listens on at the two addresses of the loopback that
// these tests use. They are below those that the kernel gives to whoever asks for any, of
// which one may be taken before it is used.
func freePorts(t *testing.T, ports ...*int) {
	t.Helper()
	for _, port := range ports {
		for *port = 0; *port == 0; {
			drawn := 10_000 + mathrand.IntN(20_000)
			free := true
			for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
				l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, drawn))
				if free = free && err == nil; err == nil {
					defer l.Close() // once all are found, so that none is given twice
				}
			}
			if free {
				*port = drawn
			}
		}
	}
}

// output is what a process writes, while it does.
type output struct {
	sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.text.String()
}

// start runs Envoy on the loopback until the test ends. It listens on another address of
// the loopback than the router, because both have the same ports. Edits change the text of
// its configuration: what the loopback cannot give, such as a name with two addresses.
func start(t *testing.T, o *Options, edits ...func(string) string) *output {
	t.Helper()
	envoy := program(t)
	freePorts(t, &o.AdminPort, &o.StatusPort)
	path := place(t, o)
	for _, edit := range edits {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(edit(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(envoy, "--config-path", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning", "--file-flush-interval-msec", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output := &output{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})
	eventually(t, "Envoy to be ready", func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.2:%d/ready", o.StatusPort))
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return output
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// router is a fake one: HTTP with a readiness, and an echo of TCP.
type router struct {
	ready    atomic.Bool
	requests atomic.Int32
	slow     chan struct{} // a slow request tells that it has come, and waits for leave to end
	silent   atomic.Int32  // so many of the checks that follow, for HTTP, are not answered
	lapsed   atomic.Int32  // checks that were not, and were given up
}

func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch request.URL.Path {
	case "/readyz":
		if request.Host == "router_http" && r.silent.Add(-1) >= 0 {
			<-request.Context().Done()
			r.lapsed.Add(1)
			return
		}
		if !r.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/full":
		r.requests.Add(1)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "full", http.StatusServiceUnavailable)
	case "/slow":
		_, _ = io.Copy(io.Discard, request.Body) // only then it is noticed that the client goes
		r.slow <- struct{}{}
		select {
		case <-r.slow:
			fmt.Fprintln(w, "slow")
		case <-request.Context().Done():
		}
	default:
		r.requests.Add(1)
		_, _ = io.Copy(w, request.Body)
	}
}

func (r *router) start(t *testing.T, o *Options) {
	t.Helper()
	freePorts(t, &o.HTTPPort, &o.GRPCPort, &o.PutPort, &o.LinePort)
	serve(t, r, fmt.Sprintf("127.0.0.1:%d", o.HTTPPort))
	startEcho(t, listen(t, o.PutPort))
}

// serve serves HTTP at an address until the test ends.
func serve(t *testing.T, r *router, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, r, listener)
}

func serveOn(t *testing.T, r *router, listener net.Listener) {
	t.Helper()
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
}

// startEcho sends back what comes in, until the test ends.
func startEcho(t *testing.T, echo net.Listener) {
	t.Helper()
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			connection, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
}

func listen(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRealEnvoyCarries sends requests and a TCP connection through a running Envoy.
func TestRealEnvoyCarries(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address = "localhost", "127.0.0.2"
	r.start(t, &o)
	start(t, &o)
	base := fmt.Sprintf("http://127.0.0.2:%d", o.HTTPPort)
	ask := func(path, body string) (int, string, http.Header) {
		response, err := http.Post(base+path, "text/plain", strings.NewReader(body))
		if err != nil {
			return 0, err.Error(), nil
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text), response.Header
	}
	eventually(t, "an answer", func() bool {
		status, text, _ := ask("/write", "cpu value=1")
		return status == http.StatusOK && text == "cpu value=1"
	})
	eventually(t, "an echo", func() bool {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.PutPort))
		if err != nil {
			return false
		}
		defer connection.Close()
		_ = connection.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintln(connection, "put a 1 2 b=c")
		line, _ := bufio.NewReader(connection).ReadString('\n')
		return line == "put a 1 2 b=c\n"
	})

	// That the cluster is full goes through as it is, once, and the router stays in.
	before := r.requests.Load()
	for range 20 {
		status, text, header := ask("/full", "x")
		if status != http.StatusServiceUnavailable || text != "full\n" || header.Get("Retry-After") != "1" {
			t.Fatal(status, text, header)
		}
	}
	if sent := r.requests.Load() - before; sent != 20 {
		t.Errorf("20 requests were sent %d times", sent)
	}
	if status, text, _ := ask("/write", "y"); status != http.StatusOK {
		t.Error(status, text)
	}

	// Only what the status port is for is to be had there.
	for path, want := range map[string]int{"/stats/prometheus": http.StatusOK, "/config_dump": http.StatusNotFound, "/quitquitquit": http.StatusNotFound} {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.2:%d%s", o.StatusPort, path))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}

// TestRealEnvoyFollowsCertificates replaces the certificate that clients are shown.
func TestRealEnvoyFollowsCertificates(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address = "localhost", "127.0.0.2"
	o.Edge = &Edge{}
	r.start(t, &o)
	start(t, &o)
	shown := func() int64 {
		connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.HTTPPort), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return -1
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	eventually(t, "the first certificate", func() bool { return shown() == 1 })
	writePair(t, o.Edge.Folder, "edge", 7)
	eventually(t, "the second certificate", func() bool { return shown() == 7 })
}
