package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/secret"
)

// readAudit reads an audit log.
func readAudit(t *testing.T, path string) (events []audit.Event, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, e)
	}
	return events, string(content)
}

func (s *testServer) sendLine(text string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr["put"])
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, text)
	if answer, _ := io.ReadAll(conn); !strings.HasPrefix(string(answer), "AUTH_FAIL") {
		s.t.Errorf("%s", answer)
	}
}

// TestAuditLog holds, on a process, that each action is told once, by whom, from where and how it
// ended, and that no secret is.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, path := filepath.Join(dir, "auth.yaml"), filepath.Join(dir, "audit.jsonl")
	authFile(t, users, map[string]string{"reader-secret": "'*': read", "admin-secret": "'*': admin"})
	s := startServer(t, t.TempDir(), "--auth-file", users, "--udp-addr", "127.0.0.1:0", "--udp-user", "admin-secret", "--admin", "--audit-log", path)

	s.as("admin-secret", "POST", "/write?db=a", "m,host=x value=1\nkept value=1")
	s.as("admin-secret", "GET", "/api/v1/query?query=secret_query", "")
	s.as("admin-secret", "POST", "/db/a/api/v1/admin/tsdb/delete_series?match[]=m", "")
	s.statement("admin-secret", "CREATE DATABASE made")
	s.statement("admin-secret", "DROP DATABASE made")
	s.as("admin-secret", "POST", "/admin/settle", "")
	s.as("reader-secret", "POST", "/admin/settle", "")
	s.as("reader-secret", "POST", "/write?db=a", "m value=1")
	s.statement("reader-secret", "DROP DATABASE a")
	s.as("wrong-secret", "GET", "/api/v1/query?query=up", "")
	s.as("", "POST", "/write?u=reader-secret&p=wrong-secret", "m value=1")
	s.sendLine("auth token wrong-secret\n")
	common := []string{"--addr", s.addr["grpc"]}
	for _, c := range [][]string{
		{"export", "--token", "admin-secret", "--db", "a"},
		{"drain", "--token", "reader-secret", "n1"},
		{"status", "--token", "wrong-secret"},
	} {
		if code, _, stderr := run(t, nil, append(c, common...)...); (code == 0) != (c[0] == "export") {
			t.Errorf("%s: %d %s", c, code, stderr)
		}
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	eventually(t, "the file is made anew", func() bool { _, err := os.Stat(path); return err == nil })
	s.as("wrong-secret", "GET", "/metrics", "")
	s.signal(syscall.SIGTERM)
	s.wait()

	events, text := readAudit(t, path+".1")
	behind, more := readAudit(t, path)
	if len(behind) != 1 {
		t.Errorf("behind the rotation: %s", more)
	}
	events, text = append(events, behind...), text+more
	reader := secret.DigestOf("reader-secret").String()[:12]
	seen := map[string]int{}
	for _, e := range events {
		if e.Time.IsZero() || !strings.HasPrefix(e.From, "127.0.0.1:") || e.DurationMs < 0 {
			t.Errorf("%+v", e)
		}
		if e.User == "reader-secret" && e.By != "" && (e.By != "token" || e.Credential != reader) {
			t.Errorf("%+v", e)
		}
		deeds := ""
		for _, d := range e.Deeds {
			deeds += d.Do + " " + d.Database + ","
		}
		seen[fmt.Sprint(e.User, "|", e.Protocol, "|", e.Action, "|", e.Database, "|", deeds, "|", e.Outcome)]++
	}
	const admin, who = "admin-secret", "reader-secret"
	for _, want := range []string{
		admin + "|http|POST /api/v1/admin/tsdb/delete_series|a|delete a,|ok",
		admin + "|http|POST /query|default|create database made,|ok", admin + "|http|POST /query|default|drop database made,|ok",
		admin + "|http|POST /admin/settle||administration ,|ok",
		who + "|http|POST /admin/settle|*|administration ,|refused",
		who + "|http|POST /write|a||refused", who + "|http|POST /query|a||refused",
		"|http|GET /api/v1/query|||refused", who + "|http|POST /write|||refused", "|tcp_put|auth|||refused",
		admin + "|grpc|/tickmesh.v1.QueryService/Scan|a|bulk read a,|ok",
		who + "|grpc|/tickmesh.v1.ClusterService/Drain|*|administration ,|refused",
		"|grpc|/tickmesh.v1.ClusterService/GetServerInfo|||refused", "|http|GET /metrics|||refused",
	} {
		if seen[want] != 1 {
			t.Errorf("%d times %s", seen[want], want)
		}
		delete(seen, want)
	}
	for rest, n := range seen {
		t.Errorf("%d times %s is told, too", n, rest)
	}
	for _, secret := range []string{"wrong-secret", "Bearer", "secret_query"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is told: %s", secret, text)
		}
	}
}

// TestNodeAuditLog holds, on a node's own HTTP port, that each refusal and act of administration is
// told once, by whom, from where and how it ended, what runs at the end included, and no probe.
func TestNodeAuditLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, path := filepath.Join(dir, "auth.yaml"), filepath.Join(dir, "audit.jsonl")
	authFile(t, users, map[string]string{"reader-secret": "'*': read", "admin-secret": "'*': admin"})
	s := newTestCluster(t).startNode("n1", "--auth-file", users, "--admin", "--pprof", "--audit-log", path)

	for _, c := range []struct {
		token, method, target string
		want                  int
	}{
		{"", "GET", "/healthz", 200}, {"", "GET", "/metrics", 401}, {"wrong-secret", "GET", "/metrics", 401}, {"reader-secret", "GET", "/metrics", 200},
		{"reader-secret", "POST", "/admin/settle", 403}, {"admin-secret", "POST", "/admin/settle", 200}, {"admin-secret", "GET", "/nothing", 404},
	} {
		if got, body := s.as(c.token, c.method, c.target, ""); got != c.want {
			t.Errorf("%+v: %d %s", c, got, body)
		}
	}
	request := func(method, target string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, s.url(target), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer admin-secret")
		return r
	}
	foreign := request("POST", "/admin/settle")
	foreign.Header.Set("Origin", "https://evil.example")
	if response, err := http.DefaultClient.Do(foreign); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("another origin: %v %v", response, err)
	} else {
		_ = response.Body.Close()
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	eventually(t, "the file is made anew", func() bool { _, err := os.Stat(path); return err == nil })
	profiled, profile := make(chan error, 1), request("GET", "/debug/pprof/profile?seconds=600&secret_parameter=x")
	go func() {
		response, err := http.DefaultClient.Do(profile)
		if err == nil {
			err = response.Body.Close()
		}
		profiled <- err
	}()
	eventually(t, "a profile is taken", func() bool {
		_, stacks := s.as("admin-secret", "GET", "/debug/pprof/goroutine?debug=2", "")
		return strings.Contains(stacks, "net/http/pprof.Profile(")
	})
	s.signal(syscall.SIGTERM)
	s.wait()
	if err := <-profiled; err != nil {
		t.Error(err)
	}

	before, text := readAudit(t, path+".1")
	behind, more := readAudit(t, path)
	seen, reader := map[string]int{}, secret.DigestOf("reader-secret").String()[:12]
	for _, e := range append(before, behind...) {
		if e.Time.IsZero() || !strings.HasPrefix(e.From, "127.0.0.1:") || e.DurationMs < 0 || e.User == "reader-secret" && (e.By != "token" || e.Credential != reader) {
			t.Errorf("%+v", e)
		}
		seen[fmt.Sprint(e.User, "|", e.Protocol, "|", e.Action, "|", len(e.Deeds), "|", e.Outcome, " ", e.Status)]++
	}
	if stacks := "admin-secret|http|GET /debug/pprof/goroutine|1|ok 200"; seen[stacks] == 0 {
		t.Errorf("missing: %s", stacks)
	} else {
		delete(seen, stacks)
	}
	want := map[string]int{
		"|http|GET /metrics|0|refused 401": 2, "reader-secret|http|POST /admin/settle|1|refused 403": 1, "admin-secret|http|POST /admin/settle|1|ok 200": 1,
		"|http|POST /admin/settle|0|refused 403": 1, "admin-secret|http|GET /debug/pprof/profile|1|ok 200": 1,
	}
	if !maps.Equal(seen, want) {
		t.Errorf("told is %v, want %v", seen, want)
	}
	for _, secret := range []string{"wrong-secret", "Bearer", "secret_parameter"} {
		if strings.Contains(text+more, secret) {
			t.Errorf("%s is told: %s", secret, text+more)
		}
	}
}

// TestAuditOfAll holds that queries are told on request, writes never, and that a pipe that nobody
// empties holds no request.
func TestAuditOfAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	s := startServer(t, t.TempDir(), "--audit-log", path, "--audit-level", "all")
	if status, body := post(t, s.url("/write"), "m value=1"); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	for range 500 { // about twice what a pipe holds
		if status, body := get(t, s.url("/api/v1/query?query=1")); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	content := make([]byte, 4096)
	n, err := pipe.Read(content)
	if err != nil || !strings.Contains(string(content[:n]), `"action":"GET /api/v1/query"`) || strings.Contains(string(content[:n]), "/write") {
		t.Errorf("%v %s", err, content[:n])
	}
}
