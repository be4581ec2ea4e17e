package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Keys of Secrets. Those of leaves have tls.crt, tls.key and ca.crt; that of the
// CA has the certificate and key of the signer under the same names, in ca.crt
// all that are trusted, and perhaps the next.
const (
	KeyCABundle = "ca.crt"
	keyNext     = "next.crt"
	keyNextKey  = "next.key"
	keyRotation = "rotation"
)

// AnnotationChangedAt holds when a leaf was written.
const AnnotationChangedAt = v1alpha1.Group + "/changed-at"

// ErrSecret marks a Secret, or annotations, that cannot be read.
var ErrSecret = errors.New("not a Secret with certificates")

// Write puts a CA into a Secret. Errors: a key that cannot be encoded.
func (a *CA) Write(s *corev1.Secret) error {
	s.Data = map[string][]byte{KeyCABundle: certificate.EncodeCertificates(a.Bundle()...), keyRotation: []byte(a.Rotation)}
	if err := put(s.Data, a.Signer, corev1.TLSCertKey, corev1.TLSPrivateKeyKey); err != nil {
		return err
	}
	if a.Next != nil {
		return put(s.Data, *a.Next, keyNext, keyNextKey)
	}
	return nil
}

// put adds a pair; without its key, none is added but an empty one.
func put(data map[string][]byte, p certificate.Pair, certificateName, keyName string) (err error) {
	data[certificateName], data[keyName] = certificate.EncodeCertificates(p.Certificate), []byte{}
	if p.Key != nil {
		data[keyName], err = certificate.EncodeKey(p.Key)
	}
	return err
}

// ReadCA reads what Write wrote. Errors: ErrSecret.
func ReadCA(s *corev1.Secret) (*CA, error) {
	signer, err := pair(s.Data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	if err != nil {
		return nil, err
	}
	a := &CA{Signer: *signer, Rotation: string(s.Data[keyRotation])}
	if !signer.Certificate.IsCA {
		return nil, fmt.Errorf("%w: %s is no CA", ErrSecret, corev1.TLSCertKey)
	}
	if len(s.Data[keyNext]) > 0 {
		if a.Next, err = pair(s.Data, keyNext, keyNextKey); err != nil {
			return nil, err
		}
		if !a.Next.Certificate.IsCA || a.Next.Key == nil {
			return nil, fmt.Errorf("%w: %s is no CA with a key", ErrSecret, keyNext)
		}
	}
	trusted, err := certificates(s.Data, KeyCABundle)
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
	s.Data = map[string][]byte{KeyCABundle: certificate.EncodeCertificates(l.Bundle...)}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[AnnotationChangedAt] = l.ChangedAt.UTC().Format(time.RFC3339Nano)
	return put(s.Data, l.Pair, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
}

// Annotations of a pod that keeps its key have its certificate and whom it trusts, as PEM,
// beside AnnotationChangedAt: files of the pod show them.
const (
	AnnotationCertificate = v1alpha1.Group + "/certificate"
	AnnotationCABundle    = v1alpha1.Group + "/authorities"
)

// Annotate puts a leaf, without its key, into the annotations of a pod.
func (l *Leaf) Annotate(p *corev1.Pod) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[AnnotationCertificate] = string(certificate.EncodeCertificates(l.Certificate))
	p.Annotations[AnnotationCABundle] = string(certificate.EncodeCertificates(l.Bundle...))
	p.Annotations[AnnotationChangedAt] = l.ChangedAt.UTC().Format(time.RFC3339Nano)
}

// ReadAnnotated reads what Annotate wrote. Errors: ErrSecret.
func ReadAnnotated(p *corev1.Pod) (*Leaf, error) {
	return readLeaf(map[string][]byte{
		corev1.TLSCertKey: []byte(p.Annotations[AnnotationCertificate]), KeyCABundle: []byte(p.Annotations[AnnotationCABundle]),
	}, p.Annotations[AnnotationChangedAt])
}

// ReadLeaf reads what Write wrote, or cert-manager or a person did. Errors: ErrSecret.
func ReadLeaf(s *corev1.Secret) (*Leaf, error) {
	return readLeaf(s.Data, s.Annotations[AnnotationChangedAt])
}

func readLeaf(data map[string][]byte, changedAt string) (*Leaf, error) {
	p, err := pair(data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	if err != nil {
		return nil, err
	}
	l := &Leaf{Pair: *p}
	if l.Bundle, err = certificates(data, KeyCABundle); err != nil {
		return nil, err
	}
	if at, err := time.Parse(time.RFC3339Nano, changedAt); err == nil {
		l.ChangedAt = at
	}
	return l, nil
}

// NotAfter returns when the certificate of a Secret ends, whoever made it and whatever kind
// of key it has. Errors: ErrSecret.
func NotAfter(s *corev1.Secret) (time.Time, error) {
	chain, err := certificates(s.Data, corev1.TLSCertKey)
	if err != nil {
		return time.Time{}, err
	}
	return chain[0].NotAfter, nil
}

// pair reads a certificate and its key; an empty key is one that is lost.
func pair(data map[string][]byte, certificateName, keyName string) (*certificate.Pair, error) {
	p, err := certificate.DecodePair(data[certificateName], data[keyName])
	if err != nil {
		return nil, fmt.Errorf("%w: %s and %s: %w", ErrSecret, certificateName, keyName, err)
	}
	return p, nil
}

// certificates reads the certificates of a key: at least one.
func certificates(data map[string][]byte, key string) ([]*x509.Certificate, error) {
	all, err := certificate.DecodeCertificates(data[key])
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSecret, key, err)
	}
	return all, nil
}
