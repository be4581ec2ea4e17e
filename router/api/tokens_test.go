package api_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/token"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// away is where tokens cannot be changed.
type away struct{ created int }

func (a *away) CreateToken(context.Context, string, token.Rights, time.Duration) (string, token.Token, error) {
	a.created++
	return "", token.Token{}, fmt.Errorf("%w: attempt %d", token.ErrUnavailable, a.created)
}

func (a *away) ListTokens() []token.Listed { return nil }

func (a *away) RevokeToken(context.Context, string) (token.Listed, error) {
	return token.Listed{}, token.ErrUnknown
}

// A token is asked for once: a second attempt could make a second one.
func TestTokensAreAskedForOnce(t *testing.T) {
	tokens := &away{}
	o, _ := guarded(t, apitest.NewStorage(4))
	o.Tokens = tokens
	_, server := dial(t, o)
	admin := clientAs(t, server.Address, "admin")
	_, _, err := admin.CreateToken(background(t), client.TokenOptions{Name: "a", Rights: map[string]string{"a": "read", "b": "none"}, Lifetime: time.Hour})
	if !errors.Is(err, client.ErrUnavailable) || tokens.created != 1 {
		t.Errorf("%d times: %v", tokens.created, err)
	}
	if _, _, err := admin.CreateToken(background(t), client.TokenOptions{Rights: map[string]string{"a": "unspecified"}}); !errors.Is(err, client.ErrInvalid) || tokens.created != 1 {
		t.Error(err)
	}
	if _, err := admin.RevokeToken(background(t), "x"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}
