package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Token is what is known of a token. None of it opens anything.
type Token struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Creator    string            `json:"creator"`
	Parent     string            `json:"parent"` // id of the token that it was made with, without which it does not hold; empty: none
	Rights     map[string]string `json:"rights"` // none, read, write or admin by database
	CreatedMs  int64             `json:"created_ms"`
	ExpiresMs  int64             `json:"expires_ms"`
	LastUsedMs int64             `json:"last_used_ms"` // the hour of its last use; 0: none
	RevokedMs  int64             `json:"revoked_ms"`   // 0: it was not
	RevokedBy  string            `json:"revoked_by"`
	Refusal    string            `json:"refusal"` // why it is refused; empty: it is taken
}

// TokenOptions describe a new token.
type TokenOptions struct {
	Name string // what it is for, one word
	// Rights are none, read, write or admin by database, "*" for those that have none of their
	// own. The token has at most the rights of who makes it.
	Rights   map[string]string
	Lifetime time.Duration // a minute to 366 days
}

// rightPrefix begins the names of rights.
const rightPrefix = "ACCESS_RIGHT_"

// rightNone is the word for no right, whose name is that of the zero value.
const rightNone = "none"

// CreateToken makes a token and returns its secret, which is told this once. When the answer
// is lost, a token may have been made: ListTokens tells. Errors: ErrInvalid, ErrDenied;
// ErrRefused on a server without users.
func (c *Client) CreateToken(ctx context.Context, o TokenOptions) (secret string, token Token, err error) {
	request := &tickmeshv1.CreateTokenRequest{Name: o.Name, LifetimeMs: o.Lifetime.Milliseconds()}
	for _, database := range slices.Sorted(maps.Keys(o.Rights)) {
		word := o.Rights[database]
		right, ok := tickmeshv1.AccessRight_value[rightPrefix+strings.ToUpper(word)]
		if (!ok || right == 0) && word != rightNone {
			return "", token, fmt.Errorf("%w: the right %q: expected read, write, admin or none", wire.ErrInvalid, word)
		}
		request.Rights = append(request.Rights, &tickmeshv1.DatabaseRight{Database: database, Right: tickmeshv1.AccessRight(right)})
	}
	var m *tickmeshv1.CreateTokenResponse
	var failed error // of the one attempt: a second one could make a second token
	err = c.callOnce(ctx, func(ctx context.Context, e *endpoint) error {
		m, failed = tickmeshv1.NewClusterServiceClient(e.conn).CreateToken(ctx, request)
		return nil
	})
	if err == nil {
		err = errorOf(failed)
	}
	if err != nil {
		return "", token, err
	}
	return m.GetSecret(), tokenOf(m.GetToken()), nil
}

// ListTokens returns all tokens in the order in which they were made. Errors: ErrDenied,
// ErrRefused on a server without users.
func (c *Client) ListTokens(ctx context.Context) ([]Token, error) {
	var m *tickmeshv1.ListTokensResponse
	err := c.callOnce(ctx, func(ctx context.Context, e *endpoint) (err error) {
		m, err = tickmeshv1.NewClusterServiceClient(e.conn).ListTokens(ctx, &tickmeshv1.ListTokensRequest{})
		return errorOf(err)
	})
	tokens := []Token{}
	for _, t := range m.GetTokens() {
		tokens = append(tokens, tokenOf(t))
	}
	return tokens, err
}

// RevokeToken takes a token back for good, and all that were made with it. Errors: ErrNotFound,
// ErrDenied, ErrRefused on a server without users.
func (c *Client) RevokeToken(ctx context.Context, id string) (Token, error) {
	var m *tickmeshv1.RevokeTokenResponse
	err := c.callOnce(ctx, func(ctx context.Context, e *endpoint) (err error) {
		m, err = tickmeshv1.NewClusterServiceClient(e.conn).RevokeToken(ctx, &tickmeshv1.RevokeTokenRequest{Id: id})
		return errorOf(err)
	})
	return tokenOf(m.GetToken()), err
}

func tokenOf(m *tickmeshv1.Token) Token {
	t := Token{
		ID: m.GetId(), Name: m.GetName(), Creator: m.GetCreator(), Parent: m.GetParent(), Rights: map[string]string{},
		CreatedMs: m.GetCreatedMs(), ExpiresMs: m.GetExpiresMs(), LastUsedMs: m.GetLastUsedMs(), RevokedMs: m.GetRevokedMs(),
		RevokedBy: m.GetRevokedBy(), Refusal: m.GetRefusal(),
	}
	for _, r := range m.GetRights() {
		word := strings.ToLower(strings.TrimPrefix(r.GetRight().String(), rightPrefix))
		if r.GetRight() == tickmeshv1.AccessRight_ACCESS_RIGHT_UNSPECIFIED {
			word = rightNone
		}
		t.Rights[r.GetDatabase()] = word
	}
	return t
}
