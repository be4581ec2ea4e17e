package handshake

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Server checks the callers of the node service. Calls of other services pass.
type Server struct {
	self  func() Hello
	admit func(Hello) error
	names Names
}

// NewServer returns a check for the process self, which may learn its cluster's
// identity later. Admit may refuse what Check lets pass: retired data folders,
// twins. Both may be called at once from many goroutines. Names say how certificates
// are checked, where there is TLS.
func NewServer(self func() Hello, admit func(Hello) error, names Names) *Server {
	return &Server{self: self, admit: admit, names: names}
}

// Options are the interceptors for a gRPC server. The node service has to be registered by
// transport.Streamed, so that callers are judged before a message of theirs is read.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(refuseUnary), grpc.ChainStreamInterceptor(s.stream)}
}

type callerKey struct{}

// Caller returns the Hello of the caller whom a handler serves.
func Caller(ctx context.Context) (Hello, bool) {
	h, ok := ctx.Value(callerKey{}).(Hello)
	return h, ok
}

func concerns(method string) bool {
	return strings.HasPrefix(method, "/"+nodev1.NodeService_ServiceDesc.ServiceName+"/")
}

// refuseUnary refuses calls whose message was read before it was known who calls.
func refuseUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if !concerns(info.FullMethod) {
		return handle(ctx, request)
	}
	return nil, wire.Status(fmt.Errorf("%w: the service was not registered by transport.Streamed", wire.ErrInternal))
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if !concerns(info.FullMethod) {
		return handle(srv, stream)
	}
	caller, answer, err := s.check(stream.Context(), info.FullMethod)
	if answer != nil {
		if setErr := stream.SetHeader(answer); setErr != nil {
			return setErr
		}
	}
	if err != nil {
		return wire.Status(err)
	}
	return handle(srv, &serverStream{ServerStream: stream, ctx: context.WithValue(stream.Context(), callerKey{}, caller)})
}

// check returns the caller and the response header, which goes out with a refusal
// too: it says who refuses.
func (s *Server) check(ctx context.Context, method string) (Hello, metadata.MD, error) {
	self := s.self()
	encoded, err := self.Encode()
	if err != nil {
		return Hello{}, nil, fmt.Errorf("%w: own Hello: %w", wire.ErrInternal, err)
	}
	answer := metadata.Pairs(Header, encoded)
	headers := metadata.ValueFromIncomingContext(ctx, Header)
	if len(headers) != 1 {
		return Hello{}, answer, fmt.Errorf("%w: %d headers %s instead of one", wire.ErrInvalid, len(headers), Header)
	}
	caller, err := Decode(headers[0])
	if err != nil {
		return Hello{}, answer, err
	}
	if err := s.names.admit(ctx, method, caller); err != nil {
		return Hello{}, answer, err
	}
	if err := Check(self, caller); err != nil {
		return Hello{}, answer, err
	}
	return caller, answer, s.admit(caller)
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context has the caller.
func (s *serverStream) Context() context.Context { return s.ctx }
