package archive

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
)

// Errors of keys, for errors.Is.
var (
	// ErrKeys: a key cannot be read.
	ErrKeys = errors.New("invalid key")
	// ErrEncrypted: none of the identities decrypts an object; the text names it.
	ErrEncrypted = errors.New("encrypted for others")
	// ErrSignature: a manifest is not signed by one of the keys that are trusted; the text
	// names it.
	ErrSignature = errors.New("not signed by a trusted key")
)

// Keys encrypt and sign what is written, and decrypt and verify what is read. The zero
// value does neither. Objects are named by the SHA-256 of their stored bytes, encrypted
// ones too; the index lists all of them, the manifest has the index's, and the signature
// is over the manifest. So it covers every byte of a backup.
type Keys struct {
	recipients []age.Recipient
	// marks tell sets of recipients apart, in order; none: nothing is encrypted.
	marks      []string
	identities []age.Identity
	sign       ed25519.PrivateKey
	trusted    []ed25519.PublicKey // none: signatures are not looked at
}

// EncryptTo adds recipients of age, one on a line: only who has an identity of one of
// them can read what is written. Errors: ErrKeys.
func (k *Keys) EncryptTo(text string) error {
	list, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	for _, r := range list {
		named, ok := r.(fmt.Stringer)
		if !ok {
			return fmt.Errorf("%w: a recipient of an unknown kind", ErrKeys)
		}
		sum := sha256.Sum256([]byte(named.String()))
		if mark := hex.EncodeToString(sum[:8]); !slices.Contains(k.marks, mark) {
			k.recipients, k.marks = append(k.recipients, r), append(k.marks, mark)
		}
	}
	slices.Sort(k.marks)
	return nil
}

// DecryptWith adds identities of age, one on a line. Errors: ErrKeys.
func (k *Keys) DecryptWith(text string) error {
	list, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	k.identities = append(k.identities, list...)
	return nil
}

// Encrypts reports whether what is written is encrypted, and Decrypts whether something
// encrypted can be read.
func (k *Keys) Encrypts() bool { return len(k.recipients) > 0 }

// Decrypts reports whether there are identities.
func (k *Keys) Decrypts() bool { return len(k.identities) > 0 }

// SignWith signs manifests with an Ed25519 key in PEM (PKCS#8), and trusts it. Errors:
// ErrKeys.
func (k *Keys) SignWith(pemText []byte) error {
	block, _ := pem.Decode(pemText)
	if block == nil {
		return fmt.Errorf("%w: no PEM block; expected an Ed25519 key as of `openssl genpkey -algorithm ed25519`", ErrKeys)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return fmt.Errorf("%w: it is a %T, not an Ed25519 key", ErrKeys, parsed)
	}
	k.sign = key
	k.trusted = append(k.trusted, key.Public().(ed25519.PublicKey))
	return nil
}

// Trust reads manifests only when they are signed by one of the Ed25519 public keys in
// PEM, or of those that were trusted before. Errors: ErrKeys.
func (k *Keys) Trust(pemText []byte) error {
	found := false
	for block, rest := pem.Decode(pemText); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return fmt.Errorf("%w: it is a %T, not an Ed25519 key", ErrKeys, parsed)
		}
		k.trusted, found = append(k.trusted, key), true
	}
	if !found {
		return fmt.Errorf("%w: no PEM block; expected an Ed25519 public key as of `openssl pkey -pubout`", ErrKeys)
	}
	return nil
}

// keyed is a store with keys.
type keyed struct {
	Store
	keys Keys
}

// WithKeys returns a store whose backups are written and read with keys.
func WithKeys(s Store, k Keys) Store { return &keyed{s, k} }

// keysOf returns the keys that go with a store.
func keysOf(s Store) *Keys {
	if k, ok := s.(*keyed); ok {
		return &k.keys
	}
	return &Keys{}
}

// ageHeader begins what age has encrypted.
const ageHeader = "age-encryption.org/v1\n"

// seal returns content as it is stored.
func (k *Keys) seal(content []byte) ([]byte, error) {
	if !k.Encrypts() {
		return content, nil
	}
	var sealed bytes.Buffer
	sealed.Grow(len(content) + len(content)>>11 + 4<<10)
	w, err := age.Encrypt(&sealed, k.recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return sealed.Bytes(), nil
}

// open returns what seal was given. Errors: ErrEncrypted, ErrDamaged.
func (k *Keys) open(sealed []byte) ([]byte, error) {
	if len(k.identities) == 0 {
		return nil, fmt.Errorf("%w; give --identity", ErrEncrypted)
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), k.identities...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, fmt.Errorf("%w: no identity fits", ErrEncrypted)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var content bytes.Buffer
	content.Grow(len(sealed))
	if _, err := io.Copy(&content, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return content.Bytes(), nil
}

// signaturePrefix keeps signatures of manifests apart from others of the same key.
const signaturePrefix = "tickmesh backup manifest 3\n"

func signedBytes(text []byte) []byte { return append([]byte(signaturePrefix), text...) }

// verify checks a manifest's signature over its text without it. Errors: ErrSignature.
func (k *Keys) verify(text, signature []byte) error {
	if len(k.trusted) == 0 {
		return nil
	}
	for _, key := range k.trusted {
		if len(signature) == ed25519.SignatureSize && ed25519.Verify(key, signedBytes(text), signature) {
			return nil
		}
	}
	return ErrSignature
}
