package archive

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	"filippo.io/age"
)

// Files of keys are taken or refused as such, and one that is taken works.
func FuzzKeys(f *testing.F) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "# a comment\n" + identity.Recipient().String() + "\n", identity.String(), "age1", "AGE-SECRET-KEY-1", string(pemOf(f, private)), string(pemOf(f, private.Public())), "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var k Keys
		for _, err := range []error{k.EncryptTo(text), k.DecryptWith(text), k.SignWith([]byte(text)), k.Trust([]byte(text))} {
			if err != nil && !errors.Is(err, ErrKeys) {
				t.Fatal(err)
			}
		}
		content := []byte("long enough to be no part of a ciphertext by chance")
		if sealed, err := k.seal(content); err != nil || k.Encrypts() && bytes.Contains(sealed, content) {
			t.Fatalf("%q: sealed as %q, %v", text, sealed, err)
		}
		if len(k.trusted) > 0 && k.verify([]byte(text), make([]byte, ed25519.SignatureSize)) == nil {
			t.Fatal("a signature of zeros is taken")
		}
	})
}

// What was not encrypted and signed by who has the keys is neither opened nor trusted.
func FuzzSealed(f *testing.F) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	k := Keys{recipients: []age.Recipient{identity.Recipient()}, identities: []age.Identity{identity}, trusted: []ed25519.PublicKey{public}}
	content := []byte("content of a backup")
	sealed, err := k.seal(content)
	if err != nil {
		f.Fatal(err)
	}
	signature := ed25519.Sign(private, signedBytes(content))
	f.Add(sealed, content, signature)
	f.Add(sealed[:len(sealed)-1], content[1:], signature[1:])
	f.Add([]byte(ageHeader+"-> scrypt AAAA 30\nAAAA\n--- AAAA\n"), []byte{}, []byte{})
	f.Add([]byte(ageHeader+"-> X25519 AAAA\nAAAA\n--- AAAA\n"), signedBytes(nil), make([]byte, ed25519.SignatureSize))
	f.Fuzz(func(t *testing.T, sealed, text, given []byte) {
		switch opened, err := k.open(sealed); {
		case err == nil && !bytes.Equal(opened, content):
			t.Fatalf("%q is opened as %q", sealed, opened)
		case err != nil && !errors.Is(err, ErrEncrypted) && !errors.Is(err, ErrDamaged):
			t.Fatal(err)
		}
		if genuine := bytes.Equal(text, content) && bytes.Equal(given, signature); (k.verify(text, given) == nil) != genuine {
			t.Fatalf("%q with the signature %x: genuine %v", text, given, genuine)
		}
	})
}

// pemOf encodes a key as openssl does.
func pemOf(f *testing.F, key any) []byte {
	f.Helper()
	kind, der, err := "PRIVATE KEY", []byte(nil), error(nil)
	if _, public := key.(ed25519.PublicKey); public {
		kind = "PUBLIC KEY"
		der, err = x509.MarshalPKIXPublicKey(key)
	} else {
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		f.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
