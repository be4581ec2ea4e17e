package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of Secrets. Those of leaves have tls.crt, tls.key and ca.crt; that of the
// authority has the certificate and key of the signer under the same names, in ca.crt
// all that are trusted, and perhaps the next.
const (
	KeyAuthorities = "ca.crt"
	keyNext        = "next.crt"
	keyNextKey     = "next.key"
	keyRotation    = "rotation"
)

// AnnotationChangedAt of a leaf's Secret says when it was written.
const AnnotationChangedAt = "tickmesh.dev/changed-at"

// ErrSecret marks a Secret that cannot be read.
var ErrSecret = errors.New("not a Secret with certificates")

// bundleMax bounds the certificates of a bundle.
const bundleMax = 16

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// Write puts an authority into a Secret. Errors: a key that cannot be encoded.
func (a *Authority) Write(s *corev1.Secret) error {
	s.Data = map[string][]byte{KeyAuthorities: encode(a.Bundle()...), keyRotation: []byte(a.Rotation)}
	if err := a.Signer.put(s.Data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey); err != nil {
		return err
	}
	if a.Next != nil {
		return a.Next.put(s.Data, keyNext, keyNextKey)
	}
	return nil
}

// put adds a pair; without its key, none is added but an empty one.
func (p *Pair) put(data map[string][]byte, certificate, key string) error {
	data[certificate], data[key] = encode(p.Certificate), []byte{}
	if p.Key == nil {
		return nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return fmt.Errorf("key of %s: %w", p.Certificate.Subject.CommonName, err)
	}
	data[key] = pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der})
	return nil
}

func encode(certificates ...*x509.Certificate) []byte {
	var text bytes.Buffer
	for _, c := range certificates {
		_ = pem.Encode(&text, &pem.Block{Type: pemCertificate, Bytes: c.Raw}) // a buffer takes it
	}
	return text.Bytes()
}

// ReadAuthority reads what Write wrote. Errors: ErrSecret.
func ReadAuthority(s *corev1.Secret) (*Authority, error) {
	signer, err := pair(s.Data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	if err != nil {
		return nil, err
	}
	a := &Authority{Signer: *signer, Rotation: string(s.Data[keyRotation])}
	if !signer.Certificate.IsCA {
		return nil, fmt.Errorf("%w: %s is no authority", ErrSecret, corev1.TLSCertKey)
	}
	if len(s.Data[keyNext]) > 0 {
		if a.Next, err = pair(s.Data, keyNext, keyNextKey); err != nil {
			return nil, err
		}
		if !a.Next.Certificate.IsCA || a.Next.Key == nil {
			return nil, fmt.Errorf("%w: %s is no authority with a key", ErrSecret, keyNext)
		}
	}
	trusted, err := certificates(s.Data, KeyAuthorities)
	if err != nil {
		return nil, err
	}
	for _, c := range unique(trusted) {
		if !c.Equal(a.Signer.Certificate) && (a.Next == nil || !c.Equal(a.Next.Certificate)) {
			a.Old = append(a.Old, c)
		}
	}
	return a, nil
}

// Write puts a leaf into a Secret. Errors: a key that cannot be encoded.
func (l *Leaf) Write(s *corev1.Secret) error {
	s.Data = map[string][]byte{KeyAuthorities: encode(l.Bundle...)}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[AnnotationChangedAt] = l.ChangedAt.UTC().Format(time.RFC3339Nano)
	return l.put(s.Data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
}

// ReadLeaf reads what Write wrote, or cert-manager or a person did. Errors: ErrSecret.
func ReadLeaf(s *corev1.Secret) (*Leaf, error) {
	p, err := pair(s.Data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	if err != nil {
		return nil, err
	}
	l := &Leaf{Pair: *p}
	if l.Bundle, err = certificates(s.Data, KeyAuthorities); err != nil {
		return nil, err
	}
	if at, err := time.Parse(time.RFC3339Nano, s.Annotations[AnnotationChangedAt]); err == nil {
		l.ChangedAt = at
	}
	return l, nil
}

// NotAfter gives when the certificate of a Secret ends, whoever made it and whatever kind
// of key it has. Errors: ErrSecret.
func NotAfter(s *corev1.Secret) (time.Time, error) {
	chain, err := certificates(s.Data, corev1.TLSCertKey)
	if err != nil {
		return time.Time{}, err
	}
	return chain[0].NotAfter, nil
}

// pair reads a certificate and its key; an empty key is one that is lost.
func pair(data map[string][]byte, certificate, key string) (*Pair, error) {
	chain, err := certificates(data, certificate)
	if err != nil {
		return nil, err
	}
	p := &Pair{Certificate: chain[0]}
	if len(data[key]) == 0 {
		return p, nil
	}
	if p.Key, err = privateKey(data[key]); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSecret, key, err)
	}
	if !p.Key.PublicKey.Equal(p.Certificate.PublicKey) {
		return nil, fmt.Errorf("%w: %s is not the key of %s", ErrSecret, key, certificate)
	}
	return p, nil
}

var errKey = errors.New("expected one ECDSA key in PEM")

func privateKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errKey
	}
	if block.Type == "EC PRIVATE KEY" { // as cert-manager writes it
		return x509.ParseECPrivateKey(block.Bytes)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errKey
	}
	return key, nil
}

// certificates reads the certificates of a key: at least one.
func certificates(data map[string][]byte, key string) (all []*x509.Certificate, err error) {
	rest := data[key]
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != pemCertificate {
			return nil, fmt.Errorf("%w: %s has something that is no certificate: %v", ErrSecret, key, err)
		}
		if all = append(all, c); len(all) > bundleMax {
			return nil, fmt.Errorf("%w: %s has more than %d certificates", ErrSecret, key, bundleMax)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s has no certificate", ErrSecret, key)
	}
	return all, nil
}
