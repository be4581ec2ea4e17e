package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Bounds of a key set.
const (
	keysMax    = 64
	sharingMax = 4 // keys that share an id: each may cost a check of the signature
	rsaBitsMin = 2048
	rsaBitsMax = 8192 // a check costs about 1 ms
)

// algorithms returns the algorithms that are taken.
func algorithms() []string {
	return slices.Concat(rsaAlgorithms(), []string{"ES256", "ES384", "ES512", "EdDSA"})
}

func rsaAlgorithms() []string { return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} }

func isAlgorithm(name string) bool { return slices.Contains(algorithms(), name) }

// thumbprint identifies a public key, whatever its id.
type thumbprint [sha256.Size]byte

// key is a public key that verifies tokens.
type key struct {
	id         string
	public     crypto.PublicKey
	algorithms []string
	print      thumbprint
}

// keySet is an issuer's keys at a time. It does not change.
type keySet struct {
	keys    []key
	fetched time.Time
}

// forToken returns the keys that may have signed a token, and whether the set has its key id. A
// token without an id needs a set in which one key alone is fit for it.
func (s *keySet) forToken(t *Token) (fit []*key, known bool) {
	for i := range s.keys {
		k := &s.keys[i]
		if t.keyID != "" && k.id != t.keyID {
			continue
		}
		known = true
		if slices.Contains(k.algorithms, t.algorithm) {
			fit = append(fit, k)
		}
	}
	if t.keyID == "" && len(fit) > 1 || len(fit) > sharingMax {
		return nil, known
	}
	return fit, known
}

func (s *keySet) has(print thumbprint) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.print == print })
}

// webKey is a JSON Web Key as RFC 7517 and 7518 have it.
type webKey struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	ID         string   `json:"kid"`
	Curve      string   `json:"crv"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	Modulus    string   `json:"n"`
	Exponent   string   `json:"e"`
}

// parseKeys reads a key set. Keys for other purposes, of other types or that are broken are left
// out, and counted.
func parseKeys(text []byte) (keys []key, leftOut int, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, 0, fmt.Errorf("no JSON: %w", err)
	}
	if set.Keys == nil || len(set.Keys) > keysMax {
		return nil, 0, fmt.Errorf("expected a list `keys` of at most %d keys", keysMax)
	}
	for _, raw := range set.Keys {
		var w webKey
		if err := json.Unmarshal(raw, &w); err != nil {
			leftOut++
			continue
		}
		k, err := w.key()
		if err != nil {
			leftOut++
			continue
		}
		keys = append(keys, k)
	}
	return keys, leftOut, nil
}

func (w *webKey) key() (k key, err error) {
	if w.Use != "" && w.Use != "sig" || w.Operations != nil && !slices.Contains(w.Operations, "verify") || len(w.ID) > keyIDBytesMax {
		return k, errors.New("not for verifying")
	}
	k.id = w.ID
	switch w.Type {
	case "RSA":
		k.algorithms = rsaAlgorithms()
		k.public, err = w.rsa()
	case "EC":
		k.public, k.algorithms, err = w.ecdsa()
	case "OKP":
		k.algorithms = []string{"EdDSA"}
		k.public, err = w.ed25519()
	default:
		err = errors.New("not a public key")
	}
	if err != nil {
		return key{}, err
	}
	if w.Algorithm != "" {
		if !slices.Contains(k.algorithms, w.Algorithm) {
			return key{}, errors.New("another algorithm")
		}
		k.algorithms = []string{w.Algorithm}
	}
	der, err := x509.MarshalPKIXPublicKey(k.public)
	if err != nil {
		return key{}, err
	}
	k.print = sha256.Sum256(der)
	return k, nil
}

func (w *webKey) rsa() (*rsa.PublicKey, error) {
	n, err := base64.RawURLEncoding.DecodeString(w.Modulus)
	if err != nil {
		return nil, err
	}
	e, err := base64.RawURLEncoding.DecodeString(w.Exponent)
	if err != nil {
		return nil, err
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	const exponentMax = 1<<31 - 1
	if bits := modulus.BitLen(); bits < rsaBitsMin || bits > rsaBitsMax || modulus.Bit(0) == 0 {
		return nil, fmt.Errorf("a modulus of %d bits", bits)
	}
	if !exponent.IsInt64() || exponent.Int64() < 3 || exponent.Int64() > exponentMax || exponent.Bit(0) == 0 {
		return nil, errors.New("a bad exponent")
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

func (w *webKey) ecdsa() (*ecdsa.PublicKey, []string, error) {
	var curve elliptic.Curve
	var algorithm string
	switch w.Curve {
	case "P-256":
		curve, algorithm = elliptic.P256(), "ES256"
	case "P-384":
		curve, algorithm = elliptic.P384(), "ES384"
	case "P-521":
		curve, algorithm = elliptic.P521(), "ES512"
	default:
		return nil, nil, errors.New("another curve")
	}
	const bitsPerByte = 8
	size := (curve.Params().BitSize + bitsPerByte - 1) / bitsPerByte
	point := []byte{4} // uncompressed
	for _, text := range []string{w.X, w.Y} {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(b) != size {
			return nil, nil, errors.New("a bad coordinate")
		}
		point = append(point, b...)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(curve, point) // it is on the curve
	return public, []string{algorithm}, err
}

func (w *webKey) ed25519() (ed25519.PublicKey, error) {
	x, err := base64.RawURLEncoding.DecodeString(w.X)
	if err != nil || w.Curve != "Ed25519" || len(x) != ed25519.PublicKeySize {
		return nil, errors.New("another curve, or a bad key")
	}
	return x, nil
}
