package auth

import (
	"crypto/x509"
	"slices"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/secret"
)

// Rules are the users of one version of the file. They do not change.
type Rules struct {
	users    map[string]*user
	tokens   map[secret.Digest]*user
	tlsNames map[string]*user
	issuers  map[string]*issuerRule // by URL
	costMax  int                    // the highest cost of a password's hash, at least bcrypt's default
}

// user is one user of a file.
type user struct {
	name         string
	passwordHash string // bcrypt's; empty: no password
	tokens       []secret.Digest
	tlsNames     []string
	rights       map[string]access.Right // by database; 0: none
	otherwise    access.Right            // on databases that rights does not name
}

// may reports whether the user has a right. What the file says of a database itself counts,
// not what it says of all.
func (u *user) may(database string, right access.Right) bool { return u.on(database) >= right }

// on returns the user's right on a database; 0: none.
func (u *user) on(database string) access.Right {
	own, ok := u.rights[database]
	if !ok {
		return u.otherwise
	}
	return own
}

// byToken returns the user of a token; nil: nobody's.
func (r *Rules) byToken(token []byte) (*user, secret.Digest) {
	sum := secret.DigestOf(token)
	u := r.tokens[sum]
	if u == nil {
		return nil, sum
	}
	// The map compares hashes of what the caller cannot choose; this is what counts.
	for i := range u.tokens {
		if u.tokens[i].Equals(&sum) {
			return u, sum
		}
	}
	return nil, sum
}

// byCertificate returns the user that a certificate names, and by which of its names: the
// common name or an alternative one. A certificate that names two users is nobody's.
func (r *Rules) byCertificate(c *x509.Certificate) (found *user, by string) {
	take := func(name string) (ok bool) {
		u := r.tlsNames[name]
		if u == nil || name == "" {
			return true
		}
		if found != nil && found != u {
			return false
		}
		found, by = u, name
		return true
	}
	names := slices.Concat([]string{c.Subject.CommonName}, c.DNSNames, c.EmailAddresses)
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	for _, name := range names {
		if !take(name) {
			return nil, ""
		}
	}
	return found, by
}
