package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// Everything means all databases where a right on the whole is asked for: changing the
// cluster, profiling the process. No database is called so.
const Everything = "*"

// Errors of an Authenticator.
var (
	// ErrUnauthenticated: these credentials are unknown, or there are none. Over HTTP it
	// is 401. It does not tell which of name and password was wrong.
	ErrUnauthenticated = errors.New("authentication failed")
	// ErrMissing is the ErrUnauthenticated of a caller that showed nothing at all.
	ErrMissing = fmt.Errorf("%w: no credentials were given", ErrUnauthenticated)
	// ErrBusy: too many passwords are being checked; the same again may pass. Over HTTP it
	// is 503.
	ErrBusy = errors.New("too many passwords are being checked, please try again later")
)

// Credentials are what a caller shows. Of several the first in the order of the fields
// counts; wrong ones are not made good by those behind.
type Credentials struct {
	User, Password string // of parameters or of a command; empty User: none
	Token          string // of a command; empty: none
	// Authorization is the value of the header, or of gRPC's metadata: Basic, Bearer or
	// Token. Empty: there is none. It is only valid during the call.
	Authorization []byte
	// Certificate is the one that the caller has shown by TLS and that was verified; nil:
	// none.
	Certificate *x509.Certificate
	// From is where the caller is, so that one host cannot keep all others from being
	// heard. Nil: not known.
	From net.Addr
}

// Authenticator identifies callers. It is safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the one whom the credentials belong to. What the Principal may do
	// follows the authenticator's rules for as long as it is used; one whose credentials
	// are taken back may do nothing. Errors: ErrUnauthenticated, ErrBusy, and that of ctx.
	Authenticate(ctx context.Context, c Credentials) (Principal, error)
	// Named returns a user without credentials, for ports whose protocol has none. Errors:
	// ErrUnauthenticated.
	Named(user string) (Principal, error)
}
