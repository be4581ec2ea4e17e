package auth

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
)

// Handler serves an ordinary HTTP port by next, once it is known who calls: that of a node, which
// has no front. GET and HEAD of /healthz and /readyz are for everybody. Answers that it gives
// itself are plain text.
func (a *Authority) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isHealth(r) {
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
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), p)))
		case errors.Is(err, access.ErrUnauthenticated):
			w.Header().Add("WWW-Authenticate", `Basic realm="TickMesh", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, context.Canceled): // nobody hears
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// isHealth reports whether a request only asks how the server is. The target counts as it was
// sent, so that nothing else can be reached under the name.
func isHealth(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.EscapedPath() == r.URL.Path && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// address is a net.Addr of a text.
type address string

var _ net.Addr = address("")

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }
