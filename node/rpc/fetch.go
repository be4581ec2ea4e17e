package rpc

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// chunkBytes is what one message of an export carries.
const chunkBytes = 256 << 10

func checksumOf(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) // the table is made once, by the library
}

// FetchShard sends the files of a shard, no faster than the caller asks, and all that are
// being sent no faster than Options.SendPace says.
func (s *Server) FetchShard(m *nodev1.FetchShardRequest, stream grpc.ServerStreamingServer[nodev1.FetchShardResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	shard, err := wire.ToShard(m.GetShard())
	if err == nil && (m.GetOffset() > math.MaxInt64 || m.GetExport() == "" && m.GetOffset() > 0) {
		err = fmt.Errorf("%w: offset %d of export %q", wire.ErrInvalid, m.GetOffset(), m.GetExport())
	}
	if err != nil {
		return wire.Status(err)
	}
	if !s.fetches.TryAcquire(1) {
		return wire.Status(fmt.Errorf("%w: %d exports are being sent", series.ErrOverloaded, s.options.FetchesMax))
	}
	defer s.fetches.Release(1)
	export, err := s.node.OpenExport(stream.Context(), shard, m.GetExport(), int64(m.GetOffset()))
	if err != nil {
		return wire.Status(err)
	}
	sendErr := sendExport(stream, export, int64(m.GetOffset()), s.options.SendPace, NewPace(m.GetBytesPerSecond()))
	if err := export.Bytes.Close(); err != nil {
		s.options.Logger.Warn("an export was not closed", "shard", shard, "error", err)
	}
	return sendErr
}

func sendExport(stream grpc.ServerStreamingServer[nodev1.FetchShardResponse], export *Export, offset int64, paces ...*Pace) error {
	response := &nodev1.FetchShardResponse{Export: &nodev1.Export{
		Id: export.ID, TotalBytes: uint64(export.TotalBytes), Index: export.Index, Term: export.Term,
	}, Offset: uint64(offset)}
	if err := stream.Send(response); err != nil {
		return err
	}
	for {
		chunk := make([]byte, chunkBytes) // gRPC may keep a message for a while
		n, err := io.ReadFull(export.Bytes, chunk)
		if n > 0 {
			for _, pace := range paces {
				if err := pace.wait(stream.Context(), n); err != nil {
					return wire.Status(err)
				}
			}
			data := chunk[:n]
			message := &nodev1.FetchShardResponse{Offset: uint64(offset), Data: data, Checksum: checksumOf(data)}
			if err := stream.Send(message); err != nil {
				return err
			}
			offset += int64(n)
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return wire.Status(err)
		case offset != export.TotalBytes:
			return wire.Status(fmt.Errorf("%w: export %s ends at %d instead of %d bytes", wire.ErrInternal, export.ID, offset, export.TotalBytes))
		default:
			return nil
		}
	}
}
