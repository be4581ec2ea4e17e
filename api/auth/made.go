package auth

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/token"
)

// issuedLifetimeMax bounds tokens that users of OpenID Connect issuers make: the issuer is not
// asked again whether it still stands by them.
const issuedLifetimeMax = 90 * 24 * time.Hour

// byMadeToken finds who shows a token that was made while the process runs. What nobody was given
// counts against its address as a wrong password does.
func (a *Authenticator) byMadeToken(rules *Rules, from net.Addr, id []byte, sum secret.Digest) (*principal, error) {
	v := a.options.Tokens.Current()
	t := v.Find(id, sum)
	if t == nil {
		a.gate.failed(networkOf(from))
		return nil, &audit.SignInError{User: v.User(id), By: proofToken, Credential: string(id), Err: access.ErrUnauthenticated}
	}
	refused := func(err error) error {
		err = fmt.Errorf("%w: token %s %w; make another one", access.ErrUnauthenticated, t.ID, err)
		return &audit.SignInError{User: t.User(), By: proofToken, Credential: t.ID, Err: err}
	}
	if err := a.options.Tokens.Holds(v, t.ID); err != nil {
		return nil, refused(err)
	}
	k := a.key('m', sum[:], nil)
	if p := a.remembered(rules, k); p != nil {
		return p, nil
	}
	if rules.userOfToken(t) == nil {
		return nil, refused(fmt.Errorf("%w: %s", token.ErrEnded, rules.creatorGone(t)))
	}
	a.checked.Add(1)
	p := a.principal(t.User(), proof{kind: byMadeToken, made: t})
	a.remember(rules, k, p)
	return p, nil
}

// creatorGone returns why a token without a creator does not hold.
func (r *Rules) creatorGone(t *token.Token) string {
	if t.Creator.Issuer == "" && r.users[t.Creator.User] != nil {
		return fmt.Sprintf("%s, who made it, has not the password, token or certificate any more that it was made by", t.Creator.User)
	}
	return fmt.Sprintf("%s, who made it, has no rights any more", t.Creator.User)
}

// creator returns the user who made a token; nil: there is none any more. A user with the name
// of the creator and none of what the creator showed is somebody else, or does not trust it any
// more.
func (r *Rules) creator(c *token.Creator) *user {
	if c.Issuer == "" {
		u := r.users[c.User]
		if u == nil || c.Credential != (secret.Digest{}) && !u.hasCredential(&c.Credential) {
			return nil
		}
		return u
	}
	rule := r.issuers[c.Issuer]
	if rule == nil {
		return nil
	}
	var fit []grant
	for _, g := range rule.grants {
		if slices.Contains(c.Claims, token.Claim{Name: g.claim, Value: g.value}) {
			fit = append(fit, g)
		}
	}
	return userWith(c.User, fit)
}

// userOfToken returns a user with the rights of a token that its creator has, too; nil: the
// creator is none any more.
func (r *Rules) userOfToken(t *token.Token) *user {
	creator := r.creator(&t.Creator)
	if creator == nil {
		return nil
	}
	u := &user{name: creator.name, rights: map[string]access.Right{}, otherwise: min(t.Rights.On(access.Everything), creator.otherwise)}
	for _, names := range []map[string]access.Right{t.Rights, creator.rights} {
		for database := range names {
			if database != access.Everything {
				u.rights[database] = min(t.Rights.On(database), creator.on(database))
			}
		}
	}
	return u
}

// creation returns the request for a token of a principal. Errors: access.ErrUnauthenticated,
// token.ErrInvalid.
func (p *principal) creation(lifetime time.Duration) (q token.Request, err error) {
	q.Lifetime = lifetime
	switch p.proof.kind {
	case byPassword, byToken, byTLSName:
		q.Creator.User, q.Creator.Credential = p.name, p.proof.credential()
	case byMadeToken:
		q.Creator, q.Parent = p.proof.made.Creator, p.proof.made.ID
	case byClaims:
		if lifetime > issuedLifetimeMax {
			return q, fmt.Errorf("%w: tokens that users of an OpenID Connect issuer make hold for at most %d days", token.ErrInvalid, issuedLifetimeMax/(24*time.Hour))
		}
		claims := p.proof.claims
		q.Creator = token.Creator{User: p.name, Issuer: claims.Issuer()}
		for _, g := range p.current().issuers[q.Creator.Issuer].grantsOf(claims) {
			q.Creator.Claims = append(q.Creator.Claims, token.Claim{Name: g.claim, Value: g.value})
		}
	default:
		return q, fmt.Errorf("%w: %s has not shown who it is", access.ErrUnauthenticated, p.name)
	}
	return q, nil
}

// CreateToken makes a token for the caller of a context, and returns its secret. Whether the
// caller may make any is not asked here. Errors: *access.DeniedError where the token would have
// more rights than the caller, and those of token.Registry.Create.
func (a *Authenticator) CreateToken(ctx context.Context, name string, rights token.Rights, lifetime time.Duration) (secret string, made token.Token, err error) {
	p, ok := access.Of(ctx).(*principal)
	if !ok {
		return "", made, access.ErrUnauthenticated
	}
	u := p.user()
	if u == nil {
		return "", made, access.ErrUnauthenticated
	}
	q, err := p.creation(lifetime)
	if err != nil {
		return "", made, err
	}
	all := map[string]access.Right{access.Everything: 0}
	maps.Copy(all, rights)
	maps.Copy(all, u.rights)
	for _, database := range slices.Sorted(maps.Keys(all)) {
		if right := rights.On(database); right > u.on(database) {
			denied := &access.DeniedError{Principal: p.name, Database: database, Right: right}
			return "", made, fmt.Errorf("%w; on each database a token has at most the rights of who makes it: ask for %s=%s", denied, access.Display(database), u.on(database))
		}
	}
	q.Name, q.Rights = name, rights
	return a.options.Tokens.Create(ctx, q)
}

// ListTokens returns the tokens that were made, in the order in which they were.
func (a *Authenticator) ListTokens() []token.Listed {
	list, rules := a.options.Tokens.List(), a.options.Current()
	for i := range list {
		if l := &list[i]; l.Refusal == "" && rules.creator(&l.Creator) == nil {
			l.Refusal = rules.creatorGone(&l.Token)
		}
	}
	return list
}

// RevokeToken takes back a token that was made. Errors: those of token.Registry.Revoke.
func (a *Authenticator) RevokeToken(ctx context.Context, id string) (token.Listed, error) {
	return a.options.Tokens.Revoke(ctx, id, access.Of(ctx).Name())
}
