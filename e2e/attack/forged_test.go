package attack

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/client"
)

// forgeries are headers that no user has.
func (g *ground) forgeries() []string {
	real := token(g.victim())
	digest := sha256.Sum256([]byte(real))
	segment := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	claims := segment(`{"sub":"` + userAdmin + `","iss":"x","aud":"tickmesh","exp":9999999999,"groups":["admin"],"rights":{"*":"admin"}}`)
	unsigned := segment(`{"alg":"none","typ":"JWT"}`) + "." + claims + "."
	return []string{
		"", "Bearer", "Bearer ", "Bearer x", "Bearer " + real[:len(real)-1], "Bearer " + real + "x", "Bearer " + strings.ToUpper(real), "Bearer " + real + " " + real,
		"Bearer " + hex.EncodeToString(digest[:]), "Token " + hex.EncodeToString(digest[:]), "Bearer \x00" + real, "Basic " + real,
		"Basic " + base64.StdEncoding.EncodeToString([]byte(userAdmin+":")), "Basic " + base64.StdEncoding.EncodeToString([]byte(userGood+":wrong")),
		"Basic " + base64.StdEncoding.EncodeToString([]byte(userGood+":"+passwordGood+"\x00")), "Basic " + base64.StdEncoding.EncodeToString([]byte(":"+passwordGood)),
		"Bearer " + unsigned, "Bearer " + unsigned + "AAAA", "Bearer " + segment(`{"alg":"HS256","kid":"../../dev/null"}`) + "." + claims + "." + segment("x"),
		"Bearer " + segment(`{"alg":"RS256","jku":"http://127.0.0.1:1/","x5u":"http://127.0.0.1:1/"}`) + "." + claims + "." + segment("x"),
		"Bearer tickmesh_0123456789abcdef_" + strings.Repeat("A", 43), "Token tickmesh_0123456789abcdef_" + strings.Repeat("A", 43), "Bearer tickmesh_0123456789abcdef_",
		"Bearer " + strings.Repeat("a.", 3000), "Negotiate " + real, "Bearer " + strings.Repeat("x", 7000),
	}
}

// tryForgeries shows what was made up on every port.
func (g *ground) tryForgeries(t *testing.T) {
	conn := dial(t, g.grpc, nil)
	const scan = "/tickmesh.v1.QueryService/Scan"
	method := methodOf(t, scan)
	for n, forged := range g.forgeries() {
		if !strings.ContainsRune(forged, 0) {
			a := g.call(t.Context(), attacker(n), "", http.MethodGet, "/query?q=show+databases", http.Header{"Authorization": {forged}}, "")
			g.spy.seeAnswer("forgery", "", a)
			if a.err != nil || a.status != http.StatusUnauthorized && a.status != http.StatusServiceUnavailable && a.status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%.80q over HTTP: %d %v %.200s", forged, a.status, a.err, a.body)
			}
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", forged), 5*time.Second)
			received, err := invoke(ctx, conn, scan, method, requestOf(method.Input(), g.vault(), 2))
			cancel()
			g.spy.see("forgery over gRPC", g.vault(), received)
			if err == nil || status.Code(err) == codes.PermissionDenied {
				t.Errorf("%.80q over gRPC: %v", forged, err)
			}
		}
		word := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(forged, "Bearer "), "Basic "), "\n", "")
		for _, address := range []string{g.at.Put, g.at.Line} {
			for _, line := range []string{"auth token " + word, "auth " + userAdmin + " " + word, "auth basic " + userGood + " " + word} {
				if answer := firstLine(t, address, attacker(n), line+"\n"); strings.Contains(answer, "AUTH_SUCCESS") {
					t.Errorf("%.80q at %s is taken: %s", line, address, answer)
				}
			}
		}
	}
}

// firstLine is the first line that a TCP port answers to content, behind which nothing comes: what
// it takes for unfinished it has not to wait for.
func firstLine(t *testing.T, address, from, content string) string {
	t.Helper()
	dialer := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = c.Write([]byte(content))
	_ = c.(*net.TCPConn).CloseWrite()
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// tryReplay shows a token that was good until its user was taken out of the file.
func (g *ground) tryReplay(t *testing.T) {
	ask := func() answer {
		return g.call(t.Context(), attacker(0), userGone, http.MethodGet, "/api/v1/query?db=good&query=1", nil, "")
	}
	if a := ask(); a.err != nil || a.status != http.StatusOK {
		t.Fatalf("before: %d %v %.200s", a.status, a.err, a.body)
	}
	g.writeUsers(t)
	g.eventually(t, func() error {
		if a := ask(); a.err != nil || a.status != http.StatusUnauthorized {
			return fmt.Errorf("a token that was taken back is answered %d (%v)", a.status, a.err)
		}
		return nil
	})
}

// tryMadeTokens shows a token that was made by the administrator and is revoked: first changed, then
// as it was. Nobody but the administrator may list or revoke it, and it makes no other.
func (g *ground) tryMadeTokens(t *testing.T) {
	connect := func(token string) *client.Client {
		c, err := client.New(client.Options{Endpoints: []string{g.grpc}, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ctx, cancel := context.WithTimeout(t.Context(), servedMax)
	defer cancel()
	o := client.TokenOptions{Name: "it", Rights: map[string]string{"good": "read"}, Lifetime: time.Hour}
	admin := connect(token(userAdmin))
	secret, made, err := admin.CreateToken(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(secret string) int {
		header := http.Header{"Authorization": {"Bearer " + secret}}
		return g.call(ctx, attacker(0), "", http.MethodGet, "/api/v1/query?db=good&query=1", header, "").status
	}
	if status := ask(secret); status != http.StatusOK {
		t.Fatalf("a token that holds: %d", status)
	}
	for _, database := range []string{g.vault(), "evil", "default"} {
		header := http.Header{"Authorization": {"Bearer " + secret}}
		a := g.call(ctx, attacker(0), "", http.MethodGet, "/api/v1/query?query=canary&db="+database, header, "")
		if g.spy.seeAnswer("made token", database, a); a.status != http.StatusForbidden {
			t.Errorf("a token without rights on %s: %d", database, a.status)
		}
	}
	for at := range len(secret) {
		changed := []byte(secret)
		if changed[at] = '7'; secret[at] == '7' {
			changed[at] = '8'
		}
		if status := ask(string(changed)); status != http.StatusUnauthorized {
			t.Errorf("changed at byte %d: %d", at, status)
		}
	}
	for who, c := range map[string]*client.Client{"other": connect(token(userOther)), "reader": connect(token(userReader)), "writer": connect(token(userWriter)), "the token": connect(secret)} {
		_, _, created := c.CreateToken(ctx, o)
		_, listed := c.ListTokens(ctx)
		_, revoked := c.RevokeToken(ctx, made.ID)
		for _, err := range []error{created, listed, revoked} {
			if !errors.Is(err, client.ErrDenied) {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	if _, err := admin.RevokeToken(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	if status := ask(secret); status != http.StatusUnauthorized {
		t.Errorf("revoked over HTTP: %d", status)
	}
	if _, err := connect(secret).Databases(ctx, client.Names{}); !errors.Is(err, client.ErrUnauthenticated) {
		t.Errorf("revoked over gRPC: %v", err)
	}
	for _, address := range []string{g.at.Put, g.at.Line, g.at.Graphite} {
		if answer := firstLine(t, address, attacker(0), "auth token "+secret+"\n"); !strings.Contains(answer, "AUTH_FAIL") {
			t.Errorf("revoked at %s: %q", address, answer)
		}
	}
}

// tryGuessing guesses passwords from many addresses; a user at another must get in.
func (g *ground) tryGuessing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			client := clientFrom(attacker(n), true)
			defer client.CloseIdleConnections()
			for i := 0; ctx.Err() == nil; i++ {
				guess := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:guess %d of %d", userGood, i, n))
				g.callBy(ctx, client, "", http.MethodGet, "http://"+g.at.HTTP+"/api/v1/query?db=good&query=1", http.Header{"Authorization": {"Basic " + guess}}, "")
			}
		})
	}
	pause(t, 500*time.Millisecond)
	known := http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(userGood+":"+passwordGood))}}
	deadline, served := time.Now().Add(servedMax), false
	for tries := 1; !served; tries++ {
		a := g.call(t.Context(), goodAddress, "", http.MethodGet, "/api/v1/query?db=good&query=1", known, "")
		served = a.status == http.StatusOK
		if a.status == http.StatusUnauthorized {
			t.Errorf("the right password is refused: %.200s", a.body)
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("a user at an address without failures is kept out by guessing from 20 others: %d times, the last %d (%v)", tries, a.status, a.err)
			break
		}
		if !served {
			if g.ended() != nil {
				break // which is told of after each phase
			}
			pause(t, 100*time.Millisecond)
		}
	}
	cancel()
	all.Wait()
}
