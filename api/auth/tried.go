package auth

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
)

// tried adds to the error of wrong credentials whose password was wrong, for the audit log. A
// name that no user has is left out: people type passwords there.
func (a *Authenticator) tried(c access.Credentials, err error) error {
	if known := (*audit.SignInError)(nil); errors.As(err, &known) || !errors.Is(err, access.ErrUnauthenticated) {
		return err
	}
	name := []byte(c.User)
	if len(name) == 0 && len(c.Authorization) > 0 && len(c.Authorization) <= headerBytesMax {
		var room [basicBytesMax]byte
		if s, ok := parseHeader(c.Authorization, &room); ok {
			name = s.user
		}
	}
	if u := a.options.Current().users[string(name)]; u != nil {
		return &audit.SignInError{User: u.name, Err: err}
	}
	return err
}
