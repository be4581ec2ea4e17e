package process

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
)

// madeToken is what `tickmesh tokens create --output json` writes.
type madeToken struct {
	Secret string       `json:"secret"`
	Token  client.Token `json:"token"`
}

// tokens runs `tickmesh tokens` as a user, and returns what it writes.
func (s *testServer) tokens(user string, arguments ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	return run(s.t, []string{"TICKMESH_TOKEN=" + user}, append(append([]string{"tokens"}, arguments...), "--addr", s.addr["grpc"])...)
}

func (s *testServer) makeToken(user, name, right string) (made madeToken) {
	s.t.Helper()
	code, stdout, stderr := s.tokens(user, "create", name, "--right", right, "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &made); code != 0 || err != nil || made.Token.Name != name {
		s.t.Fatalf("%d %v %s %s", code, err, stdout, stderr)
	}
	return made
}

// TestMadeTokens makes tokens by the command, uses them on every port, revokes them, and restarts,
// alone and in a cluster.
func TestMadeTokens(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"alone": nil, "cluster": {"--nodes", "3", "--replication", "2", "--shards", "4"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, data := t.TempDir(), t.TempDir()
			users, trail := filepath.Join(dir, "auth.yaml"), filepath.Join(dir, "audit.jsonl")
			authFile(t, users, map[string]string{"admin": "'*': admin, payroll: none", "reader": "'*': read"})
			start := func() *testServer {
				s := startServer(t, data, append([]string{"--auth-file", users, "--udp-user", "admin", "--audit-log", trail}, more...)...)
				for _, port := range []string{"put", "grpc"} {
					s.addr[port] = fmt.Sprint(s.waitLog("listening", func(l map[string]any) bool { return l["port"] == port })["address"])
				}
				return s
			}
			s := start()
			writer := s.makeToken("admin", "telegraf", "metrics=write")
			reader := s.makeToken("admin", "grafana", "metrics=read")
			uses := func(s *testServer, secret string) (write, read int) {
				t.Helper()
				write, _ = s.as(secret, "POST", "/write?db=metrics", "m value=1")
				read, _ = s.as(secret, "GET", "/api/v1/query?db=metrics&query=m", "")
				return write, read
			}
			for secret, want := range map[string][2]int{writer.Secret: {204, 200}, reader.Secret: {403, 200}, "tickmesh_0123456789abcdef_" + writer.Secret[26:]: {401, 401}} {
				if write, read := uses(s, secret); write != want[0] || read != want[1] {
					t.Errorf("%s: %d %d, want %v", secret[:25], write, read, want)
				}
			}
			if status, body := s.as(writer.Secret, "POST", "/write?db=other", "m value=1"); status != 403 {
				t.Errorf("%d %s", status, body)
			}
			s.checkTokenCommands(reader.Secret)
			if code, stdout, stderr := s.tokens("admin", "revoke", writer.Token.ID); code != 0 || !strings.Contains(stdout, writer.Token.ID+" is revoked") {
				t.Errorf("%d %s %s", code, stdout, stderr)
			}
			if write, read := uses(s, writer.Secret); write != 401 || read != 401 {
				t.Errorf("revoked: %d %d", write, read)
			}
			s.sendLine("auth token " + writer.Secret + "\n")
			if code, _, stderr := run(t, []string{"TICKMESH_TOKEN=" + writer.Secret}, "query", "m", "--db", "metrics", "--addr", s.addr["grpc"]); code != 1 || !strings.Contains(stderr, "does not hold: it was revoked") {
				t.Errorf("%d %s", code, stderr)
			}
			s.signal(os.Interrupt)
			s.wait()
			s = start()
			eventually(t, "the cluster answers", func() bool { _, read := uses(s, reader.Secret); return read == 200 })
			if write, read := uses(s, writer.Secret); write != 401 || read != 401 {
				t.Errorf("revoked, after a restart: %d %d", write, read)
			}
			code, list, _ := s.tokens("admin", "list")
			if hour := time.Now().UTC().Format("2006-01-02T"); code != 0 || strings.Count(list, "\n") != 4 || !strings.Contains(list, "it was revoked on "+hour) || strings.Contains(list, writer.Secret[26:]) || strings.Count(list, hour) < 6 {
				t.Errorf("%d %s", code, list)
			}
			checkTokenAudit(t, trail, &writer)
		})
	}
}

// checkTokenCommands holds what is refused, and what that says.
func (s *testServer) checkTokenCommands(readers string) {
	s.t.Helper()
	for _, c := range []struct {
		user      string
		arguments []string
		says      string
	}{
		{"reader", []string{"list"}, "has no admin right"}, {readers, []string{"list"}, "has no admin right"}, {"reader", []string{"create", "x", "--right", "a=read"}, "has no admin right"},
		{"reader", []string{"revoke", "0123456789abcdef"}, "has no admin right"}, {"wrong", []string{"list"}, "authentication failed"},
		{"admin", []string{"create", "x", "--right", "*=read"}, "ask for payroll=none"}, {"admin", []string{"create", "x", "--right", "payroll=read"}, "ask for payroll=none"},
		{"admin", []string{"create", "x"}, "expected a database and a right"}, {"admin", []string{"create", "x", "--right", "a"}, "expected each database once"},
		{"admin", []string{"create", "x", "--right", "a=read", "--right", "a=write"}, "expected each database once"}, {"admin", []string{"create", "x", "--right", "a=fly"}, "expected read, write, admin or none"},
		{"admin", []string{"create", "x", "--right", "a=read", "--expires", "400d"}, "1m0s to 366 days"}, {"admin", []string{"create", "x y", "--right", "a=read"}, "expected one word"},
		{"admin", []string{"revoke", "0123456789abcdef"}, "no such token"}, {"admin", []string{"revoke", readers}, "an id has 16 hexadecimal digits"},
	} {
		if code, stdout, stderr := s.tokens(c.user, c.arguments...); code != 1 || !strings.Contains(stderr, c.says) || strings.Contains(stdout+stderr, readers) {
			s.t.Errorf("%v: %d %s %s", c.arguments, code, stdout, stderr)
		}
	}
	code, secret, stderr := s.tokens("admin", "create", "lone", "--right", "a=read")
	if code != 0 || len(strings.Fields(secret)) != 1 || !strings.HasPrefix(secret, "tickmesh_") || !strings.Contains(stderr, "This is told once. Its id is "+secret[9:25]) {
		s.t.Errorf("%d %s %s", code, secret, stderr)
	}
}

// checkTokenAudit holds that making, revoking and refused uses are told with the token's id, and no
// secret is.
func checkTokenAudit(t *testing.T, path string, made *madeToken) {
	t.Helper()
	var text string
	eventually(t, "the audit log is written", func() bool {
		_, text = readAudit(t, path)
		return strings.Contains(text, `"deeds":[{"do":"revoke token","on":"`+made.Token.ID)
	})
	if strings.Contains(text, made.Secret[26:]) || !strings.Contains(text, `"deeds":[{"do":"create token","on":"`+made.Token.ID+`"}],"outcome":"ok"`) {
		t.Error(text)
	}
	events, _ := readAudit(t, path)
	refused := map[string]int{}
	for _, e := range events {
		if e.Credential == made.Token.ID && e.Outcome == "refused" && strings.Contains(e.Error, "it was revoked") {
			if e.User != "token:admin/telegraf" || e.By != "token" {
				t.Errorf("%+v", e)
			}
			refused[e.Protocol]++
		}
	}
	for _, protocol := range []string{"http", "grpc", "tcp_put"} {
		if refused[protocol] == 0 {
			t.Errorf("a revoked token over %s is not told: %v", protocol, refused)
		}
	}
}

// Without users there are no tokens, and it is said why.
func TestTokensNeedUsers(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	for _, arguments := range [][]string{{"list"}, {"create", "x", "--right", "a=read"}, {"revoke", "0123456789abcdef"}} {
		if code, _, stderr := s.tokens("", arguments...); code != 1 || !strings.Contains(stderr, "tokens are for a server that is started with --auth-file") {
			t.Errorf("%v: %d %s", arguments, code, stderr)
		}
	}
}

// TestTokensOfTwoRouters makes a token by one router of a cluster and revokes it by the other.
// What one has changed the other knows when the placement store has told it.
func TestTokensOfTwoRouters(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "auth.yaml")
	authFile(t, users, map[string]string{"admin": "'*': admin"})
	cluster := newTestCluster(t)
	cluster.flags = []string{"--etcd-endpoints", cluster.address, "--shards", "4", "--replication", "1"}
	cluster.startNode("n1")
	flags := []string{"--initial-nodes", "1", "--auth-file", users, "--udp-user", "admin"}
	one, two := cluster.startRouter(flags...), cluster.startRouter(flags...)
	kept := one.makeToken("admin", "kept", "metrics=write")
	made := one.makeToken("admin", "telegraf", "metrics=write")
	ask := func(s *testServer, made *madeToken) func() bool {
		return func() bool {
			status, _ := s.as(made.Secret, http.MethodPost, "/write?db=metrics", "m value=1")
			return status == http.StatusNoContent
		}
	}
	if !ask(one, &made)() {
		t.Error("the router that made a token refuses it")
	}
	eventually(t, "the other router takes it", ask(two, &made))
	start := time.Now()
	if code, _, stderr := two.tokens("admin", "revoke", made.Token.ID); code != 0 {
		t.Fatal(stderr)
	}
	if ask(two, &made)() {
		t.Error("the router that revoked a token takes it")
	}
	eventually(t, "the first router refuses it", func() bool { return !ask(one, &made)() })
	t.Logf("revoked everywhere after %v", time.Since(start))
	c, err := client.New(client.Options{Endpoints: []string{one.addr["grpc"]}, Token: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	if list, err := c.ListTokens(ctx); err != nil || len(list) != 2 || list[1].RevokedBy != "admin" || list[1].LastUsedMs == 0 {
		t.Errorf("%+v %v", list, err)
	}
	cluster.stopEtcd()
	eventually(t, "the router says that tokens cannot be changed", func() bool {
		code, _, stderr := one.tokens("admin", "revoke", kept.Token.ID, "--timeout", "2s")
		return code == 1 && strings.Contains(stderr, "tokens cannot be changed now")
	})
	if !ask(one, &kept)() || !ask(two, &kept)() || ask(one, &made)() {
		t.Error("without the placement store, what is known does not go on")
	}
	cluster.startEtcd("etcd")
	eventually(t, "tokens are changed again", func() bool { code, _, _ := two.tokens("admin", "revoke", kept.Token.ID); return code == 0 })
	eventually(t, "the other router knows", func() bool { return !ask(one, &kept)() })
}
