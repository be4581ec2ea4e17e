package oidc

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/oidc/oidctest"
)

const audience = "tickmesh"

// world is an issuer and what follows it, with a clock of the test's.
type world struct {
	*Issuer
	remote *oidctest.Issuer
	nanos  atomic.Int64
}

func (w *world) now() time.Time          { return time.Unix(0, w.nanos.Load()) }
func (w *world) advance(d time.Duration) { w.nanos.Add(int64(d)) }

func newWorld(t *testing.T, keys ...*oidctest.Key) *world {
	t.Helper()
	w := &world{remote: oidctest.New(t, keys...)}
	w.nanos.Store(1_800_000_000e9)
	w.Issuer = NewIssuer(Options{URL: w.remote.URL, Clock: w.now})
	return w
}

// run has the issuer followed until the test ends.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func (w *world) verify(t *testing.T, token string) (*Claims, error) {
	t.Helper()
	parsed, err := Parse([]byte(token))
	if err != nil {
		return nil, err
	}
	return w.Verify(t.Context(), parsed, []string{audience})
}

func (w *world) accept(t *testing.T, what, token string) *Claims {
	t.Helper()
	c, err := w.verify(t, token)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return c
}

func (w *world) refuse(t *testing.T, what, token, reason string) {
	t.Helper()
	if c, err := w.verify(t, token); c != nil || !errors.Is(err, ErrToken) || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %v, want an error with %q", what, err, reason)
	}
}

func TestAlgorithms(t *testing.T) {
	for _, algorithm := range []string{"RS256", "PS256", "ES256", "ES384", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			k := oidctest.NewKey(t, algorithm, "k")
			w := newWorld(t, k)
			w.run(t)
			c := w.accept(t, "valid", k.Sign(t, w.remote.Claims(audience, w.now(), map[string]any{"groups": []string{"a", "b"}, "scope": "x y", "n": 1}), nil))
			if got := fmt.Sprint(c.Texts("sub"), c.Texts("groups"), c.Texts("scope"), c.Texts("n"), c.Issuer() == w.remote.URL, c.For([]string{"x", audience}), c.For([]string{"x"})); got != "[ann] [a b] [x y] [] true true false" {
				t.Error(got)
			}
			w.accept(t, "an access token without a key id", k.Sign(t, w.remote.Claims(audience, w.now(), nil), map[string]any{"typ": "at+JWT", "kid": nil}))
			forger := oidctest.NewKey(t, algorithm, "k")
			w.refuse(t, "another key", forger.Sign(t, w.remote.Claims(audience, w.now(), nil), nil), "signature is invalid")
		})
	}
}

func TestClaims(t *testing.T) {
	k := oidctest.NewKey(t, "ES256", "k")
	w := newWorld(t, k)
	w.run(t)
	at := func(d time.Duration) int64 { return w.now().Add(d).Unix() }
	for what, c := range map[string]struct {
		more   map[string]any
		reason string // empty: it is accepted
	}{
		"several audiences":        {map[string]any{"aud": []string{"x", audience}}, ""},
		"expired within the skew":  {map[string]any{"exp": at(-30 * time.Second)}, ""},
		"early within the skew":    {map[string]any{"nbf": at(30 * time.Second), "iat": at(30 * time.Second)}, ""},
		"without nbf and iat":      {map[string]any{"nbf": nil, "iat": nil}, ""},
		"expired":                  {map[string]any{"exp": at(-2 * time.Minute)}, "expired"},
		"without an expiry":        {map[string]any{"exp": nil}, "required claim"},
		"an expiry that is text":   {map[string]any{"exp": "never"}, "malformed"},
		"an expiry without end":    {map[string]any{"exp": 1e300}, ""},
		"not valid yet":            {map[string]any{"nbf": at(2 * time.Minute)}, "not valid yet"},
		"issued in the future":     {map[string]any{"iat": at(2 * time.Minute)}, "before issued"},
		"another audience":         {map[string]any{"aud": "other"}, "audience"},
		"part of the audience":     {map[string]any{"aud": audience + "2"}, "audience"},
		"no audience":              {map[string]any{"aud": nil}, "required claim"},
		"an audience of a number":  {map[string]any{"aud": 7}, "required claim"},
		"another issuer":           {map[string]any{"iss": "https://evil.example"}, "another issuer"},
		"a longer issuer":          {map[string]any{"iss": w.remote.URL + "/"}, "another issuer"},
		"no issuer":                {map[string]any{"iss": nil}, "no issuer"},
		"an issuer that is a list": {map[string]any{"iss": []string{w.remote.URL}}, "no issuer"},
	} {
		token := k.Sign(t, w.remote.Claims(audience, w.now(), c.more), nil)
		switch {
		case what == "an expiry without end":
			if _, err := w.verify(t, token); !errors.Is(err, ErrToken) {
				t.Errorf("%s: %v", what, err)
			}
		case c.reason == "":
			w.accept(t, what, token)
		default:
			w.refuse(t, what, token, c.reason)
		}
	}
	c := w.accept(t, "valid", k.Sign(t, w.remote.Claims(audience, w.now(), nil), nil))
	w.advance(time.Hour + clockSkew - time.Second)
	if !c.Valid() {
		t.Error("not valid before its end")
	}
	w.advance(2 * time.Second)
	if c.Valid() {
		t.Error("valid after its end")
	}
}

// Tokens that are forged, or lead a careless reader astray.
func TestForgedTokens(t *testing.T) {
	k := oidctest.NewKey(t, "RS256", "k")
	ec := oidctest.NewKey(t, "ES256", "ec")
	w := newWorld(t, k, ec)
	w.run(t)
	claims := w.remote.Claims(audience, w.now(), nil)
	valid := k.Sign(t, claims, nil)
	w.accept(t, "valid", valid)
	part := strings.Split(valid, ".")
	encode := base64.RawURLEncoding.EncodeToString
	with := func(header string) string { return encode([]byte(header)) + "." + part[1] }

	for _, name := range []string{"none", "None", "NONE", "", "HS384", "RS1", "rs256"} {
		w.refuse(t, "alg "+name, with(`{"alg":"`+name+`","kid":"k"}`)+".", "algorithm")
		w.refuse(t, "signed, alg "+name, with(`{"alg":"`+name+`","kid":"k"}`)+"."+part[2], "algorithm")
	}
	// HS256 whose secret is the public key, as text and as bytes.
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	jwk, _ := json.Marshal(k.JWK())
	for _, secret := range [][]byte{der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), jwk} {
		signed := with(`{"alg":"HS256","kid":"k"}`)
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(signed))
		w.refuse(t, "HS256 by the public key", signed+"."+encode(m.Sum(nil)), "algorithm")
	}
	other, _ := json.Marshal(w.remote.Claims(audience, w.now(), map[string]any{"sub": "admin"}))
	for what, token := range map[string]string{
		"changed claims":         part[0] + "." + encode(other) + "." + part[2],
		"no signature":           part[0] + "." + part[1] + ".",
		"cut signature":          valid[:len(valid)-8],
		"another's signature":    part[0] + "." + part[1] + "." + strings.Split(k.Sign(t, w.remote.Claims(audience, w.now(), map[string]any{"sub": "bob"}), nil), ".")[2],
		"a fourth part":          valid + ".x",
		"two parts":              part[0] + "." + part[1],
		"padding":                part[0] + "==." + part[1] + "." + part[2],
		"a line feed":            valid[:9] + "\n" + valid[9:],
		"a line feed at the end": valid + "\n",
		"key of another type":    with(`{"alg":"ES256","kid":"k"}`) + "." + part[2],
		"PSS for PKCS #1":        with(`{"alg":"PS256","kid":"k"}`) + "." + part[2],
		"an EC key for RSA":      with(`{"alg":"RS256","kid":"ec"}`) + "." + part[2],
		"a logout token":         k.Sign(t, claims, map[string]any{"typ": "logout+jwt"}),
		"an encrypted type":      k.Sign(t, claims, map[string]any{"typ": "JWE"}),
		"crit":                   k.Sign(t, claims, map[string]any{"crit": []string{"exp"}}),
		"unencoded":              k.Sign(t, claims, map[string]any{"b64": false}),
		"alg twice":              k.SignText(t, `{"alg":"none","alg":"RS256","kid":"k"}`, `{}`),
		"kid of a number":        k.Sign(t, claims, map[string]any{"kid": 1}),
		"a long kid":             k.Sign(t, claims, map[string]any{"kid": strings.Repeat("k", 300)}),
		"claims twice":           k.SignText(t, `{"alg":"RS256","kid":"k"}`, strings.TrimSuffix(string(other), "}")+`,"sub":"root"}`),
		"claims behind claims":   k.SignText(t, `{"alg":"RS256","kid":"k"}`, string(other)+`{}`),
		"claims of a list":       k.SignText(t, `{"alg":"RS256","kid":"k"}`, `["iss"]`),
		"deep claims":            k.SignText(t, `{"alg":"RS256","kid":"k"}`, strings.Repeat(`[`, 5000)),
		"a long token":           k.Sign(t, w.remote.Claims(audience, w.now(), map[string]any{"x": strings.Repeat("x", TokenBytesMax)}), nil),
		"nothing":                "", "dots": "..", "more dots": strings.Repeat(".", 1000), "no base64": "?.?.?",
	} {
		w.refuse(t, what, token, "")
	}
	// Keys that the token brings along are not looked at.
	evil := oidctest.NewKey(t, "RS256", "k")
	away := oidctest.New(t, evil)
	w.refuse(t, "jku and jwk", evil.Sign(t, claims, map[string]any{"jku": away.URL + "/keys", "jwk": evil.JWK(), "x5u": away.URL}), "signature is invalid")
	if away.Asked() != 0 {
		t.Error("a URL of the token was asked")
	}
}

// Key ids are compared as they are, and unknown ones cause one fetch in each interval at most.
func TestRotatedKeys(t *testing.T) {
	first, second := oidctest.NewKey(t, "ES256", "1"), oidctest.NewKey(t, "ES256", "2")
	w := newWorld(t, first)
	w.run(t)
	old := first.Sign(t, w.remote.Claims(audience, w.now(), nil), nil)
	kept := w.accept(t, "the first key", old)
	if n := w.remote.Asked(); n != 1 {
		t.Fatalf("%d fetches", n)
	}
	w.remote.SetKeys(t, second)
	rotated := second.Sign(t, w.remote.Claims(audience, w.now(), nil), nil)
	w.refuse(t, "within the interval", rotated, "no key of its key id")
	w.advance(RefreshInterval)
	w.accept(t, "the rotated key", rotated)
	w.refuse(t, "a withdrawn key", old, "no key")
	if kept.Valid() {
		t.Error("a token of a withdrawn key stays valid")
	}
	if n := w.remote.Asked(); n != 2 {
		t.Fatalf("%d fetches", n)
	}
	for round := range 3 {
		w.advance(RefreshInterval)
		for _, id := range []string{"../../etc/passwd", "/dev/null", "2\x00", "' OR 1=1", w.remote.URL, " 2", "２", "3"} {
			w.refuse(t, id, second.Sign(t, w.remote.Claims(audience, w.now(), nil), map[string]any{"kid": id}), "no key of its key id")
		}
		if n := w.remote.Asked(); n != 3+round {
			t.Fatalf("round %d: %d fetches", round, n)
		}
	}
}

// Keys with one id are each tried; without an id one key alone may be fit.
func TestSharedKeyIDs(t *testing.T) {
	a, b, rsa := oidctest.NewKey(t, "ES256", "k"), oidctest.NewKey(t, "ES256", "k"), oidctest.NewKey(t, "RS256", "k")
	w := newWorld(t, a, b, rsa)
	w.run(t)
	for _, k := range []*oidctest.Key{a, b, rsa} {
		w.accept(t, "a shared id", k.Sign(t, w.remote.Claims(audience, w.now(), nil), nil))
	}
	claims := w.remote.Claims(audience, w.now(), nil)
	w.refuse(t, "which of two", a.Sign(t, claims, map[string]any{"kid": nil}), "no key")
	w.accept(t, "the only one of its type", rsa.Sign(t, claims, map[string]any{"kid": nil}))
	w.refuse(t, "none of them", oidctest.NewKey(t, "ES256", "k").Sign(t, claims, nil), "signature is invalid")
}

func TestIssuerAway(t *testing.T) {
	k := oidctest.NewKey(t, "EdDSA", "k")
	w := newWorld(t, k)
	w.remote.SetDown(true)
	w.run(t)
	sign := func() string { return k.Sign(t, w.remote.Claims(audience, w.now(), nil), nil) }
	w.refuse(t, "away at the start", sign(), "does not answer")
	w.refuse(t, "at once", sign(), "does not answer")
	if _, failed := w.Fetches(); failed != 1 || w.Keys() != 0 {
		t.Errorf("%d failures, %d keys", failed, w.Keys())
	}
	w.remote.SetDown(false)
	w.advance(RefreshInterval)
	w.accept(t, "it is back", sign())
	w.remote.SetDown(true)
	w.advance(KeysAgeMax)
	kept := w.accept(t, "keys are kept", sign())
	w.advance(time.Second)
	w.refuse(t, "for a bounded time", sign(), "does not answer")
	if kept.Valid() {
		t.Error("a token outlives the keys")
	}
	w.remote.SetDown(false)
	w.advance(RefreshInterval)
	w.accept(t, "back again", sign())
	w.Retire()
	if kept.Valid() {
		t.Error("the issuer is gone")
	}
}

// What a careless or hostile issuer answers fails the fetch, or leaves a key out.
func TestAnswers(t *testing.T) {
	k := oidctest.NewKey(t, "ES256", "k")
	remote := oidctest.New(t, k)
	fetch := func() (int, int, error) {
		keys, leftOut, err := fetchKeys(t.Context(), newHTTPClient(), remote.URL)
		return len(keys), leftOut, err
	}
	for document, reason := range map[string]string{
		`{`: "no JSON",
		`{"issuer": "https://evil.example", "jwks_uri": "` + remote.URL + `/keys"}`:            "is of the issuer",
		`{"issuer": "` + remote.URL + `", "jwks_uri": "http://192.0.2.1/keys"}`:                "no https URL",
		`{"issuer": "` + remote.URL + `", "jwks_uri": "file:///etc/passwd"}`:                   "no https URL",
		`{"issuer": "` + remote.URL + `", "jwks_uri": "/keys"}`:                                "no https URL",
		`{"issuer": "` + remote.URL + `"}`:                                                     "no https URL",
		`{"issuer": "` + remote.URL + `", "jwks_uri": "` + remote.URL + `/moved"}`:             "redirects are not followed",
		`{"issuer": "` + remote.URL + `", "jwks_uri": "` + remote.URL + `/nothing"}`:           "404",
		`{"issuer": "` + remote.URL + `", "x": "` + strings.Repeat("x", answerBytesMax) + `"}`: "is longer than",
	} {
		remote.SetDiscovery(document)
		if _, _, err := fetch(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.100s: %v, want %q", document, err, reason)
		}
	}
	remote.SetDiscovery("")
	good, _ := json.Marshal(k.JWK())
	for text, want := range map[string]string{
		`{}`: "0 0 false", `[]`: "0 0 false", `{"keys": []}`: "0 0 true",
		`{"keys": [` + strings.Repeat(string(good)+",", keysMax) + string(good) + `]}`:                                       "0 0 false",
		`{"keys": [` + string(good) + `, 7, null, {}, {"kty": "oct", "k": "AAAA"}]}`:                                         "1 4 true",
		`{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}`:          "0 2 true",
		`{"keys": [` + strings.Replace(string(good), `"sig"`, `"enc"`, 1) + `]}`:                                             "0 1 true",
		`{"keys": [` + strings.Replace(string(good), `"kid"`, `"alg":"HS256","kid"`, 1) + `]}`:                               "0 1 true",
		`{"keys": [{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}]}`: "0 1 true",
	} {
		remote.SetKeyText(text)
		keys, leftOut, err := fetch()
		if got := fmt.Sprint(keys, leftOut, err == nil); got != want {
			t.Errorf("%.200s: %s, want %s (%v)", text, got, want, err)
		}
	}
}

func TestValidateURL(t *testing.T) {
	for url, good := range map[string]bool{
		"https://accounts.example.com": true, "https://example.com/realms/a": true, "http://127.0.0.1:8080": true, "http://localhost/x": true, "http://[::1]": true,
		"http://example.com": false, "http://127.0.0.1.evil.example": false, "http://localhost.evil.example": false, "https://u:p@example.com": false,
		"https://example.com?x": false, "https://example.com#x": false, "https://": false, "file:///x": false, "": false, "https://" + strings.Repeat("x", 600): false,
	} {
		if err := ValidateURL(url); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
	if c := newHTTPClient(); c.CheckRedirect(nil, nil) != http.ErrUseLastResponse { //nolint:errorlint // as net/http compares it
		t.Error("redirects are followed")
	}
}

// Whatever is sent without a signature of the issuer is refused, and what is decoded keeps to its bounds.
func FuzzToken(f *testing.F) {
	k := oidctest.NewKey(f, "ES256", "k")
	encode := base64.RawURLEncoding.EncodeToString
	jwk, _ := json.Marshal(map[string]any{"keys": []any{k.JWK()}})
	keys, _, err := parseKeys(jwk)
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	i := NewIssuer(Options{URL: "https://i", Clock: func() time.Time { return now }})
	i.keys.Store(&keySet{keys: keys, fetched: now})
	i.endRound() // so that nothing waits for Run
	claims := `{"iss":"https://i","aud":"a","exp":1800000600}`
	f.Add(`{"alg":"ES256","kid":"k"}`, claims, make([]byte, 64))
	f.Add(`{"alg":"none"}`, claims, []byte{})
	f.Add(`{"alg":"ES256","kid":"k","crit":[]}`, `{"iss":"https://i","iss":"x"}`, []byte{1})
	f.Add(`{"alg":"HS256"}`, `{"exp":1e999}`, []byte("x"))
	f.Fuzz(func(t *testing.T, header, claims string, signature []byte) {
		for _, text := range []string{encode([]byte(header)) + "." + encode([]byte(claims)) + "." + encode(signature), header + "." + claims} {
			token, err := Parse([]byte(text))
			if err != nil {
				if token != nil || !errors.Is(err, ErrToken) {
					t.Fatalf("%v, %v", token, err)
				}
				continue
			}
			if token.issuer == "" || !isAlgorithm(token.algorithm) || strings.HasPrefix(token.algorithm, "HS") || len(token.keyID) > keyIDBytesMax || len(token.raw) > TokenBytesMax {
				t.Fatalf("%+v", token)
			}
			if c, err := i.Verify(t.Context(), token, []string{"a"}); c != nil || !errors.Is(err, ErrToken) {
				t.Fatalf("%q is taken: %v", text, err)
			}
		}
	})
}

// FuzzKeys reads key sets.
func FuzzKeys(f *testing.F) {
	for _, algorithm := range []string{"RS256", "ES256", "EdDSA"} {
		jwk, _ := json.Marshal(map[string]any{"keys": []any{oidctest.NewKey(f, algorithm, "k").JWK()}})
		f.Add(jwk)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, _, err := parseKeys(text)
		if err != nil && keys != nil || len(keys) > keysMax {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if len(k.algorithms) == 0 || k.print == (thumbprint{}) {
				t.Fatalf("%+v", k)
			}
		}
	})
}

// roundTrip answers requests without a network.
type roundTrip func(*http.Request) *http.Response

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request), nil }

// FuzzDiscovery: whatever an issuer answers, no key set of another issuer is taken, and none is
// asked for without TLS.
func FuzzDiscovery(f *testing.F) {
	k := oidctest.NewKey(f, "ES256", "k")
	keys, err := json.Marshal(map[string]any{"keys": []any{k.JWK()}})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		`{"issuer":"https://i","jwks_uri":"https://i/keys"}`, `{"issuer":"https://i","jwks_uri":"http://i/keys"}`, `{"issuer":"https://i","jwks_uri":"HTTPS://i"}`,
		`{"issuer":"https://j","jwks_uri":"https://i/keys"}`, `{"issuer":"https://i","jwks_uri":"https:///x"}`, `{"issuer":"https://i","jwks_uri":"https://%zz"}`, `{`, `null`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		client := &http.Client{Transport: roundTrip(func(r *http.Request) *http.Response {
			if r.URL.Scheme != "https" {
				t.Fatalf("%q: asked is %s", text, r.URL)
			}
			body := keys
			if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
				body = text
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}
		})}
		found, _, err := fetchKeys(t.Context(), client, "https://i")
		var about struct {
			Issuer string `json:"issuer"`
		}
		if err == nil && (len(found) != 1 || json.Unmarshal(text, &about) != nil || about.Issuer != "https://i") {
			t.Fatalf("%q: %d keys are taken", text, len(found))
		}
	})
}
