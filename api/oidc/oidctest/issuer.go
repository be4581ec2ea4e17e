// Package oidctest has an OpenID Connect issuer on the loopback for tests. It signs with the
// standard library alone, so that it shares no code with what verifies.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha512" // ES384
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Key signs tokens.
type Key struct {
	ID        string
	Algorithm string
	private   crypto.Signer
}

// NewKey returns a key for one of RS256, PS256, ES256, ES384 and EdDSA.
func NewKey(t testing.TB, algorithm, id string) *Key {
	t.Helper()
	k := &Key{ID: id, Algorithm: algorithm}
	var err error
	switch algorithm {
	case "RS256", "PS256":
		const bits = 2048
		k.private, err = rsa.GenerateKey(rand.Reader, bits)
	case "ES256":
		k.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, k.private, err = ed25519.GenerateKey(rand.Reader)
	default:
		t.Fatalf("no algorithm %q", algorithm)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Public returns the public half.
func (k *Key) Public() crypto.PublicKey { return k.private.Public() }

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// JWK returns the public half as RFC 7517 has it.
func (k *Key) JWK() map[string]any {
	jwk := map[string]any{"kid": k.ID, "use": "sig"}
	switch p := k.private.Public().(type) {
	case *rsa.PublicKey:
		jwk["kty"], jwk["n"], jwk["e"] = "RSA", encode(p.N.Bytes()), "AQAB"
	case *ecdsa.PublicKey:
		point, _ := p.Bytes()
		half := (len(point) - 1) / 2
		jwk["kty"], jwk["crv"], jwk["x"], jwk["y"] = "EC", p.Params().Name, encode(point[1:1+half]), encode(point[1+half:])
	case ed25519.PublicKey:
		jwk["kty"], jwk["crv"], jwk["x"] = "OKP", "Ed25519", encode(p)
	}
	return jwk
}

// Sign returns a token. Header members are added to alg, kid and typ, or replace them; nil takes
// one away.
func (k *Key) Sign(t testing.TB, claims, header map[string]any) string {
	t.Helper()
	all := map[string]any{"alg": k.Algorithm, "kid": k.ID, "typ": "JWT"}
	for name, value := range header {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return k.SignText(t, text(t, all), text(t, claims))
}

func text(t testing.TB, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// SignText returns a token of a header and claims as they are written.
func (k *Key) SignText(t testing.TB, header, claims string) string {
	t.Helper()
	signed := encode([]byte(header)) + "." + encode([]byte(claims))
	hash := crypto.SHA256
	switch k.Algorithm {
	case "ES384":
		hash = crypto.SHA384
	case "EdDSA":
		hash = crypto.Hash(0)
	}
	digest := []byte(signed)
	if hash != 0 {
		h := hash.New()
		h.Write(digest)
		digest = h.Sum(nil)
	}
	var signature []byte
	var err error
	switch private := k.private.(type) {
	case *ecdsa.PrivateKey:
		const bitsPerByte = 8
		size := private.Params().BitSize / bitsPerByte
		r, s, problem := ecdsa.Sign(rand.Reader, private, digest)
		if err = problem; err == nil {
			signature = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
		}
	default:
		var options crypto.SignerOpts = hash
		if k.Algorithm == "PS256" {
			options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		signature, err = private.Sign(rand.Reader, digest, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

// Issuer is an issuer whose answers a test chooses.
type Issuer struct {
	URL string

	mu        sync.Mutex
	discovery string // empty: the right one
	keys      string
	down      bool
	asked     int
}

// New starts an issuer on the loopback, with some keys.
func New(t testing.TB, keys ...*Key) *Issuer {
	t.Helper()
	i := &Issuer{}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.SetKeys(t, keys...)
	return i
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down:
		http.Error(w, "away", http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		document := i.discovery
		if document == "" {
			document = `{"issuer": "` + i.URL + `", "jwks_uri": "` + i.URL + `/keys"}`
		}
		_, _ = w.Write([]byte(document))
	case r.URL.Path == "/keys":
		i.asked++
		_, _ = w.Write([]byte(i.keys))
	case r.URL.Path == "/moved":
		http.Redirect(w, r, "/keys", http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

// SetKeys replaces the key set.
func (i *Issuer) SetKeys(t testing.TB, keys ...*Key) {
	t.Helper()
	all := []any{}
	for _, k := range keys {
		all = append(all, k.JWK())
	}
	i.SetKeyText(text(t, map[string]any{"keys": all}))
}

// SetKeyText replaces the text of the key set.
func (i *Issuer) SetKeyText(keys string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// SetDiscovery replaces the discovery document.
func (i *Issuer) SetDiscovery(document string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.discovery = document
}

// SetDown has the issuer answer nothing but errors.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Asked returns how often the key set was read.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// Claims returns those of a token that is valid for an hour around a time, with more added.
func (i *Issuer) Claims(audience string, at time.Time, more map[string]any) map[string]any {
	all := map[string]any{"iss": i.URL, "aud": audience, "sub": "ann", "iat": at.Unix(), "nbf": at.Unix(), "exp": at.Add(time.Hour).Unix()}
	for name, value := range more {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}
