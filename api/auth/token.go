package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// tokenPrefix tells people, and programs that look for secrets, what it is.
const tokenPrefix = "tickmesh_"

// tokenRandomBytes make guessing hopeless, so that a fast hash of them is enough.
const tokenRandomBytes = 32

// NewToken makes a token, and its digest for a file.
func NewToken() (token, digest string) {
	random := make([]byte, tokenRandomBytes)
	_, _ = rand.Read(random) // it never fails: see its documentation
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	return token, DigestOf(token)
}

// DigestOf returns what a file has of a token: its SHA-256 in hexadecimal digits.
func DigestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
