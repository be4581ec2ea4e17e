package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Tokens makes, lists and revokes tokens. Whether the caller may is asked before. Errors are
// *access.DeniedError and those of token.Registry. Safe for concurrent use.
type Tokens interface {
	// CreateToken makes a token for the caller, with at most the caller's rights.
	CreateToken(ctx context.Context, name string, rights token.Rights, lifetime time.Duration) (secret string, made token.Token, err error)
	ListTokens() []token.Listed
	RevokeToken(ctx context.Context, id string) (token.Listed, error)
}

var errNoTokens = fmt.Errorf("%w: there are no users here, and everybody may do everything: tokens are for a server that is started with --auth-file", wire.ErrRefused)

// tokens returns who keeps tokens, for an administrator of all. Errors: those of statusOf.
func (c *clusterService) tokens(ctx context.Context) (Tokens, error) {
	if err := access.Check(ctx, access.Everything, access.Admin); err != nil {
		return nil, statusOf(err)
	}
	if c.s.options.Tokens == nil {
		return nil, statusOf(errNoTokens)
	}
	return c.s.options.Tokens, nil
}

// CreateToken makes a token.
func (c *clusterService) CreateToken(ctx context.Context, m *tickmeshv1.CreateTokenRequest) (*tickmeshv1.CreateTokenResponse, error) {
	tokens, err := c.tokens(ctx)
	if err != nil {
		return nil, err
	}
	rights, err := rightsOf(m.GetRights())
	if err != nil {
		return nil, statusOf(err)
	}
	lifetime := time.Duration(min(max(m.GetLifetimeMs(), 0), 2*token.LifetimeMax.Milliseconds())) * time.Millisecond
	secret, made, err := tokens.CreateToken(ctx, m.GetName(), rights, lifetime)
	audit.Of(ctx).Did(audit.Deed{Do: "create token", On: made.ID}, err)
	if denied := (*access.DeniedError)(nil); errors.As(err, &denied) {
		audit.Of(ctx).Refuse(err)
	}
	if err != nil {
		return nil, statusOf(tokenError(err))
	}
	return &tickmeshv1.CreateTokenResponse{Secret: secret, Token: tokenMessage(&token.Listed{Token: made})}, nil
}

// rightsOf reads the rights of a request. Errors: wire.ErrInvalid.
func rightsOf(list []*tickmeshv1.DatabaseRight) (token.Rights, error) {
	rights := token.Rights{}
	for _, r := range list {
		database := access.Canonical(r.GetDatabase())
		if _, twice := rights[database]; twice || r.GetDatabase() == "" {
			return nil, fmt.Errorf("%w: rights on %q: expected each database once, by its name, default, or %q for all others", wire.ErrInvalid, r.GetDatabase(), access.Everything)
		}
		if r.GetRight() < 0 || r.GetRight() > tickmeshv1.AccessRight_ACCESS_RIGHT_ADMIN {
			return nil, fmt.Errorf("%w: unknown right %d", wire.ErrInvalid, r.GetRight())
		}
		rights[database] = access.Right(r.GetRight())
	}
	return rights, nil
}

// ListTokens returns all tokens.
func (c *clusterService) ListTokens(ctx context.Context, _ *tickmeshv1.ListTokensRequest) (*tickmeshv1.ListTokensResponse, error) {
	tokens, err := c.tokens(ctx)
	if err != nil {
		return nil, err
	}
	response := &tickmeshv1.ListTokensResponse{}
	for _, t := range tokens.ListTokens() {
		response.Tokens = append(response.Tokens, tokenMessage(&t))
	}
	return response, nil
}

// RevokeToken takes a token back.
func (c *clusterService) RevokeToken(ctx context.Context, m *tickmeshv1.RevokeTokenRequest) (*tickmeshv1.RevokeTokenResponse, error) {
	tokens, err := c.tokens(ctx)
	if err != nil {
		return nil, err
	}
	revoked, err := tokens.RevokeToken(ctx, m.GetId())
	audit.Of(ctx).Did(audit.Deed{Do: "revoke token", On: revoked.ID}, err)
	if err != nil {
		return nil, statusOf(tokenError(err))
	}
	return &tickmeshv1.RevokeTokenResponse{Token: tokenMessage(&revoked)}, nil
}

// tokenMessage returns what is told of a token: nothing of its secret.
func tokenMessage(t *token.Listed) *tickmeshv1.Token {
	m := &tickmeshv1.Token{
		Id: t.ID, Name: t.Name, Creator: t.Creator.User, Parent: t.Parent(), RevokedBy: t.RevokedBy, Refusal: t.Refusal,
		CreatedMs: unixMilli(t.Created), ExpiresMs: unixMilli(t.Expires), LastUsedMs: unixMilli(t.Used), RevokedMs: unixMilli(t.Revoked),
	}
	for _, database := range slices.Sorted(maps.Keys(t.Rights)) {
		m.Rights = append(m.Rights, &tickmeshv1.DatabaseRight{Database: access.Display(database), Right: tickmeshv1.AccessRight(t.Rights[database])})
	}
	return m
}

// unixMilli returns a time as messages have it; the zero time is 0.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// tokenError returns an error of Tokens the kind that clients are told.
func tokenError(err error) error {
	for own, kind := range map[error]error{
		token.ErrInvalid: wire.ErrInvalid, token.ErrUnknown: wire.ErrNotFound, token.ErrFull: wire.ErrRefused, token.ErrEnded: wire.ErrUnauthenticated,
		token.ErrUnavailable: series.ErrUnavailable,
	} {
		if errors.Is(err, own) {
			return fmt.Errorf("%w: %w", kind, err)
		}
	}
	return err
}
