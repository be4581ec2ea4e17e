package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
)

const pemRequest = "CERTIFICATE REQUEST"

// RequestBytesMax bounds a request as PEM. It is the longest message that Kubernetes takes from
// a container that ends; one is some 500 bytes long.
const RequestBytesMax = 4096

// ErrRequest marks a request for a certificate that cannot be taken.
var ErrRequest = errors.New("not a request for a certificate")

// Request asks a CA for the certificate of a key that its holder keeps (PKCS #10).
type Request struct {
	Name      Name
	PublicKey *ecdsa.PublicKey
}

// NewKey makes a key. Errors: those of the random source.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// EncodeRequest returns a request for the certificate of a key as PEM. Errors: ErrName, those of
// the random source.
func EncodeRequest(name Name, key *ecdsa.PrivateKey) ([]byte, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: Identity{CommonName: name.ID}.shortName()}, URIs: []*url.URL{name.url()}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("request of %s: %w", name, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}), nil
}

// DecodeRequest reads a request, and checks that whoever made it has the key. Other keys than
// those of ECDSA with P-256 are not taken. Errors: ErrRequest, ErrName.
func DecodeRequest(text []byte) (*Request, error) {
	if len(text) > RequestBytesMax {
		return nil, fmt.Errorf("%w: it has %d bytes; expected at most %d", ErrRequest, len(text), RequestBytesMax)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemRequest {
		return nil, fmt.Errorf("%w: expected PEM with a %s", ErrRequest, pemRequest)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: it is not signed by its key: %w", ErrRequest, err)
	}
	key, ok := parsed.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: expected an ECDSA key of the curve P-256", ErrRequest)
	}
	name, err := nameAmong(parsed.URIs, parsed.Subject.CommonName)
	if err != nil {
		return nil, err
	}
	return &Request{Name: name, PublicKey: key}, name.Validate()
}
