package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
)

// Holder is who has a certificate.
type Holder struct {
	certificate.Identity
	// Key is of one who keeps the private key to himself; nil: it is made with the certificate.
	Key *ecdsa.PublicKey
}

// Leaf is the certificate of an identity, and the CAs that its holder trusts.
type Leaf struct {
	certificate.Pair
	Bundle []*x509.Certificate
	// ChangedAt is when its Secret was written last; zero: unknown.
	ChangedAt time.Time
}

// Issue makes a leaf, as server and client, that trusts whom the CA trusts.
// Errors: ErrNoKey, those of the random source.
func (a *CA) Issue(s Settings, h Holder, now time.Time) (*Leaf, error) {
	if a.Signer.Key == nil {
		return nil, ErrNoKey
	}
	if h.Key != nil {
		c, err := a.Signer.Certify(h.Identity, h.Key, s.LeafValidity, now)
		if err != nil {
			return nil, err
		}
		return &Leaf{Pair: certificate.Pair{Certificate: c}, Bundle: a.Bundle(), ChangedAt: now}, nil
	}
	pair, err := a.Signer.Issue(h.Identity, s.LeafValidity, now)
	if err != nil {
		return nil, err
	}
	return &Leaf{Pair: *pair, Bundle: a.Bundle(), ChangedAt: now}, nil
}

// Trust returns a leaf that trusts whom a CA trusts now.
func (l *Leaf) Trust(a *CA, now time.Time) *Leaf {
	return &Leaf{Pair: l.Pair, Bundle: a.Bundle(), ChangedAt: now}
}

// Due is what is to be done with a leaf.
type Due int

// Values of Due.
const (
	DueNothing Due = iota
	DueTrust       // write its Secret with whom to trust: Leaf.Trust
	DueIssue       // make it anew: CA.Issue
)

// isOf reports whether a leaf is of the key of its holder.
func (l *Leaf) isOf(h Holder) bool {
	if h.Key == nil {
		return l.Key != nil
	}
	return h.Key.Equal(l.Certificate.PublicKey)
}

// clockSlack is how far operators' clocks may differ.
const clockSlack = 5 * time.Minute

// DueOf returns what is to be done with a leaf; nil: it is not there. Without the signer's
// key it is never made anew.
func DueOf(a *CA, l *Leaf, h Holder, now time.Time) Due {
	renew := l == nil || !l.isOf(h) || !h.Fits(l.Certificate) || !certificate.Fresh(l.Certificate, now) || l.Certificate.CheckSignatureFrom(a.Signer.Certificate) != nil
	switch {
	case l == nil || renew && a.Signer.Key != nil:
		return DueIssue
	case l.ChangedAt.IsZero() || l.ChangedAt.After(now.Add(clockSlack)) || !slices.EqualFunc(l.Bundle, a.Bundle(), (*x509.Certificate).Equal):
		return DueTrust
	}
	return DueNothing
}
