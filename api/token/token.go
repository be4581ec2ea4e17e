package token

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/series"
)

// Errors of a Registry.
var (
	// ErrInvalid: the request for a token is wrong.
	ErrInvalid = errors.New("not a valid token")
	// ErrUnknown: there is no token of this id.
	ErrUnknown = errors.New("there is no such token")
	// ErrFull: there is no room for another token.
	ErrFull = errors.New("there are as many tokens as there may be")
	// ErrUnavailable: the store of tokens does not answer.
	ErrUnavailable = errors.New("tokens cannot be changed now")
	// ErrEnded: the token does not hold any more.
	ErrEnded = errors.New("does not hold")
)

// Bounds of a token.
const (
	nameBytesMax    = 64
	creatorBytesMax = 512
	rightsMax       = 64
	claimsMax       = 16
	claimBytesMax   = 256
	lineageMax      = 4
	LifetimeMin     = time.Minute
	LifetimeMax     = 366 * 24 * time.Hour
)

// Token is what is known of a token. None of it opens anything.
type Token struct {
	ID      string // 16 hexadecimal digits
	Digest  secret.Digest
	Name    string // what it is for, one word
	Creator Creator
	// Lineage are the ids of the tokens that it was made with, the eldest first, without each of
	// which it does not hold. Empty: it was made with a password or anything else.
	Lineage          []string
	Rights           Rights
	Created, Expires time.Time
	Used             time.Time // the hour of its last use; zero: none
	Revoked          time.Time // zero: it was not
	RevokedBy        string    // name of the user
}

// Creator is the user who made a token. What the token may do is bounded by what the rules of
// the day let that user do.
type Creator struct {
	User string // its name
	// Credential stands for what the user showed: without it the user is another one of the same
	// name. Zero: it was not noted, in tokens of older versions and of users of issuers.
	Credential secret.Digest
	Issuer     string // URL of the OpenID Connect issuer of the user; empty: a user of the auth file
	// Claims are those of the user for which the rules of the issuer gave rights.
	Claims []Claim
}

// Claim is a value of a claim of an issuer's token.
type Claim struct{ Name, Value string }

// Rights are rights by database in its canonical form; access.Everything is for those without
// a right of their own.
type Rights map[string]access.Right

// On returns the right on a database; 0: none.
func (r Rights) On(database string) access.Right {
	if own, ok := r[database]; ok {
		return own
	}
	return r[access.Everything]
}

// User returns the name of who shows the token, for logs.
func (t *Token) User() string { return "token:" + t.Creator.User + "/" + t.Name }

// End returns when the token ends or has ended.
func (t *Token) End() time.Time {
	if !t.Revoked.IsZero() && t.Revoked.Before(t.Expires) {
		return t.Revoked
	}
	return t.Expires
}

// Parent returns the id of the token that it was made with; empty: none.
func (t *Token) Parent() string {
	if len(t.Lineage) == 0 {
		return ""
	}
	return t.Lineage[len(t.Lineage)-1]
}

// validate checks all but the times of a token. Errors: ErrInvalid.
func (t *Token) validate() error {
	switch {
	case !isWord(t.Name, nameBytesMax):
		return fmt.Errorf("%w: the name %q: expected one word of at most %d letters, digits and signs of ASCII", ErrInvalid, t.Name, nameBytesMax)
	case !isUser(t.Creator.User):
		return fmt.Errorf("%w: the creator %q: expected a name of at most %d bytes of UTF-8 without spaces", ErrInvalid, t.Creator.User, creatorBytesMax)
	case len(t.Rights) == 0:
		return fmt.Errorf("%w: it has no right: name a database, or %q for all", ErrInvalid, access.Everything)
	case len(t.Rights) > rightsMax:
		return fmt.Errorf("%w: it has rights on %d databases, at most %d are taken", ErrInvalid, len(t.Rights), rightsMax)
	case len(t.Lineage) > lineageMax:
		return fmt.Errorf("%w: it would be made with a token that was made with a token, and so on, %d times: at most %d are taken; sign in by another way", ErrInvalid, len(t.Lineage), lineageMax)
	case len(t.Creator.Claims) > claimsMax || len(t.Creator.Issuer) > creatorBytesMax:
		return fmt.Errorf("%w: %d claims of its creator have rights, at most %d are taken", ErrInvalid, len(t.Creator.Claims), claimsMax)
	}
	for _, database := range slices.Sorted(maps.Keys(t.Rights)) {
		if err := series.ValidateDatabase(database); err != nil && database != access.Everything {
			return fmt.Errorf("%w: rights on %q: %w", ErrInvalid, database, err)
		}
		if t.Rights[database] > access.Admin {
			return fmt.Errorf("%w: right %d on %q", ErrInvalid, t.Rights[database], database)
		}
	}
	for _, id := range t.Lineage {
		if !isID(id) {
			return fmt.Errorf("%w: the id %q", ErrInvalid, id)
		}
	}
	for _, c := range t.Creator.Claims {
		if len(c.Name) > claimBytesMax || len(c.Value) > claimBytesMax {
			return fmt.Errorf("%w: a claim of its creator has more than %d bytes", ErrInvalid, claimBytesMax)
		}
	}
	return nil
}

// isUser reports whether a text may be the name of a user, as the auth file has it.
func isUser(name string) bool {
	if name == "" || len(name) > creatorBytesMax || !utf8.ValidString(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// isWord reports whether a text is printable ASCII without a space.
func isWord(text string, bytesMax int) bool {
	if text == "" || len(text) > bytesMax {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
