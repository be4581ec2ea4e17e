package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Identity is what a certificate says of its holder.
type Identity struct {
	// Name is the common name, for people.
	Name string
	// Hosts are the names and IP addresses that it is valid for.
	Hosts []string
}

// Leaf is the certificate of an identity, and the authorities that its holder trusts.
type Leaf struct {
	Pair
	Bundle []*x509.Certificate
	// ChangedAt is when its Secret was written last; zero: nobody knows.
	ChangedAt time.Time
}

// Issue makes a leaf, as server and client, that trusts whom the authority trusts.
// Errors: ErrNoKey, those of the random source.
func (a *Authority) Issue(s Settings, identity Identity, now time.Time) (*Leaf, error) {
	if a.Signer.Key == nil {
		return nil, ErrNoKey
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", identity.Name, err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName(identity.Name)},
		NotBefore: now.Add(-backdate), NotAfter: earlier(now.Add(s.LeafValidity), a.Signer.Certificate.NotAfter),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range identity.hosts() {
		if ip, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, err := sign(template, a.Signer.Certificate, key, a.Signer.Key)
	if err != nil {
		return nil, err
	}
	return &Leaf{Pair: Pair{Certificate: certificate, Key: key}, Bundle: a.Bundle(), ChangedAt: now}, nil
}

// commonNameMax is the longest common name of X.509 (RFC 5280, ub-common-name).
const commonNameMax = 64

func commonName(name string) string { return name[:min(len(name), commonNameMax)] }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// hosts gives the hosts in order, each once.
func (i Identity) hosts() []string {
	hosts := slices.Clone(i.Hosts)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Trust gives a leaf that trusts whom an authority trusts now.
func (l *Leaf) Trust(a *Authority, now time.Time) *Leaf {
	return &Leaf{Pair: l.Pair, Bundle: a.Bundle(), ChangedAt: now}
}

// Due is what is to be done with a leaf.
type Due int

// Values of Due.
const (
	DueNothing Due = iota
	DueTrust       // write its Secret with whom to trust: Leaf.Trust
	DueIssue       // make it anew: Authority.Issue
)

// clockSlack is how far operators' clocks may differ.
const clockSlack = 5 * time.Minute

// DueOf says what is to be done with a leaf; nil: it is not there. Without the signer's
// key it is never made anew.
func DueOf(a *Authority, l *Leaf, identity Identity, now time.Time) Due {
	renew := l == nil || l.Key == nil || !l.valid(identity, now) || l.Certificate.CheckSignatureFrom(a.Signer.Certificate) != nil
	switch {
	case l == nil || renew && a.Signer.Key != nil:
		return DueIssue
	case l.ChangedAt.IsZero() || l.ChangedAt.After(now.Add(clockSlack)) || !slices.EqualFunc(l.Bundle, a.Bundle(), (*x509.Certificate).Equal):
		return DueTrust
	}
	return DueNothing
}

// valid says whether a leaf is for an identity, and two thirds of its time are not over.
func (l *Leaf) valid(identity Identity, now time.Time) bool {
	c := l.Certificate
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); ok {
			hosts = append(hosts, address.Unmap().String())
		}
	}
	slices.Sort(hosts)
	wanted := Identity{Hosts: normal(identity.Hosts)}
	return slices.Equal(hosts, wanted.hosts()) && c.Subject.CommonName == commonName(identity.Name) &&
		now.After(c.NotBefore) && c.NotAfter.Sub(now) > c.NotAfter.Sub(c.NotBefore)/3
}

// normal gives hosts as a certificate has them.
func normal(hosts []string) []string {
	same := make([]string, 0, len(hosts))
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.Unmap().String()
		}
		same = append(same, host)
	}
	return same
}
