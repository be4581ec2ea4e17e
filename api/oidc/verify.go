package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// clockSkew is by how much the clocks of an issuer and of this server may differ.
const clockSkew = time.Minute

// expiryMax is the last second of the year 9999: later times are no dates.
const expiryMax = 253402300799

// Claims are those of a verified token.
type Claims struct {
	issuer    *Issuer
	key       thumbprint
	audiences []string
	expires   time.Time
	texts     map[string][]string
}

// Issuer returns the issuer's URL.
func (c *Claims) Issuer() string { return c.issuer.options.URL }

// For reports whether the token is for one of some audiences.
func (c *Claims) For(audiences []string) bool {
	return slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(c.audiences, a) })
}

// Texts returns the texts of a claim that is a text or a list of texts; of scope, each of its words.
func (c *Claims) Texts(claim string) []string { return c.texts[claim] }

// Valid reports whether the token has not expired, and its key is still one of its issuer.
func (c *Claims) Valid() bool {
	set := c.issuer.usable()
	return set != nil && set.has(c.key) && c.issuer.options.Clock().Before(c.expires.Add(clockSkew))
}

// Verify returns the claims of a token of this issuer that is for one of some audiences, once its
// signature and times are checked. It waits for keys at most 5 s. Errors: ErrToken.
func (i *Issuer) Verify(ctx context.Context, t *Token, audiences []string) (*Claims, error) {
	if len(audiences) == 0 || t.issuer != i.options.URL {
		return nil, fmt.Errorf("%w: it is of another issuer, or for nobody", ErrToken)
	}
	keys, err := i.keysFor(ctx, t)
	if err != nil {
		return nil, err
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{t.algorithm}), jwt.WithStrictDecoding(), jwt.WithIssuer(i.options.URL),
		jwt.WithAudience(audiences...), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(clockSkew), jwt.WithTimeFunc(i.options.Clock))
	for _, k := range keys {
		claims := jwt.MapClaims{}
		_, err = parser.ParseWithClaims(t.raw, claims, func(*jwt.Token) (any, error) { return k.public, nil })
		if err == nil {
			return i.claims(k, claims)
		}
		if !errors.Is(err, jwt.ErrTokenSignatureInvalid) {
			break
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrToken, reason(err))
}

// reason returns why a token was refused, without the library's details.
func reason(err error) string {
	for _, known := range []error{jwt.ErrTokenSignatureInvalid, jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet, jwt.ErrTokenUsedBeforeIssued,
		jwt.ErrTokenInvalidAudience, jwt.ErrTokenInvalidIssuer, jwt.ErrTokenRequiredClaimMissing} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "it is malformed"
}

func (i *Issuer) claims(k *key, m jwt.MapClaims) (*Claims, error) {
	audiences, err := m.GetAudience()
	if err != nil {
		return nil, fmt.Errorf("%w: its audience is no text", ErrToken)
	}
	expires, err := m.GetExpirationTime()
	if err != nil || expires == nil {
		return nil, fmt.Errorf("%w: it has no time of expiry", ErrToken)
	}
	if seconds, ok := m["exp"].(float64); !ok || seconds < 0 || seconds > expiryMax {
		return nil, fmt.Errorf("%w: its time of expiry is no date", ErrToken)
	}
	c := &Claims{issuer: i, key: k.print, audiences: audiences, expires: expires.Time, texts: map[string][]string{}}
	for name, value := range m {
		switch value := value.(type) {
		case string:
			c.texts[name] = []string{value}
			if name == "scope" { // RFC 8693, 4.2: words
				c.texts[name] = strings.Fields(value)
			}
		case []any:
			for _, one := range value {
				if text, ok := one.(string); ok {
					c.texts[name] = append(c.texts[name], text)
				}
			}
		}
	}
	return c, nil
}
