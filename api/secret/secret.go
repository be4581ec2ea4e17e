package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
)

// Prefix marks secrets for people, and for programs that look for them.
const Prefix = "tickmesh_"

// randomBytes make guessing hopeless, so that a fast hash of a secret is enough.
const randomBytes = 32

// RandomDigits is the length of the part of a secret that is drawn: base64url without padding.
const RandomDigits = (randomBytes*8 + 5) / 6

// New draws a secret. It begins with Prefix and whatever is to be read in it, such as an id.
func New(readable string) string {
	var random [randomBytes]byte
	_, _ = rand.Read(random[:]) // it never fails: see its documentation
	return Prefix + readable + base64.RawURLEncoding.EncodeToString(random[:])
}

// Digest is the SHA-256 of a secret, which opens nothing: what files and records have of it.
type Digest [sha256.Size]byte

// DigestDigits is the length of a Digest as text.
const DigestDigits = 2 * sha256.Size

// DigestOf returns the digest of a secret.
func DigestOf[T []byte | string](secret T) Digest { return sha256.Sum256([]byte(secret)) }

// ParseDigest reads a digest from its hexadecimal digits, and reports whether there are as many
// as it has.
func ParseDigest(text string) (d Digest, ok bool) {
	if len(text) != DigestDigits {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(text))
	return d, err == nil
}

// String returns the digest as hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Equals compares in constant time.
func (d *Digest) Equals(other *Digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }
