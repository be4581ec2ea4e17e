package rpc

import (
	"bufio"
	"context"
	"io"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// RepairShard has the node fetch a range of a shard from another one.
func (s *Server) RepairShard(ctx context.Context, m *nodev1.RepairShardRequest) (*nodev1.RepairShardResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	shard, err := wire.ToShard(m.GetShard())
	if err == nil {
		err = toRange(m.GetFromMs(), m.GetToMs())
	}
	if err == nil {
		err = s.node.RepairShard(ctx, shard, m.GetFromMs(), m.GetToMs())
	}
	if err != nil {
		return nil, wire.Status(err)
	}
	return &nodev1.RepairShardResponse{}, nil
}

// FetchRange sends the samples of a range of a shard.
func (s *Server) FetchRange(m *nodev1.FetchRangeRequest, stream grpc.ServerStreamingServer[nodev1.FetchRangeResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	shard, err := wire.ToShard(m.GetShard())
	if err == nil {
		err = toRange(m.GetFromMs(), m.GetToMs())
	}
	if err != nil {
		return wire.Status(err)
	}
	out := bufio.NewWriterSize(rangeSender{stream}, chunkBytes)
	err = s.node.ExportRange(stream.Context(), shard, m.GetFromMs(), m.GetToMs(), m.GetIndexMin(), out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return wire.Status(err)
	}
	return nil
}

// rangeSender sends what is written to it, a message at a time.
type rangeSender struct {
	stream grpc.ServerStreamingServer[nodev1.FetchRangeResponse]
}

// Write implements io.Writer.
func (r rangeSender) Write(p []byte) (n int, err error) {
	for n < len(p) {
		chunk := append([]byte(nil), p[n:min(n+chunkBytes, len(p))]...) // gRPC may keep a message for a while
		if err := r.stream.Send(&nodev1.FetchRangeResponse{Data: chunk}); err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}

// OpenRange asks a node for a range of a shard. The reader returns its bytes; errors of the
// node come as those of package wire. It must be closed, and ends with the context.
func OpenRange(ctx context.Context, conn grpc.ClientConnInterface, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := nodev1.NewNodeServiceClient(conn).FetchRange(ctx, &nodev1.FetchRangeRequest{
		Shard: uint32(shard), FromMs: fromMs, ToMs: toMs, IndexMin: indexMin,
	})
	if err != nil {
		cancel()
		return nil, wire.FromStatus(err)
	}
	return &rangeBytes{stream: stream, cancel: cancel}, nil
}

// rangeBytes are the bytes of a range on their way here.
type rangeBytes struct {
	stream grpc.ServerStreamingClient[nodev1.FetchRangeResponse]
	cancel context.CancelFunc
	rest   []byte
}

// Read implements io.Reader.
func (r *rangeBytes) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		m, err := r.stream.Recv()
		if err == io.EOF { //nolint:errorlint // gRPC returns io.EOF itself
			return 0, io.EOF
		}
		if err != nil {
			return 0, wire.FromStatus(err)
		}
		r.rest = m.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *rangeBytes) Close() error {
	r.cancel()
	return nil
}
