package envoy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// echoes reports whether a line comes back on a connection, which it closes.
func echoes(connection net.Conn, err error) bool {
	if err != nil {
		return false
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintln(connection, "put a 1 2 b=c")
	line, _ := bufio.NewReader(connection).ReadString('\n')
	return line == "put a 1 2 b=c\n"
}

// clusterStat returns a number that Envoy tells of a cluster of routers; empty: none.
func clusterStat(t *testing.T, o *Options, name, cluster string) string {
	t.Helper()
	response, err := http.Get(fmt.Sprintf("http://127.0.0.2:%d/stats/prometheus", o.StatusPort))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + `\{envoy_cluster_name="` + cluster + `"\} (\d+)$`).FindSubmatch(text)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// TestRealEnvoyAtTheEdge asks clients of all kinds for certificates, and writes of each
// request and connection into the log.
func TestRealEnvoyAtTheEdge(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address, o.AccessLog, o.Edge = "localhost", "127.0.0.2", true, &Edge{ClientCA: true}
	r.start(t, &o)
	startEcho(t, listen(t, o.LinePort))
	output := start(t, &o)
	pair, err := tls.LoadX509KeyPair(filepath.Join(o.Edge.Folder, "tls.crt"), filepath.Join(o.Edge.Folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	known := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
	unknown := &tls.Config{InsecureSkipVerify: true}
	dial := func(port int, config *tls.Config) (net.Conn, error) {
		connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", port), config)
		if err != nil {
			return nil, err
		}
		return connection, nil
	}
	post := func(config *tls.Config) (int, error) {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := c.Post(fmt.Sprintf("https://127.0.0.2:%d/write", o.HTTPPort), "text/plain", strings.NewReader("x"))
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	eventually(t, "an answer", func() bool { status, err := post(known); return err == nil && status == http.StatusOK })
	if status, err := post(unknown); err == nil {
		t.Errorf("a client without a certificate is answered %d", status)
	}
	for name, port := range map[string]int{"put": o.PutPort, "line": o.LinePort} {
		eventually(t, name, func() bool { return echoes(dial(port, known)) })
		if echoes(dial(port, unknown)) {
			t.Errorf("%s: a client without a certificate is let in", name)
		}
		if echoes(net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", port))) {
			t.Errorf("%s: a client without TLS is let in", name)
		}
	}
	eventually(t, "a line of the log for a request, and one for each connection of lines", func() bool {
		requests, connections := 0, map[string]bool{}
		for line := range strings.Lines(output.String()) {
			var entry struct {
				Client, Method, Path, Router string
				Status                       int
				ReceivedBytes                int `json:"received_bytes"`
			}
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Client != "127.0.0.1" {
				continue // a line of Envoy's own
			}
			switch {
			case entry.Method == http.MethodPost && entry.Path == "/write" && entry.Status == http.StatusOK:
				requests++
			case entry.Method == "" && entry.ReceivedBytes == len("put a 1 2 b=c\n"):
				connections[entry.Router] = true
			}
		}
		return requests > 0 && connections[fmt.Sprintf("127.0.0.1:%d", o.PutPort)] && connections[fmt.Sprintf("127.0.0.1:%d", o.LinePort)]
	})
}

// TestRealEnvoyLeavesRoutersOut has two routers: one that takes no connections of lines is
// left out of them, and one that says that it is not ready of everything.
func TestRealEnvoyLeavesRoutersOut(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address = "127.0.0.1", "127.0.0.2" // localhost may have two addresses
	r.start(t, &o)
	startEcho(t, listen(t, o.LinePort))
	// The other one has nobody at its port for lines.
	other := &router{}
	other.ready.Store(true)
	serve(t, other, fmt.Sprintf("127.0.0.3:%d", o.HTTPPort))
	start(t, &o, func(text string) string {
		for _, port := range []int{o.LinePort, o.HTTPPort} {
			first := fmt.Sprintf("address: {socket_address: {address: 127.0.0.1, port_value: %d}}", port)
			second := strings.Replace(first, "127.0.0.1", "127.0.0.3", 1)
			if port == o.HTTPPort {
				text = strings.Replace(text, "{endpoint: {"+first+"}}", "{endpoint: {"+first+"}}, {endpoint: {"+second+"}}", 1)
				continue
			}
			health := fmt.Sprintf("        - endpoint:\n            health_check_config: {port_value: %d}\n            ", o.HTTPPort)
			text = strings.Replace(text, first+"\n", first+"\n"+health+second+"\n", 1)
		}
		return text
	})
	stat := func(name, cluster string) string { return clusterStat(t, &o, name, cluster) }
	eventually(t, "both routers are asked whether they are ready, and are", func() bool { return stat("envoy_cluster_membership_healthy", "router_http") == "2" })
	line := func() bool { return echoes(net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.LinePort))) }
	eventually(t, "both are there for lines", func() bool { return stat("envoy_cluster_membership_healthy", "router_line") == "2" })
	for i := range 10 { // in turns, so every second one would fail
		if !line() {
			t.Errorf("connection %d was led to the router without lines, and to no other", i)
		}
	}
	eventually(t, "the router without lines is left out", func() bool {
		ejected := stat("envoy_cluster_outlier_detection_ejections_enforced_total", "router_line")
		return ejected != "" && ejected != "0"
	})
	other.ready.Store(false)
	eventually(t, "the router that is not ready is left out", func() bool { return stat("envoy_cluster_membership_healthy", "router_http") == "1" })
	before := other.requests.Load()
	for range 10 {
		response, err := http.Post(fmt.Sprintf("http://127.0.0.2:%d/write", o.HTTPPort), "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if sent := other.requests.Load() - before; sent != 0 {
		t.Errorf("%d of 10 requests were sent to it", sent)
	}
	other.ready.Store(true)
	eventually(t, "it is back", func() bool { return stat("envoy_cluster_membership_healthy", "router_http") == "2" })
}

// TestRealEnvoyEncrypts has the connections to routers encrypted, too, and no router that
// shows another name taken for one.
func TestRealEnvoyEncrypts(t *testing.T) {
	for name, shown := range map[string]string{"router": "router.test", "somebody else": "other.test"} {
		t.Run(name, func(t *testing.T) {
			r, o := &router{}, plain()
			r.ready.Store(true)
			o.Router, o.Address, o.Upstream = "127.0.0.1", "127.0.0.2", &Upstream{ServerName: "router.test"}
			freePorts(t, &o.HTTPPort, &o.GRPCPort, &o.PutPort, &o.LinePort)
			start(t, &o)
			writePair(t, o.Upstream.Folder, shown, 3) // Envoy follows it, and trusts who signed it
			pair, err := tls.LoadX509KeyPair(filepath.Join(o.Upstream.Folder, "tls.crt"), filepath.Join(o.Upstream.Folder, "tls.key"))
			if err != nil {
				t.Fatal(err)
			}
			config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
			serveOn(t, r, tls.NewListener(listen(t, o.HTTPPort), config))
			startEcho(t, tls.NewListener(listen(t, o.PutPort), config))
			answered := func() bool {
				response, err := http.Post(fmt.Sprintf("http://127.0.0.2:%d/write", o.HTTPPort), "text/plain", strings.NewReader("x"))
				if err != nil {
					return false
				}
				return response.Body.Close() == nil && response.StatusCode == http.StatusOK
			}
			if shown == o.Upstream.ServerName {
				eventually(t, "an answer", answered)
				eventually(t, "an echo", func() bool { return echoes(net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.PutPort))) })
				return
			}
			eventually(t, "the name is looked at", func() bool {
				if answered() || echoes(net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.PutPort))) {
					t.Fatal("a router with another name is taken for one")
				}
				refused := clusterStat(t, &o, "envoy_cluster_ssl_fail_verify_san", "router_put")
				return refused != "" && refused != "0"
			})
		})
	}
}

// TestRealEnvoyNegotiates has clients with TLS at Envoy, and routers with TLS behind it, as
// their libraries demand it: gRPC refuses connections on which HTTP/2 was not agreed upon.
func TestRealEnvoyNegotiates(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address, o.Edge, o.Upstream = "127.0.0.1", "127.0.0.2", &Edge{}, &Upstream{ServerName: "router.test"}
	freePorts(t, &o.HTTPPort, &o.GRPCPort, &o.PutPort, &o.LinePort)
	start(t, &o)
	pair, err := tls.LoadX509KeyPair(filepath.Join(o.Upstream.Folder, "tls.crt"), filepath.Join(o.Upstream.Folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	serveOn(t, r, tls.NewListener(listen(t, o.HTTPPort), config))
	startEcho(t, tls.NewListener(listen(t, o.PutPort), config))
	startEcho(t, tls.NewListener(listen(t, o.LinePort), config))
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener := listen(t, o.GRPCPort)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	anybody := &tls.Config{InsecureSkipVerify: true}
	client, err := grpc.NewClient(fmt.Sprintf("127.0.0.2:%d", o.GRPCPort), grpc.WithTransportCredentials(credentials.NewTLS(anybody)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, cluster := range []string{"router_http", "router_grpc", "router_put", "router_line"} {
		eventually(t, cluster+" is healthy", func() bool {
			return clusterStat(t, &o, "envoy_cluster_membership_healthy", cluster) == "1"
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := healthpb.NewHealthClient(client).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error("gRPC: ", err)
	}
	for _, c := range []struct {
		name    string
		port    int
		offered []string
		agreed  string
	}{
		{"http", o.HTTPPort, []string{"h2", "http/1.1"}, "h2"}, {"http", o.HTTPPort, []string{"http/1.1"}, "http/1.1"},
		{"http", o.HTTPPort, nil, ""}, {"grpc", o.GRPCPort, []string{"h2", "http/1.1"}, "h2"}, {"put", o.PutPort, nil, ""}, {"line", o.LinePort, nil, ""},
	} {
		offer := anybody.Clone()
		offer.NextProtos = c.offered
		connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", c.port), offer)
		if err != nil {
			t.Errorf("%s, offered %q: %v", c.name, c.offered, err)
			continue
		}
		if got := connection.ConnectionState().NegotiatedProtocol; got != c.agreed {
			t.Errorf("%s, offered %q: agreed on %q, want %q", c.name, c.offered, got, c.agreed)
		}
		connection.Close()
	}
}

// postThrough sends a write to Envoy, and returns the status of its answer.
func postThrough(t *testing.T, o *Options) int {
	t.Helper()
	response, err := http.Post(fmt.Sprintf("http://127.0.0.2:%d/write", o.HTTPPort), "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// TestRealEnvoyDoesNotPanic has no router that is ready: none is sent anything, where Envoy
// would otherwise send it to all of them.
func TestRealEnvoyDoesNotPanic(t *testing.T) {
	r, o := &router{}, plain()
	o.Router, o.Address = "127.0.0.1", "127.0.0.2"
	r.start(t, &o)
	start(t, &o)
	post := func() int { return postThrough(t, &o) }
	for range 10 {
		if status := post(); status != http.StatusServiceUnavailable {
			t.Errorf("answered %d", status)
		}
	}
	if echoes(net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.PutPort))) {
		t.Error("a connection of lines is carried to it")
	}
	if sent := r.requests.Load(); sent != 0 {
		t.Errorf("%d of 10 requests were sent to a router that is not ready", sent)
	}
	r.ready.Store(true)
	eventually(t, "it is ready", func() bool { return post() == http.StatusOK })
}

// TestRealEnvoyForgivesOneCheck has the only router not answer one check, as on a machine that
// stands still for a moment; then it does not answer at all.
func TestRealEnvoyForgivesOneCheck(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address = "127.0.0.1", "127.0.0.2"
	r.start(t, &o)
	start(t, &o)
	post := func() int { return postThrough(t, &o) }
	eventually(t, "it is ready", func() bool { return post() == http.StatusOK })
	r.silent.Store(1)
	eventually(t, "a check is given up", func() bool { return r.lapsed.Load() == 1 })
	if status := post(); status != http.StatusOK {
		t.Errorf("after one check without an answer: %d", status)
	}
	r.silent.Store(1 << 20)
	eventually(t, "a router that does not answer is left out", func() bool { return post() == http.StatusServiceUnavailable })
	r.silent.Store(0)
	eventually(t, "it is back", func() bool { return post() == http.StatusOK })
}
