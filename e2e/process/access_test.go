package process

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/secret"
)

// authFile writes a file of users whose tokens are their names; rights by name.
func authFile(t *testing.T, path string, rights map[string]string) {
	t.Helper()
	text := "users:\n"
	for name, right := range rights {
		text += fmt.Sprintf("  - {name: %s, tokens: [%s], rights: {%s}}\n", name, secret.DigestOf(name).String(), right)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// as makes a request of a user; empty: of nobody.
func (s *testServer) as(user, method, target, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url(target), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user)
	}
	response, err := (&http.Client{Timeout: waitMax}).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return answerOf(s.t, response)
}

func (s *testServer) statement(user, text string) (int, string) {
	s.t.Helper()
	return s.as(user, "POST", "/query?q="+url.QueryEscape(text), "")
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitMax); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never:", what)
		}
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "auth.yaml")
	authFile(t, users, map[string]string{"writer": "default: write, a: write", "reader": "'*': read", "admin": "'*': admin"})
	s := startServer(t, t.TempDir(), "--auth-file", users, "--udp-user", "writer", "--pprof", "--admin")

	for _, path := range []string{"/healthz", "/readyz", "/health", "/ping"} {
		if status, body := s.as("", "GET", path, ""); status >= 300 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for path, reads := range map[string]int{ // what a reader gets
		"/": 200, "/ui/": 200, "/metrics": 200, "/api/version": 200, "/api/v1/query?query=1": 200, "/api/v1/status/buildinfo": 200, "/query?q=SHOW+DATABASES": 200,
		"/api/suggest?type=metrics": 200, "/api/v2/query": 501, "/nothing": 404, "/debug/pprof/": 403, "/debug/pprof/heap": 403, "/debug/pprof/cmdline": 403,
		"/api/v1/read": 405, "/api/aggregators": 200, "/db/a/api/v1/labels": 200, "/ui/api/status": 0, "/api/stats": 200, "/admin/settle": 404,
	} {
		if status, body := s.as("", "GET", path, ""); status != 401 {
			t.Errorf("%s by nobody: %d %s", path, status, body)
		}
		if status, body := s.as("reader", "GET", path, ""); reads != 0 && status != reads {
			t.Errorf("%s by a reader: %d %s, want %d", path, status, body, reads)
		}
		if status, _ := s.as("admin", "GET", path, ""); status == 401 || status == 403 {
			t.Errorf("%s by an admin: %d", path, status)
		}
	}
	if status, _ := s.as("reader", "POST", "/admin/settle", ""); status != 403 {
		t.Errorf("a reader compacts: %d", status)
	}
	if status, _ := s.as("admin", "POST", "/admin/settle", ""); status != 200 {
		t.Errorf("an admin compacts: %d", status)
	}
	if status, body := s.as("writer", "POST", "/write?db=a", "m value=1"); status != 204 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.as("reader", "POST", "/write?db=a", "m value=1"); status != 403 {
		t.Errorf("%d %s", status, body)
	}
	s.checkReflectedMethods()
	s.checkCommands()

	authFile(t, users, map[string]string{"newcomer": "'*': read", "writer": "default: read"})
	eventually(t, "the file is read again", func() bool { status, _ := s.as("newcomer", "GET", "/metrics", ""); return status == 200 })
	if status, _ := s.as("reader", "GET", "/metrics", ""); status != 401 {
		t.Errorf("a user that is gone: %d", status)
	}
	if err := os.WriteFile(users, []byte("users: [{name: x, rihgts: {}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := s.waitLog("the file has changed and is not usable", nil)
	if text := fmt.Sprint(line["error"]); !strings.Contains(text, ":1: users[0].rihgts: there is no such key here") {
		t.Errorf("%s", text)
	}
	if status, body := s.as("newcomer", "GET", "/metrics", ""); status != 200 || !strings.Contains(body, `tickmesh_rule_file_good{file="auth"} 0`) {
		t.Errorf("%d", status)
	}
}

// checkReflectedMethods calls every method of every service that the server tells of.
func (s *testServer) checkReflectedMethods() {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addr["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitMax)
	defer cancel()
	admin := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer admin")
	services := s.reflectedServices(admin, conn)
	if len(services) < 5 {
		s.t.Errorf("only %q", services)
	}
	for _, service := range services {
		for _, method := range []string{"Check", "ServerReflectionInfo", "Write", "WriteStream", "Scan", "Last", "ListSeries", "ListNames", "Delete", "GetStatus", "Drain", "Undrain", "Recover", "Forecast", "GetServerInfo", "none"} {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+service+"/"+method)
			if err == nil {
				_ = stream.SendMsg(&healthpb.HealthCheckRequest{}) // an empty message of any type
				_ = stream.CloseSend()
				err = stream.RecvMsg(&healthpb.HealthCheckResponse{})
			}
			code := status.Code(err)
			open := service == "grpc.health.v1.Health"
			if !open && code != codes.Unauthenticated && code != codes.Unimplemented {
				s.t.Errorf("%s/%s by nobody: %v", service, method, err)
			}
		}
	}
	if answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		s.t.Errorf("health: %v, %v", answer, err)
	}
}

func (s *testServer) reflectedServices(ctx context.Context, conn *grpc.ClientConn) (names []string) {
	s.t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		s.t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	_ = stream.CloseSend()
	return names
}

// checkCommands asks by the commands of the program.
func (s *testServer) checkCommands() {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("admin\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range []struct {
		environ   []string
		arguments []string
		code      int
		says      string
	}{
		{nil, nil, 1, "no credentials were given"},
		{nil, []string{"--token", "wrong"}, 1, "authentication failed"},
		{nil, []string{"--token", "admin"}, 0, ""},
		{nil, []string{"--token-file", file}, 0, ""},
		{[]string{"TICKMESH_TOKEN=admin"}, nil, 0, ""},
		{nil, []string{"--user", "admin:x"}, 1, "authentication failed"},
		{nil, []string{"--user", "admin"}, 1, "expected name:password"},
		{nil, []string{"--token", "admin", "--user", "a:b"}, 1, "a token is given too"},
	} {
		code, _, stderr := run(s.t, c.environ, append([]string{"status", "--addr", s.addr["grpc"]}, c.arguments...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			s.t.Errorf("%v %v: code %d, %s", c.environ, c.arguments, code, stderr)
		}
	}
}

func TestAuthCommands(t *testing.T) {
	t.Parallel()
	code, out, _ := run(t, nil, "auth", "token")
	fields := strings.Fields(out)
	if code != 0 || len(fields) != 10 || secret.DigestOf(fields[4]).String() != fields[9] {
		t.Errorf("%d %q", code, out)
	}
	if code, _, stderr := run(t, nil, "auth", "hash"); code != 1 || !strings.Contains(stderr, "expected a password, one line, on standard input") {
		t.Errorf("%d %q", code, stderr)
	}
}

// What cannot be is said at the start.
func TestAccessFlags(t *testing.T) {
	t.Parallel()
	bad := writeText(t, "users: [{name: a, password: x}]")
	good := writeText(t, "users: [{name: a}]")
	rules := writeText(t, "databases: {a: {retentoin: 1d}}")
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--auth-file", bad, "--udp-user", "a"}, "--auth-file: "},
		{[]string{"--auth-file", bad + ".none", "--udp-user", "a"}, "no such file"},
		{[]string{"--auth-file", good}, "datagrams cannot show who sends them"},
		{[]string{"--auth-file", good, "--udp-user", "b"}, `--udp-user b: authentication failed: there is no user "b"`},
		{[]string{"--udp-user", "b"}, "expected --auth-file, too"},
		{[]string{"--databases-file", rules}, ":1: databases.a.retentoin: there is no such key here"},
		{[]string{"--put-database", "a/b"}, "--put-database: invalid value"},
	} {
		code, _, stderr := run(t, nil, append(append([]string{"standalone"}, anyPorts()...), c.flags...)...)
		if code != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: code %d, %s", c.flags, code, stderr)
		}
	}
}

// A server that others can reach and that asks nobody who calls says so, once.
func TestWarnsOfOpenDoors(t *testing.T) {
	t.Parallel()
	s := startProcess(t, 1, "standalone", "--data-dir", t.TempDir(), "--http-addr", "0.0.0.0:0", "--put-addr", "", "--line-addr", "", "--grpc-addr", "")
	line := s.waitLog("everybody who reaches this server may", nil)
	if line["listeners"] != "--http-addr 0.0.0.0:0" {
		t.Errorf("%v", line)
	}
	quiet := startServer(t, t.TempDir())
	quiet.signal(os.Interrupt)
	quiet.wait()
	if log, _ := json.Marshal(quiet.log); strings.Contains(string(log), "everybody who reaches") {
		t.Error("a server on the loopback warns")
	}
}

// Databases are made, listed and dropped, alone and in a cluster, and the names stay.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"alone": nil, "cluster": {"--nodes", "3", "--replication", "2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rules := writeText(t, "databases: {named: {samples-per-second-max: 1000}}")
			flags := append([]string{"--databases-file", rules}, more...)
			s := startServer(t, dir, flags...)
			list := func(want string) {
				t.Helper()
				status, body := s.statement("", "SHOW DATABASES")
				if status != 200 || !strings.Contains(body, want) {
					t.Fatalf("%d %s, want %s", status, body, want)
				}
			}
			do := func(text string) {
				t.Helper()
				if status, body := s.statement("", text); status != 200 || strings.Contains(body, "error") {
					t.Fatalf("%s: %d %s", text, status, body)
				}
			}
			do(`CREATE DATABASE "made"`)
			do(`CREATE DATABASE "made"`)
			for _, database := range []string{"default", "made", "written"} {
				if status, body := s.as("", "POST", "/write?db="+database, "m value=1"); status != 204 {
					t.Fatalf("%d %s", status, body)
				}
			}
			list(`"values":[["default"],["made"],["named"],["written"]]`)
			do(`DROP DATABASE "written"`)
			do(`DROP DATABASE "made"`)
			do(`CREATE DATABASE "kept"`)
			list(`"values":[["default"],["kept"],["named"]]`)
			s.signal(os.Interrupt)
			s.wait()
			s = startServer(t, dir, flags...)
			eventually(t, "the cluster answers", func() bool { status, _ := s.statement("", "SHOW DATABASES"); return status == 200 })
			list(`"values":[["default"],["kept"],["named"]]`)
			if status, body := s.as("", "POST", "/write?db=written", "m value=1"); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
			eventually(t, "a dropped database is written again", func() bool {
				_, body := s.statement("", "SHOW DATABASES")
				return strings.Contains(body, `"values":[["default"],["kept"],["named"],["written"]]`)
			})
			if status, body := s.as("", "GET", "/metrics", ""); status != 200 || !strings.Contains(body, `tickmesh_database_samples_total{database="written",outcome="accepted"} 1`) {
				t.Errorf("%d", status)
			}
		})
	}
}

// Each dialect asks for the right to read the database that a request means.
func TestRightsOfQueries(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "auth.yaml")
	authFile(t, users, map[string]string{"a": "a: read", "writer": "'*': write", "owner": "a: admin"})
	s := startServer(t, t.TempDir(), "--auth-file", users, "--udp-user", "writer")
	for _, database := range []string{"a", "b", "default"} {
		if status, body := s.as("writer", "POST", "/write?db="+database, "m,h=x value=1"); status != 204 {
			t.Fatalf("%d %s", status, body)
		}
	}
	for _, path := range []string{
		"/api/v1/query?query=m", "/api/v1/query_range?query=m&start=0&end=10&step=1", "/api/v1/labels", "/api/v1/label/h/values", "/api/v1/series?match[]=m",
		"/api/v1/metadata", "/api/v1/status/tsdb", "/api/query?start=1h-ago&m=sum:m", "/api/query/last?timeseries=m", "/api/suggest?type=metrics", "/api/search/lookup?m=m",
		"/query?q=SELECT+value+FROM+m", "/query?q=SHOW+MEASUREMENTS", "/query?q=SHOW+SERIES", "/query?q=SHOW+TAG+VALUES+WITH+KEY=h",
	} {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		for _, c := range []struct {
			target string
			want   bool
		}{
			{path, false}, {path + separator + "db=b", false}, {"/db/b" + path, false}, {"/db/default" + path, false}, {path + separator + "db=a", true}, {"/db/a" + path, true},
		} {
			status, body := s.as("a", "GET", c.target, "")
			denied := status == 403 || strings.Contains(body, "has no read right")
			if denied == c.want || c.want && status != 200 {
				t.Errorf("%s: %d %s", c.target, status, body)
			}
		}
		for _, target := range []string{"/db/a" + path + separator + "db=b", "/db/b" + path + separator + "db=a"} {
			if status, body := s.as("a", "GET", target, ""); status != 400 || !strings.Contains(body, "name one") {
				t.Errorf("%s: %d %s", target, status, body)
			}
		}
	}
	for _, statement := range []string{`DROP DATABASE "b"`, `DROP DATABASE "a"`, `CREATE DATABASE "c"`, "DROP MEASUREMENT m"} {
		if status, body := s.statement("a", statement); status == 200 && !strings.Contains(body, "has no admin right") {
			t.Errorf("%s: %d %s", statement, status, body)
		}
	}
	if status, body := s.statement("a", "SHOW DATABASES"); status != 200 || !strings.Contains(body, `"values":[["a"]]`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.statement("owner", `DROP DATABASE "a"`); status != 200 || strings.Contains(body, "error") {
		t.Errorf("%d %s", status, body)
	}
	for method, target := range map[string]string{
		"DELETE": "/api/query?start=1h-ago&m=sum:m&db=b", "POST": "/api/v1/admin/tsdb/delete_series?match[]=m&db=b",
	} {
		if status, body := s.as("writer", method, target, ""); status < 400 {
			t.Errorf("%s %s: %d %s", method, target, status, body)
		}
	}
	if status, body := s.as("writer", "GET", "/db/b/api/query?start=1h-ago&m=sum:m", ""); status != 200 || !strings.Contains(body, `"metric":"m"`) {
		t.Errorf("%d %s", status, body)
	}
}

// Whoever comes to the page by a shorter path stays in the database of the path.
func TestPageKeepsTheDatabase(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	for _, path := range []string{"/db/a/ui", "/db/a/ui/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Timeout: waitMax}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := response.Request.URL.Path; response.StatusCode != http.StatusOK || got != "/db/a/" {
			t.Errorf("%s: %d at %s", path, response.StatusCode, got)
		}
	}
}
