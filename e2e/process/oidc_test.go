package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/oidc/oidctest"
)

// Tokens of an OpenID Connect issuer open what their claims allow, on every port; a server starts
// while its issuer is away.
func TestOpenIDConnect(t *testing.T) {
	t.Parallel()
	k := oidctest.NewKey(t, "ES256", "k")
	issuer := oidctest.New(t, k)
	users := writeText(t, fmt.Sprintf(`
users: [{name: datagrams}]
oidc:
  - name: corp
    issuer: %s
    audiences: [tickmesh]
    rights: [{claim: groups, value: writers, databases: {a: write, default: write}}]
`, issuer.URL))
	issuer.SetDown(true)
	s := startServer(t, t.TempDir(), "--auth-file", users, "--udp-user", "datagrams")
	token := func(more map[string]any) string { return k.Sign(t, issuer.Claims("tickmesh", time.Now(), more), nil) }
	writer := token(map[string]any{"groups": []string{"writers"}, "more": strings.Repeat("x", 3000)})
	s.waitLog("the keys of an OpenID Connect issuer cannot be fetched", nil)
	if status, body := s.as(writer, "POST", "/write?db=a", "m value=1"); status != http.StatusUnauthorized {
		t.Errorf("while the issuer is away: %d %s", status, body)
	}
	issuer.SetDown(false)
	eventually(t, "the keys are fetched", func() bool {
		status, _ := s.as(writer, "POST", "/write?db=a", "m value=1")
		return status == http.StatusNoContent
	})
	for what, c := range map[string]struct {
		token, target string
		status        int
	}{
		"the other database":    {writer, "/write?db=b", http.StatusForbidden},
		"no rule fits":          {token(map[string]any{"groups": "others"}), "/write?db=a", http.StatusUnauthorized},
		"expired":               {token(map[string]any{"groups": "writers", "exp": time.Now().Add(-time.Hour).Unix()}), "/write?db=a", http.StatusUnauthorized},
		"for somebody else":     {token(map[string]any{"groups": "writers", "aud": "other"}), "/write?db=a", http.StatusUnauthorized},
		"forged":                {oidctest.NewKey(t, "ES256", "k").Sign(t, issuer.Claims("tickmesh", time.Now(), map[string]any{"groups": "writers"}), nil), "/write?db=a", http.StatusUnauthorized},
		"a user of the file":    {"datagrams", "/write?db=a", http.StatusUnauthorized},
		"a name without a sign": {"oidc:corp/ann", "/write?db=a", http.StatusUnauthorized},
	} {
		if status, body := s.as(c.token, "POST", c.target, "m value=1"); status != c.status {
			t.Errorf("%s: %d %s, want %d", what, status, body, c.status)
		}
	}
	if status, body := s.as(writer, "GET", "/metrics", ""); status != 200 || !strings.Contains(body, `tickmesh_oidc_keys{issuer="`+issuer.URL+`"} 1`) {
		t.Errorf("%d, no metric of the issuer", status)
	}
	s.checkIssuerOverGRPC(writer, token(map[string]any{"groups": "others"}))
	c, err := net.Dial("tcp", s.addr["put"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitMax))
	fmt.Fprint(c, "auth token "+writer+"\nput m 1700000000 1 a=b\nversion\nexit\n")
	if out, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(out), "AUTH_SUCCESS\ntickmesh") {
		t.Errorf("over TCP: %q, %v", out, err)
	}
}

// checkIssuerOverGRPC calls a method by a token that is known and by one that is not.
func (s *testServer) checkIssuerOverGRPC(known, unknown string) {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addr["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitMax)
	defer cancel()
	if names := s.reflectedServices(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+known), conn); len(names) == 0 {
		s.t.Error("gRPC: nothing for a known token")
	}
	stream, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+unknown),
		&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
	if err == nil {
		err = stream.RecvMsg(nil)
	}
	if status.Code(err) != codes.Unauthenticated {
		s.t.Errorf("gRPC: %v", err)
	}
}
