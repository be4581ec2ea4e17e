package auth

import (
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/oidc"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/token"
)

// proof is what somebody came in by. It is compared with later versions of the file.
type proof struct {
	kind    proofKind
	hash    string        // byPassword: bcrypt's
	token   secret.Digest // byToken
	tlsName string        // byTLSName
	claims  *oidc.Claims  // byClaims
	made    *token.Token  // byMadeToken
}

type proofKind uint8

const (
	byNothing proofKind = iota // Authenticator.Named
	byPassword
	byToken
	byTLSName
	byClaims
	byMadeToken
)

// holds reports whether the user still has what was shown.
func (p *proof) holds(u *user) bool {
	switch p.kind {
	case byPassword:
		return u.passwordHash == p.hash
	case byToken:
		return slices.Contains(u.tokens, p.token)
	case byTLSName:
		return slices.Contains(u.tlsNames, p.tlsName)
	default:
		return true
	}
}

// credential returns what stands for the proof in the tokens that are made with it; zero: nothing
// does, as who made them is told by something else.
func (p *proof) credential() secret.Digest {
	switch p.kind {
	case byPassword:
		return credentialOf(p.kind, p.hash)
	case byToken:
		return credentialOf(p.kind, p.token.String())
	case byTLSName:
		return credentialOf(p.kind, p.tlsName)
	default:
		return secret.Digest{}
	}
}

// credentialOf returns what stands for a credential that the file has. Kinds are part of it, and
// of the format of tokens: they keep their numbers.
func credentialOf(kind proofKind, text string) secret.Digest {
	return secret.DigestOf(fmt.Sprintf("%d %s", kind, text))
}

// hasCredential reports whether the user has what a credential stands for.
func (u *user) hasCredential(c *secret.Digest) bool {
	is := func(kind proofKind, text string) bool {
		d := credentialOf(kind, text)
		return d.Equals(c)
	}
	return u.passwordHash != "" && is(byPassword, u.passwordHash) ||
		slices.ContainsFunc(u.tokens, func(d secret.Digest) bool { return is(byToken, d.String()) }) ||
		slices.ContainsFunc(u.tlsNames, func(name string) bool { return is(byTLSName, name) })
}

// principal is a user who came in, whatever the file says later.
type principal struct {
	current func() *Rules
	tokens  *token.Registry // nil: none are made
	name    string
	proof   proof
	seen    atomic.Pointer[standing]
}

// standing is what one version of the file, and of the tokens that are made, says of a principal.
type standing struct {
	rules *Rules
	made  *token.View // nil: it did not come in by such a token
	user  *user       // nil: it may do nothing any more
}

// Name implements access.Principal.
func (p *principal) Name() string { return p.name }

// tokenIDBytes of a token's digest are its id: enough to find it in the file of users.
const tokenIDBytes = 6

// proofToken is the kind of proof of tokens, as Proof and the audit log call it.
const proofToken = "token"

// Proof implements access.Proven.
func (p *principal) Proof() (kind, id string) {
	switch p.proof.kind {
	case byPassword:
		return "password", ""
	case byToken:
		return proofToken, hex.EncodeToString(p.proof.token[:tokenIDBytes])
	case byTLSName:
		return "certificate", p.proof.tlsName
	case byMadeToken:
		return proofToken, p.proof.made.ID
	case byClaims:
		return "oidc", p.proof.claims.Issuer()
	default:
		return "", ""
	}
}

// May implements access.Principal.
func (p *principal) May(database string, right access.Right) bool {
	u := p.user()
	return u != nil && u.may(database, right)
}

// OnlyDatabase implements access.Single.
func (p *principal) OnlyDatabase() (string, bool) {
	u := p.user()
	if u == nil || u.otherwise != 0 {
		return "", false
	}
	only, found := "", 0
	for database, right := range u.rights {
		if right != 0 {
			only = database
			found++
		}
	}
	return only, found == 1
}

// user returns the user by the rules of now; nil: it is none any more.
func (p *principal) user() *user {
	rules := p.current()
	if p.proof.kind == byClaims && !p.proof.claims.Valid() {
		return nil
	}
	var made *token.View
	if p.proof.kind == byMadeToken {
		if made = p.tokens.Current(); p.tokens.Holds(made, p.proof.made.ID) != nil {
			return nil
		}
	}
	if s := p.seen.Load(); s != nil && s.rules == rules && s.made == made {
		return s.user
	}
	u := p.userBy(rules)
	p.seen.Store(&standing{rules, made, u})
	return u
}

// userBy returns the user by some rules; nil: it is none by them.
func (p *principal) userBy(rules *Rules) *user {
	if p.proof.kind == byMadeToken {
		return rules.userOfToken(p.proof.made)
	}
	if p.proof.kind == byClaims {
		if u := rules.userOf(p.proof.claims); u != nil && u.name == p.name {
			return u
		}
		return nil
	}
	if u := rules.users[p.name]; u != nil && p.proof.holds(u) {
		return u
	}
	return nil
}
