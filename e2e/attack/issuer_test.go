package attack

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/oidc/oidctest"
)

// issuer is an OpenID Connect issuer that servers with users trust, and the key that it has.
type issuer struct {
	*oidctest.Issuer
	key *oidctest.Key
}

const issuerAudience = "tickmesh"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key := oidctest.NewKey(t, "RS256", "k1")
	return &issuer{oidctest.New(t, key), key}
}

// rules are the issuer's part of the file of users.
func (i *issuer) rules() string {
	return fmt.Sprintf("oidc:\n- name: corp\n  issuer: %s\n  audiences: [%s]\n  rights: [{claim: groups, value: good, databases: {good: read}}]\n", i.URL, issuerAudience)
}

func (i *issuer) claims(more map[string]any) map[string]any {
	all := map[string]any{"groups": []string{"good"}}
	maps.Copy(all, more)
	return i.Claims(issuerAudience, time.Now(), all)
}

// forged are tokens that the issuer has not made, or not for this server and time.
func (i *issuer) forged(t *testing.T) map[string]string {
	t.Helper()
	k, now := i.key, time.Now()
	genuine := k.Sign(t, i.claims(nil), nil)
	parts := strings.Split(genuine, ".")
	encode := base64.RawURLEncoding.EncodeToString
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := json.Marshal(k.JWK())
	if err != nil {
		t.Fatal(err)
	}
	withSecret := func(secret []byte) string {
		signed := encode([]byte(`{"alg":"HS256","kid":"k1","typ":"JWT"}`)) + "." + parts[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		return signed + "." + encode(mac.Sum(nil))
	}
	other := oidctest.NewKey(t, "RS256", "k1")
	return map[string]string{
		"expired":                        k.Sign(t, i.claims(map[string]any{"exp": now.Add(-10 * time.Minute).Unix(), "iat": now.Add(-time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix()}), nil),
		"of tomorrow":                    k.Sign(t, i.claims(map[string]any{"nbf": now.Add(24 * time.Hour).Unix()}), nil),
		"without an end":                 k.Sign(t, i.claims(map[string]any{"exp": nil}), nil),
		"for another audience":           k.Sign(t, i.claims(map[string]any{"aud": "other"}), nil),
		"for no audience":                k.Sign(t, i.claims(map[string]any{"aud": nil}), nil),
		"of another issuer":              k.Sign(t, i.claims(map[string]any{"iss": "https://evil.example"}), nil),
		"without rights":                 k.Sign(t, i.claims(map[string]any{"groups": []string{"evil"}}), nil),
		"alg none":                       encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + ".",
		"alg none with a key":            encode([]byte(`{"alg":"none","kid":"k1"}`)) + "." + parts[1] + "." + parts[2],
		"HMAC by the public key, PEM":    withSecret(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HMAC by the public key, DER":    withSecret(der),
		"HMAC by the public key, JWK":    withSecret(jwk),
		"HMAC by nothing":                withSecret(nil),
		"signed by another of its name":  other.Sign(t, i.claims(nil), nil),
		"signed by a key that it brings": other.Sign(t, i.claims(nil), map[string]any{"jwk": other.JWK(), "kid": nil}),
		"signed by a key elsewhere":      other.Sign(t, i.claims(nil), map[string]any{"jku": "http://127.0.0.1:1/keys", "kid": "elsewhere"}),
		"other claims":                   parts[0] + "." + encode([]byte(strings.Replace(string(decode(t, parts[1])), "ann", "eve", 1))) + "." + parts[2],
		"without a signature":            parts[0] + "." + parts[1] + ".",
		"cut":                            genuine[:len(genuine)-5],
	}
}

func decode(t *testing.T, part string) []byte {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// askWith asks as the holder of a token.
func (g *ground) askWith(t *testing.T, token string) answer {
	t.Helper()
	return g.call(t.Context(), attacker(0), "", http.MethodGet, "/api/v1/query?db=good&query=1", http.Header{"Authorization": {"Bearer " + token}}, "")
}

// tryIssuer shows tokens in the name of the issuer on every port, and then has it withdraw its key.
func (g *ground) tryIssuer(t *testing.T) {
	genuine := g.issuer.key.Sign(t, g.issuer.claims(nil), nil)
	g.eventually(t, func() error { return judge(g.askWith(t, genuine), http.StatusOK) })
	conn := dial(t, g.grpc, nil)
	const scan = "/tickmesh.v1.QueryService/Scan"
	method := methodOf(t, scan)
	forged := g.issuer.forged(t)
	for _, name := range slices.Sorted(maps.Keys(forged)) {
		token := forged[name]
		a := g.askWith(t, token)
		g.spy.seeAnswer("token "+name, "", a)
		if a.err != nil || a.status != http.StatusUnauthorized {
			t.Errorf("token %s over HTTP: %d %v %.200s", name, a.status, a.err, a.body)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		received, err := invoke(ctx, conn, scan, method, requestOf(method.Input(), "good", 2))
		g.spy.see("token "+name+" over gRPC", "", received)
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("token %s over gRPC: %v", name, err)
		}
		for _, address := range []string{g.at.Put, g.at.Line} {
			if answer := firstLine(t, address, attacker(0), "auth token "+token+"\n"); strings.Contains(answer, "AUTH_SUCCESS") {
				t.Errorf("token %s at %s is taken: %s", name, address, answer)
			}
		}
	}
	if a := g.askWith(t, genuine); a.status != http.StatusOK {
		t.Errorf("after the forgeries the genuine token is answered %d %v", a.status, a.err)
	}
	g.replayed = genuine
	g.issuer.key = oidctest.NewKey(t, "RS256", "k2")
	g.issuer.SetKeys(t, g.issuer.key)
}

// tryWithdrawnKey replays a token whose key the issuer has withdrawn: once the server has seen the
// next key, for which it asks at a bounded rate, the old one opens nothing.
func (g *ground) tryWithdrawnKey(t *testing.T) {
	next := g.issuer.key.Sign(t, g.issuer.claims(nil), nil)
	g.eventually(t, func() error {
		if a := g.askWith(t, next); a.err != nil || a.status != http.StatusOK {
			return fmt.Errorf("a token of the next key is answered %d (%v)", a.status, a.err)
		}
		return nil
	})
	if a := g.askWith(t, g.replayed); a.err != nil || a.status != http.StatusUnauthorized {
		t.Errorf("a token of a key that was withdrawn is answered %d (%v)", a.status, a.err)
	}
}
