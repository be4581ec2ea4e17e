package rpc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Options of a Server. Zero values mean the defaults.
type Options struct {
	// Bounds of bytes that callers hold, by kind of call; 64 MiB each. A message is charged
	// before it is read.
	WriteBytesMax   int64 // of frames in work, over all streams
	ControlBytesMax int64 // of what keeps the cluster together, as envelopes
	RequestBytesMax int64 // of all other calls
	ScanBytesMax    int64 // of what scans hold until they can answer, as the samples that a step sees
	// Bounds of calls at once, each of which may hold a window (transport.ServerStreamWindowBytes)
	// that is not charged.
	WriteCallsMax   int           // 256
	ControlCallsMax int           // 512
	RequestCallsMax int           // 1024
	MessageTimeout  time.Duration // in which a message has to arrive, from its length on; 30 s

	WritesMax       int             // frames in work on one stream; 256
	WriteTimeoutMax time.Duration   // for a frame; 30 s
	FetchesMax      int64           // exports being sent at once; 4
	SendPace        *Pace           // of all exports together; nil: no bound
	Names           handshake.Names // of callers, where there is TLS
	Now             func() time.Time
	Logger          *slog.Logger
}

func (o Options) withDefaults() Options {
	const bytesMax = 2 * transport.MessageBytesMax
	o.WriteBytesMax = cmp.Or(o.WriteBytesMax, bytesMax)
	o.ControlBytesMax = cmp.Or(o.ControlBytesMax, bytesMax)
	o.RequestBytesMax = cmp.Or(o.RequestBytesMax, bytesMax)
	o.ScanBytesMax = cmp.Or(o.ScanBytesMax, bytesMax)
	o.WriteCallsMax = cmp.Or(o.WriteCallsMax, 256)
	o.ControlCallsMax = cmp.Or(o.ControlCallsMax, 512)
	o.RequestCallsMax = cmp.Or(o.RequestCallsMax, 1024)
	o.MessageTimeout = cmp.Or(o.MessageTimeout, 30*time.Second)
	if o.WritesMax == 0 {
		o.WritesMax = 256
	}
	if o.WriteTimeoutMax == 0 {
		o.WriteTimeoutMax = 30 * time.Second
	}
	if o.FetchesMax == 0 {
		o.FetchesMax = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves the node service.
type Server struct {
	nodev1.UnimplementedNodeServiceServer
	node    Node
	options Options
	bounds  [kinds]bound // by kind of call
	// scans is of budget.New, of which one owner has half at most, where a router's queries have seven eighths: a scan here waits for
	// others and may take all when it is alone, and what one owner has is of queries of several routers.
	scans       *budget.Pool
	fetches     *semaphore.Weighted
	buffers     *transport.Buffers
	spareFrames sync.Pool // of *writeFrame
	links       *links
}

// NewServer returns a server over a node.
func NewServer(node Node, o Options) *Server {
	o = o.withDefaults()
	return &Server{
		node: node, options: o, bounds: newBounds(&o), scans: budget.New(o.ScanBytesMax, memoryWaitMax),
		fetches: semaphore.NewWeighted(o.FetchesMax),
		buffers: new(transport.Buffers),
		links:   newLinks(o.Now),
	}
}

// GRPCOptions are what the gRPC server has to be made with, besides
// transport.ServerOptions: without them every call is refused.
func (s *Server) GRPCOptions() []grpc.ServerOption {
	return append(handshake.NewServer(s.node.Hello, s.node.Admit, s.options.Names).Options(), grpc.ChainStreamInterceptor(s.admit))
}

// Register adds the service to a gRPC server.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	g.RegisterService(transport.Streamed(&nodev1.NodeService_ServiceDesc), s)
}

// caller returns the Hello that the handshake let pass.
func caller(ctx context.Context) (handshake.Hello, error) {
	h, ok := handshake.Caller(ctx)
	if !ok {
		return h, wire.Status(fmt.Errorf("%w: the server was made without its handshake", wire.ErrInternal))
	}
	return h, nil
}

// Handshake answers who the node is.
func (s *Server) Handshake(ctx context.Context, _ *nodev1.HandshakeRequest) (*nodev1.HandshakeResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	return &nodev1.HandshakeResponse{Hello: s.node.Hello().Message()}, nil
}

// Delete hides samples of some shards.
func (s *Server) Delete(ctx context.Context, m *nodev1.DeleteRequest) (*nodev1.DeleteResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	request, err := toDeleteRequest(m)
	if err != nil {
		return nil, wire.Status(err)
	}
	deleted, err := s.node.Delete(ctx, request)
	if err != nil {
		return nil, wire.Status(err)
	}
	response := &nodev1.DeleteResponse{}
	for _, d := range deleted {
		response.Ends = append(response.Ends, wire.FromShardEnd(d.Shard, d.Err))
		response.SeriesTouched = append(response.SeriesTouched, d.SeriesTouched)
	}
	return response, nil
}

// Digest returns a digest of a shard's samples.
func (s *Server) Digest(ctx context.Context, m *nodev1.DigestRequest) (*nodev1.DigestResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	shard, err := wire.ToShard(m.GetShard())
	if err != nil {
		return nil, wire.Status(err)
	}
	if err := toRange(m.GetFromMs(), m.GetToMs()); err != nil {
		return nil, wire.Status(err)
	}
	digest, err := s.node.Digest(ctx, shard, m.GetFromMs(), m.GetToMs())
	if err != nil {
		return nil, wire.Status(err)
	}
	return &nodev1.DigestResponse{AppliedIndex: digest.AppliedIndex, UnchangedSinceIndex: digest.UnchangedSince, Digest: digest.Bytes}, nil
}

// Report returns what the node has and does.
func (s *Server) Report(ctx context.Context, m *nodev1.ReportRequest) (*nodev1.ReportResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	response, err := s.node.Report(ctx, m)
	if err != nil {
		return nil, wire.Status(err)
	}
	response.Hello = s.node.Hello().Message()
	return response, nil
}

// TransferLeader asks the node to hand over a shard.
func (s *Server) TransferLeader(ctx context.Context, m *nodev1.TransferLeaderRequest) (*nodev1.TransferLeaderResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	shard, err := wire.ToShard(m.GetShard())
	if err != nil {
		return nil, wire.Status(err)
	}
	if err := s.node.TransferLeader(ctx, shard, m.GetToNode()); err != nil {
		return nil, wire.Status(err)
	}
	return &nodev1.TransferLeaderResponse{}, nil
}

// limitOf returns a limit of a message as an int.
func limitOf(m uint32) int { return int(min(m, math.MaxInt32)) }
