package apitest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/router/api"
)

// Server is an API server on a port of the loopback interface.
type Server struct {
	Address string
	API     *api.Server
	grpc    *grpc.Server
	served  sync.WaitGroup
}

// Options returns the options of a server over a storage.
func Options(s *Storage) api.Options {
	return api.Options{Writer: s, Resolver: s, Generation: s.Generation, Shards: s.shards, Source: s, Deleter: s, Cluster: s, ClusterName: "test", Version: "test"}
}

// Start starts a server; an empty address is any free port, on a host of the loopback
// where nobody else takes it while the server is down.
func Start(o api.Options, address string) (*Server, error) {
	a, err := api.New(o)
	if err != nil {
		return nil, err
	}
	if address == "" {
		address = fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{Address: listener.Addr().String(), API: a, grpc: grpc.NewServer(a.ServerOptions(nil)...)}
	a.Register(s.grpc)
	s.served.Go(func() { _ = s.grpc.Serve(listener) }) // ends with Kill or Stop
	return s, nil
}

// Kill breaks all connections.
func (s *Server) Kill() {
	s.grpc.Stop()
	s.served.Wait()
}

// Stop stops the server gracefully.
func (s *Server) Stop() {
	s.API.Shutdown()
	s.grpc.GracefulStop()
	s.served.Wait()
}
