package auth

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
)

// Handler serves an ordinary HTTP port by next, once it is known who calls: that of a node, which
// has no front. GET and HEAD of /healthz and /readyz are for everybody. Answers that it writes
// itself are plain text.
func (a *Authenticator) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.IsProbe(r) {
			next.ServeHTTP(w, r)
			return
		}
		given := access.Credentials{Authorization: []byte(r.Header.Get("Authorization")), From: address(r.RemoteAddr)}
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			given.Certificate = r.TLS.PeerCertificates[0] // the handshake has verified it
		}
		p, err := a.Authenticate(r.Context(), given)
		switch {
		case err == nil:
			by, credential := access.ProofOf(p)
			audit.Of(r.Context()).SignedIn(p.Name(), by, credential)
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), p)))
		case errors.Is(err, access.ErrUnauthenticated):
			audit.Of(r.Context()).SignInFailed(err)
			w.Header().Add("WWW-Authenticate", `Basic realm="TickMesh", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, context.Canceled): // the client has gone
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// address is a net.Addr of a text.
type address string

var _ net.Addr = address("")

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }
