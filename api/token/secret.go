package token

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/tickmesh/tickmesh/api/secret"
)

// The parts of a secret.
const (
	idBytes      = 8
	idDigits     = 2 * idBytes
	secretDigits = len(secret.Prefix) + idDigits + 1 + secret.RandomDigits
)

// newSecret makes a secret and its id.
func newSecret() (text, id string) {
	var random [idBytes]byte
	_, _ = rand.Read(random[:]) // it never fails: see its documentation
	id = hex.EncodeToString(random[:])
	return secret.New(id + "_"), id
}

// ParseID returns the id in a text that has the form of a secret, and whether it has. It is
// a part of the text.
func ParseID(text []byte) (id []byte, ok bool) {
	const idAt = len(secret.Prefix)
	if len(text) != secretDigits || string(text[:idAt]) != secret.Prefix || text[idAt+idDigits] != '_' {
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
