package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/router/access"
)

// openMethods begins the names of methods that everybody may call: they only ask how the
// server is.
const openMethods = "/grpc.health.v1.Health/"

// watchesMax bounds the calls of openMethods that wait, as health's Watch does. They have a
// bound of their own: callers whom nobody knows must not take the places of those who are known.
const watchesMax = 1024

func isOpen(method string) bool { return strings.HasPrefix(method, openMethods) }

// metadataAuthorization has a caller's credentials, as HTTP's header of the name.
const metadataAuthorization = "authorization"

// admit gives the context of a call, which knows who calls. Errors: those of statusOf.
func (s *Server) admit(ctx context.Context, method string) (context.Context, error) {
	authority := s.options.Authority
	if authority == nil || isOpen(method) {
		return ctx, nil
	}
	var given access.Credentials
	if values := metadata.ValueFromIncomingContext(ctx, metadataAuthorization); len(values) > 0 {
		given.Authorization = []byte(values[0])
	}
	if p, ok := peer.FromContext(ctx); ok {
		given.From = p.Addr
		if tls, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.PeerCertificates) > 0 {
			given.Certificate = tls.State.PeerCertificates[0] // the handshake has verified it
		}
	}
	principal, err := authority.Authenticate(ctx, given)
	if err != nil {
		return nil, statusOf(err)
	}
	return access.With(ctx, principal), nil
}

// admitUnary bounds the calls that run at once, and finds out who calls.
func (s *Server) admitUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if isOpen(info.FullMethod) { // it does not wait
		return handler(ctx, request)
	}
	if !s.calls.take(1) {
		return nil, statusOf(errCalls)
	}
	defer s.calls.give(1)
	ctx, err := s.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

// admitStream is admitUnary for streams.
func (s *Server) admitStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	calls := s.calls
	if isOpen(info.FullMethod) {
		calls = s.watches
	}
	if !calls.take(1) {
		return statusOf(errCalls)
	}
	defer calls.give(1)
	ctx, err := s.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return handler(server, &admitted{stream, ctx})
}

// admitted is a stream of a caller who is known.
type admitted struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is a stream's
}

// Context gives the context that knows who calls.
func (a *admitted) Context() context.Context { return a.ctx }

// withKind gives an error of package access the kind that clients are told.
func withKind(err error) error {
	denied := (*access.DeniedError)(nil)
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return fmt.Errorf("%w: %w", wire.ErrUnauthenticated, err)
	case errors.As(err, &denied):
		return fmt.Errorf("%w: %w", wire.ErrDenied, err)
	case errors.Is(err, access.ErrBusy):
		return fmt.Errorf("%w: %w", series.ErrOverloaded, err)
	}
	return err
}
