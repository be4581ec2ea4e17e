package certificate

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// ErrNoKey: the key of the CA is not there.
var ErrNoKey = errors.New("the key of the CA is not there")

// backdate is how long before they are made certificates are valid: clocks of boards
// differ.
const backdate = 24 * time.Hour

// commonNameMax is the longest common name of X.509 (RFC 5280, ub-common-name).
const commonNameMax = 64

// MemberHost is a host that nobody has. Certificates of etcd's members are valid for it, and no
// others: etcd's port for its members compares hosts, and members share machines with nodes, routers
// and people. A CA that is valid for it has put it into all of them.
const MemberHost = "etcd-member.tickmesh.internal"

// Pair is a certificate with its key.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey // nil: it is lost
}

// Identity is what a certificate is issued for: name, common name and hosts.
type Identity struct {
	// CommonName is for people.
	CommonName string
	// Hosts are the DNS names and IP addresses that it is valid for.
	Hosts []string
	// Name is what other processes of the cluster go by; the zero value: none.
	Name Name
}

// NewCA makes a CA with a fresh key that signs leaves only. Cluster is part
// of its name. Errors: ErrName, those of the random source.
func NewCA(cluster, commonName string, validity time.Duration, now time.Time) (*Pair, error) {
	key, err := NewKey()
	if err != nil {
		return nil, fmt.Errorf("key of a CA: %w", err)
	}
	name := Name{Cluster: cluster, Role: RoleCA}
	if err := name.Validate(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, URIs: []*url.URL{name.url()}, DNSNames: []string{MemberHost},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	certificate, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Pair{Certificate: certificate, Key: key}, nil
}

// Issue makes a key and its certificate for both sides of connections. Errors: those of
// Certify.
func (a Pair) Issue(identity Identity, validity time.Duration, now time.Time) (*Pair, error) {
	if a.Key == nil {
		return nil, ErrNoKey
	}
	key, err := NewKey()
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", identity.CommonName, err)
	}
	certificate, err := a.Certify(identity, &key.PublicKey, validity, now)
	if err != nil {
		return nil, err
	}
	return &Pair{Certificate: certificate, Key: key}, nil
}

// Certify makes a certificate, for both sides of connections, of a key that its holder keeps.
// It ends with its CA at the latest. Errors: ErrNoKey, ErrName, those of the random
// source.
func (a Pair) Certify(identity Identity, key *ecdsa.PublicKey, validity time.Duration, now time.Time) (*x509.Certificate, error) {
	if a.Key == nil {
		return nil, ErrNoKey
	}
	notAfter := now.Add(validity)
	if a.Certificate.NotAfter.Before(notAfter) {
		notAfter = a.Certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: identity.shortName()},
		NotBefore: now.Add(-backdate), NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if identity.Name != (Name{}) {
		if err := identity.Name.Validate(); err != nil {
			return nil, err
		}
		template.URIs = []*url.URL{identity.Name.url()}
	}
	for _, host := range identity.hosts() {
		if ip, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if identity.Name.Role == RoleEtcd {
		template.DNSNames = append(template.DNSNames, MemberHost)
	}
	return sign(template, a.Certificate, key, a.Key)
}

// sign makes the certificate of a key.
func sign(template, parent *x509.Certificate, key *ecdsa.PublicKey, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// Fits reports whether a certificate says of its holder what an identity does.
func (i Identity) Fits(c *x509.Certificate) bool {
	hosts := HostsOf(c)
	slices.Sort(hosts)
	name, err := NameOf(c)
	return err == nil && name == i.Name && slices.Equal(hosts, i.hosts()) && c.Subject.CommonName == i.shortName()
}

// IdentityOf returns the identity in a certificate, for a renewal that changes
// nothing; otherwise, if its name cannot be read.
func IdentityOf(c *x509.Certificate, otherwise Identity) Identity {
	name, err := NameOf(c)
	if err != nil {
		return otherwise
	}
	return Identity{CommonName: c.Subject.CommonName, Hosts: HostsOf(c), Name: name}
}

// HostsOf returns the hosts that an identity asks for, of its certificate: all but MemberHost.
func HostsOf(c *x509.Certificate) []string {
	hosts := slices.DeleteFunc(slices.Clone(c.DNSNames), func(host string) bool { return host == MemberHost })
	for _, ip := range c.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); ok {
			hosts = append(hosts, address.Unmap().String())
		}
	}
	return hosts
}

// Fresh reports whether a certificate is valid and at least a third of its time is left:
// then it need not be renewed.
func Fresh(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotBefore) && c.NotAfter.Sub(now) > c.NotAfter.Sub(c.NotBefore)/3
}

func (i Identity) shortName() string { return i.CommonName[:min(len(i.CommonName), commonNameMax)] }

// hosts returns the hosts as a certificate has them: in order, each once.
func (i Identity) hosts() []string {
	hosts := make([]string, 0, len(i.Hosts))
	for _, host := range i.Hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.Unmap().String()
		}
		if !coversMembers(host) { // which is not to be had by asking
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// coversMembers reports whether a certificate for a host is valid for MemberHost: also one with a
// wildcard, or in other letters.
func coversMembers(host string) bool {
	return (&x509.Certificate{DNSNames: []string{host}}).VerifyHostname(MemberHost) == nil
}

// TLS returns the pair as crypto/tls takes it.
func (a Pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{a.Certificate.Raw}, PrivateKey: a.Key, Leaf: a.Certificate}
}
