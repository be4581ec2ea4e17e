package process

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The port for metrics asks who is there as the HTTP port does, and answers nothing but metrics
// and health.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "auth.yaml")
	authFile(t, users, map[string]string{"reader": "'*': read", "admin": "'*': admin"})
	arguments := append([]string{"standalone", "--data-dir", t.TempDir(), "--auth-file", users, "--udp-user", "admin", "--admin", "--pprof", "--metrics-addr", "127.0.0.1:0"}, anyPorts()...)
	s := startProcess(t, 6, arguments...)
	s.addr["http"] = s.addr["metrics"]
	for _, path := range []string{"/healthz", "/readyz", "/-/healthy", "/-/ready"} {
		if status, body := s.as("", "GET", path, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := s.as("", "GET", "/metrics", ""); status != http.StatusUnauthorized {
		t.Errorf("nobody is shown metrics: %d %.100s", status, body)
	}
	if status, body := s.as("reader", "GET", "/metrics", ""); status != http.StatusOK || !strings.Contains(body, "tickmesh_build_info") {
		t.Errorf("%d %.100s", status, body)
	}
	for _, request := range [][2]string{
		{"POST", "/write"}, {"POST", "/api/put"}, {"GET", "/api/v1/query?query=up"}, {"GET", "/query?q=SHOW+DATABASES"}, {"GET", "/"},
		{"POST", "/admin/settle"}, {"GET", "/debug/pprof/"},
	} {
		if status, body := s.as("admin", request[0], request[1], "cpu value=1"); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %d %.100s", request[0], request[1], status, body)
		}
	}
}
