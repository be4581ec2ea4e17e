package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/router/api"
)

// grpcServer serves the public API, the standard health service and reflection. Its
// methods do nothing on nil, which stands for no listener.
type grpcServer struct {
	listener *transport.Listener
	server   *grpc.Server
	health   *health.Server
	api      *api.Server
}

// listenGRPC binds the address; nothing is served before serve. Nil credentials
// mean no TLS.
func listenGRPC(address string, connectionsMax int, a *api.Server, c credentials.TransportCredentials) (*grpcServer, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	g := &grpcServer{
		listener: transport.NewListener(netutil.LimitListener(listener, connectionsMax)),
		server:   grpc.NewServer(a.ServerOptions(c)...),
		health:   health.NewServer(),
		api:      a,
	}
	a.Register(g.server)
	healthpb.RegisterHealthServer(streamed{g.server}, g.health)
	reflection.Register(g.server) // its methods are streams
	return g, nil
}

// streamed registers services as the public API needs them.
type streamed struct{ *grpc.Server }

// RegisterService implements grpc.ServiceRegistrar.
func (s streamed) RegisterService(d *grpc.ServiceDesc, service any) {
	s.Server.RegisterService(transport.Streamed(d), service)
}

func (g *grpcServer) address() net.Addr {
	if g == nil {
		return nil
	}
	return g.listener.Addr()
}

func (g *grpcServer) serve(logger *slog.Logger) {
	if g == nil {
		return
	}
	logger.Info("listening", "port", "grpc", "address", g.listener.Addr().String())
	go func() {
		if err := g.server.Serve(g.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			logger.Error("gRPC is served no more", "error", err)
		}
	}()
}

// refuse answers NOT_SERVING from now on.
func (g *grpcServer) refuse() {
	if g != nil {
		g.health.Shutdown()
	}
}

// abandonAfter is how long calls have to see that their context has ended.
const abandonAfter = 250 * time.Millisecond

// stop lets running calls end until ctx does, and reports whether all have. It may be called again.
func (g *grpcServer) stop(ctx context.Context) (ended bool) {
	if g == nil {
		return true
	}
	g.health.Shutdown()
	g.api.Shutdown()
	defer g.listener.Close() // that is not the server's yet where it never served; a second close is harmless
	g.listener.CloseSilent()
	done := make(chan struct{})
	go func() { g.server.GracefulStop(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	g.listener.CloseConnections()
	g.server.Stop()
	select {
	case <-done:
		return true
	case <-time.After(abandonAfter): // a call that does not look at its context is not waited for
		return false
	}
}
