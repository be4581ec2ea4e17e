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
	"github.com/tickmesh/tickmesh/router/ingest"
)

// grpcServer serves the public API or OpenTelemetry's service, and the standard health service. Its
// methods do nothing on nil, which stands for no listener.
type grpcServer struct {
	port     string // for the log
	listener *transport.Listener
	server   *grpc.Server
	health   *health.Server
	api      *api.Server
}

// listenAPI binds the address of the public API, as listenGRPC does.
func listenAPI(address string, connectionsMax int, a *api.Server, c credentials.TransportCredentials) (*grpcServer, error) {
	return listenGRPC("grpc", address, connectionsMax, a, c, func(s *grpc.Server) {
		a.Register(s)
		reflection.Register(s) // its methods are streams
	})
}

// listenOTLP binds the address of OpenTelemetry's service, as listenGRPC does.
func listenOTLP(address string, connectionsMax int, a *api.Server, c credentials.TransportCredentials, front *ingest.Server) (*grpcServer, error) {
	return listenGRPC("otlp", address, connectionsMax, a, c, func(s *grpc.Server) {
		a.RegisterOTLP(s, func(ctx context.Context, m api.OTLPMessage) ([]byte, error) {
			return front.ExportOTLP(ctx, ingest.OTLPMessage(m))
		})
	})
}

// listenGRPC binds the address; nothing is served before serve. Nil credentials
// mean no TLS.
func listenGRPC(port, address string, connectionsMax int, a *api.Server, c credentials.TransportCredentials, register func(*grpc.Server)) (*grpcServer, error) {
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
		port:     port,
	}
	register(g.server)
	healthpb.RegisterHealthServer(streamed{g.server}, g.health)
	return g, nil
}

// grpcPorts are the ports of gRPC.
type grpcPorts struct{ api, otlp *grpcServer }

// listenCalls binds the addresses of gRPC. On an error nothing is left open.
func (s *Settings) listenCalls(a *api.Server, front *ingest.Server, c credentials.TransportCredentials) (p grpcPorts, err error) {
	if p.api, err = listenAPI(string(s.GRPCAddr), int(s.connectionsMax), a, c); err != nil {
		return grpcPorts{}, err
	}
	if p.otlp, err = listenOTLP(string(s.OTLPAddr), int(s.connectionsMax), a, c, front); err != nil {
		p.stop(context.Background())
		return grpcPorts{}, err
	}
	return p, nil
}

func (p grpcPorts) serve(logger *slog.Logger) {
	p.api.serve(logger)
	p.otlp.serve(logger)
}

func (p grpcPorts) refuse() {
	p.api.refuse()
	p.otlp.refuse()
}

// stop stops all at once, as grpcServer's does.
func (p grpcPorts) stop(ctx context.Context) (ended bool) {
	otlp := make(chan bool, 1)
	go func() { otlp <- p.otlp.stop(ctx) }()
	ended = p.api.stop(ctx)
	return <-otlp && ended
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

// endpoints lists the methods as "PORT CALL METHOD".
func (g *grpcServer) endpoints(port string) (all []string) {
	for service, info := range g.server.GetServiceInfo() {
		for _, method := range info.Methods {
			all = append(all, port+" CALL /"+service+"/"+method.Name)
		}
	}
	return all
}

func (g *grpcServer) serve(logger *slog.Logger) {
	if g == nil {
		return
	}
	logger.Info("listening", "port", g.port, "address", g.listener.Addr().String())
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

// stop waits until running calls or ctx have ended, and reports whether all calls have. It may be called again.
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
