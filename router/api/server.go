package api

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/transport"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Levels of the API, see proto/README.md.
const (
	Level    = 2 // that the server has
	LevelMin = 1 // the lowest that clients may have
)

// BatchesInFlightMax is how far apart the counters of a session's batches without an
// answer may be: what storage remembers of a session.
const BatchesInFlightMax = 128

// Server serves the public API.
type Server struct {
	options Options
	metrics *metrics
	held    atomic.Int64 // bytes of writes: messages, sessions, and batches being written
	calls   *budget.Pool // in calls
	watches *budget.Pool // in calls
	buffers *transport.Buffers
	bulk    bulkReads
	frames  sync.Pool // of *outgoing

	stop     sync.Once
	stopping chan struct{}
}

// New makes a Server. Its only error is ErrOptions.
func New(o Options) (*Server, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{
		options:  o,
		calls:    budget.New(int64(o.Limits.CallsMax), 0),
		watches:  budget.New(watchesMax, 0),
		buffers:  new(transport.Buffers),
		stopping: make(chan struct{}),
	}
	s.frames.New = func() any { return new(outgoing) }
	s.metrics = newMetrics(s)
	o.Registerer.MustRegister(s.metrics.collectors()...)
	return s, nil
}

// ServerOptions are for the gRPC server that Register is given; nil credentials: no
// TLS. All services of that server have to be registered by transport.Streamed.
func (s *Server) ServerOptions(c credentials.TransportCredentials) []grpc.ServerOption {
	return append(transport.ServerOptions(c),
		grpc.MaxRecvMsgSize(s.options.Limits.MessageBytesMax),
		grpc.InTapHandle(s.tap),
		grpc.ChainUnaryInterceptor(refuseUnary), grpc.ChainStreamInterceptor(s.admitStream))
}

// Register adds the services to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(transport.Streamed(&tickmeshv1.WriteService_ServiceDesc), &writeService{s: s})
	r.RegisterService(transport.Streamed(&tickmeshv1.QueryService_ServiceDesc), &queryService{s: s})
	r.RegisterService(transport.Streamed(&tickmeshv1.ClusterService_ServiceDesc), &clusterService{s: s})
}

// Shutdown ends the streams of writes: what was read is written and answered, what
// is behind is not read. It does not wait. A second call does nothing.
func (s *Server) Shutdown() { s.stop.Do(func() { close(s.stopping) }) }
