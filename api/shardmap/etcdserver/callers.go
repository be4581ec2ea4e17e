package etcdserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// callers returns what has each call judged by Options.VerifyClient. etcd itself asks for a
// certificate of a CA only.
func (o *Options) callers() []grpc.ServerOption {
	if o.VerifyClient == nil || o.ClientTLS.CA == "" {
		return nil
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if err := o.verifyCaller(ctx); err != nil {
				return nil, err
			}
			return handle(ctx, request)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if err := o.verifyCaller(stream.Context()); err != nil {
				return err
			}
			return handle(server, stream)
		}),
	}
}

func (o *Options) verifyCaller(ctx context.Context) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.PermissionDenied, "a call without a connection")
	}
	secure, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return status.Error(codes.PermissionDenied, "a call without TLS")
	}
	if err := o.VerifyClient(secure.State.VerifiedChains); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}
