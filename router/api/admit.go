package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/wire"
)

// openMethods begins the names of methods that everybody may call: they only ask how the
// server is.
const openMethods = "/grpc.health.v1.Health/"

// watchesMax bounds the calls of openMethods that wait, as health's Watch does. They have a
// bound of their own: unknown callers must not take the places of known ones.
const watchesMax = 1024

func isOpen(method string) bool { return strings.HasPrefix(method, openMethods) }

// metadataAuthorization has a caller's credentials, as HTTP's header of the name.
const metadataAuthorization = "authorization"

// tap refuses callers by the headers of a call, before anything is kept of it. It holds the
// connection meanwhile: passwords, which are slow to check, are left to admitStream, which
// comes before the first message too.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.options.Authenticator == nil || isOpen(info.FullMethodName) {
		return ctx, nil
	}
	given := s.credentials(ctx)
	if isPassword(given.Authorization) {
		return ctx, nil
	}
	start := time.Now()
	known, err := s.authenticate(ctx, given)
	if err != nil {
		s.audit(ctx, info.FullMethodName, nil, start, err)
	}
	return known, err
}

// isPassword reports whether the value of an authorization header has a password.
func isPassword(authorization []byte) bool {
	const basic = "basic "
	return len(authorization) > len(basic) && strings.EqualFold(string(authorization[:len(basic)]), basic)
}

// credentials returns what a caller shows.
func (s *Server) credentials(ctx context.Context) (given access.Credentials) {
	// Several are no credentials: a proxy may have added one, and nobody knows which of them it means.
	given.Authorization = []byte(strings.Join(metadata.ValueFromIncomingContext(ctx, metadataAuthorization), ", "))
	if p, ok := peer.FromContext(ctx); ok {
		given.From = p.Addr
		if tls, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.PeerCertificates) > 0 {
			given.Certificate = tls.State.PeerCertificates[0] // the handshake has verified it
		}
	}
	return given
}

// authenticate returns the context of a call with its caller. Errors: those of statusOf.
func (s *Server) authenticate(ctx context.Context, given access.Credentials) (context.Context, error) {
	principal, err := s.options.Authenticator.Authenticate(ctx, given)
	if err != nil {
		return ctx, statusOfSignIn(err)
	}
	return s.confine(ctx, principal)
}

// confine returns the context of a call with its principal. Metadata that names a database
// takes the rights on all others away. Where only the header counts, a call without it is
// for the only database of its user, else of an administrator of all, else of no database.
// Errors: those of statusOf.
func (s *Server) confine(ctx context.Context, p access.Principal) (context.Context, error) {
	names := metadata.ValueFromIncomingContext(ctx, access.DatabaseHeader)
	for _, name := range names {
		if access.Canonical(name) != access.Canonical(names[0]) {
			err := access.Disagreement(access.DatabaseHeader, names[0], access.DatabaseHeader, name)
			return ctx, statusOf(fmt.Errorf("%w: %w", wire.ErrInvalid, err))
		}
	}
	if s.options.DatabasesJoined && len(names) > 0 && strings.Contains(names[0], access.DatabaseJoint) {
		return ctx, statusOf(fmt.Errorf("%w: %w", wire.ErrInvalid, access.ErrDatabases))
	}
	known := access.With(ctx, p)
	if len(names) > 0 {
		return access.With(ctx, access.Confine(p, access.Canonical(names[0]))), nil
	}
	if !s.options.DatabaseFromHeader || access.Known(known) && p.May(access.Everything, access.Admin) {
		return known, nil
	}
	if only, single := access.Only(p); single {
		return access.With(ctx, access.Confine(p, only)), nil
	}
	return access.With(ctx, access.WithoutDatabases(p)), nil
}

// refuseUnary is not reached: all services are of streams.
func refuseUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, statusOf(fmt.Errorf("%w: the service was not registered by transport.Streamed", wire.ErrInternal))
}

// admitStream bounds the calls that run at once, and finds out who calls.
func (s *Server) admitStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := stream.Context()
	owner := budget.Owner{}
	if p, ok := peer.FromContext(ctx); ok {
		owner.Address = budget.AddressOf(p.Addr)
	}
	calls, open := s.calls, isOpen(info.FullMethod)
	if open {
		calls = s.watches
	}
	place := calls.Lease(owner)
	if !place.TryAcquire(1) {
		return statusOf(errCalls)
	}
	defer place.Close()
	var err error
	start := time.Now()
	switch {
	case open:
	case s.options.Authenticator == nil:
		ctx, err = s.confine(ctx, access.Anyone())
	case !access.Known(ctx):
		ctx, err = s.authenticate(ctx, s.credentials(ctx))
	}
	if err != nil {
		s.audit(ctx, info.FullMethod, nil, start, err)
		return err
	}
	if access.Known(ctx) {
		owner.Tenant = access.Of(ctx).Name()
	}
	c := s.newCall(owner, info, open)
	defer c.end()
	ctx = context.WithValue(ctx, callKey{}, c)
	if open || s.options.Audit == nil {
		return handler(server, &admitted{ServerStream: stream, ctx: ctx, call: c})
	}
	gathered := s.gather(ctx, info.FullMethod, start)
	err = handler(server, &admitted{ServerStream: stream, ctx: audit.With(ctx, gathered), call: c})
	s.audit(ctx, info.FullMethod, gathered, start, err)
	return err
}
