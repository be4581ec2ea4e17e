package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
)

// The parts of a secret.
const (
	secretPrefix = "tickmesh_"
	idBytes      = 8
	idDigits     = 2 * idBytes
	randomBytes  = 32
	randomDigits = (randomBytes*8 + 5) / 6 // base64url without padding
	secretDigits = len(secretPrefix) + idDigits + 1 + randomDigits
)

// Digest is the SHA-256 of a secret.
type Digest [sha256.Size]byte

// newSecret makes a secret and its id.
func newSecret() (secret, id string) {
	var random [idBytes + randomBytes]byte
	_, _ = rand.Read(random[:]) // it never fails: see its documentation
	id = hex.EncodeToString(random[:idBytes])
	return secretPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(random[idBytes:]), id
}

// ParseID returns the id in a text that has the form of a secret, and whether it has. It is
// a part of the text.
func ParseID(text []byte) (id []byte, ok bool) {
	const idAt = len(secretPrefix)
	if len(text) != secretDigits || string(text[:idAt]) != secretPrefix || text[idAt+idDigits] != '_' {
		return nil, false
	}
	for _, c := range text[idAt+idDigits+1:] {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return nil, false
		}
	}
	id = text[idAt : idAt+idDigits]
	return id, isID(string(id))
}

// isID reports whether a text is an id.
func isID(text string) bool {
	if len(text) != idDigits {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// equals compares in constant time.
func (d *Digest) equals(other *Digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

// digestOf returns the digest of a secret.
func digestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }
