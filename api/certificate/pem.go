package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
	pemKeyEC       = "EC PRIVATE KEY" // as cert-manager and openssl write it
)

// ErrPEM marks text that is not the PEM that is expected.
var ErrPEM = errors.New("not the PEM that is expected")

// bundleMax bounds the certificates of a bundle.
const bundleMax = 16

// EncodeCertificates returns certificates as PEM.
func EncodeCertificates(certificates ...*x509.Certificate) []byte {
	var text bytes.Buffer
	for _, c := range certificates {
		_ = pem.Encode(&text, &pem.Block{Type: pemCertificate, Bytes: c.Raw}) // a buffer takes it
	}
	return text.Bytes()
}

// EncodeKey returns a key as PEM. Errors: a key that cannot be encoded.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// DecodeKey reads an ECDSA key. Errors: ErrPEM.
func DecodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%w: no key", ErrPEM)
	}
	if block.Type == pemKeyEC {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPEM, err)
		}
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPEM, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: expected an ECDSA key", ErrPEM)
	}
	return key, nil
}

// DecodeCertificates reads certificates: at least one, at most 16. Errors: ErrPEM.
func DecodeCertificates(text []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != pemCertificate {
			return nil, fmt.Errorf("%w: %s instead of a certificate", ErrPEM, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPEM, err)
		}
		if all = append(all, c); len(all) > bundleMax {
			return nil, fmt.Errorf("%w: more than %d certificates", ErrPEM, bundleMax)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no certificate", ErrPEM)
	}
	return all, nil
}

// DecodePair reads a certificate, the first of its text, and its key; an empty key is one
// that is lost. Errors: ErrPEM.
func DecodePair(certificate, key []byte) (*Pair, error) {
	chain, err := DecodeCertificates(certificate)
	if err != nil {
		return nil, err
	}
	p := &Pair{Certificate: chain[0]}
	if len(key) == 0 {
		return p, nil
	}
	if p.Key, err = DecodeKey(key); err != nil {
		return nil, err
	}
	if !p.Key.PublicKey.Equal(p.Certificate.PublicKey) {
		return nil, fmt.Errorf("%w: the key is not that of the certificate", ErrPEM)
	}
	return p, nil
}
