package fanout

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tickmesh/tickmesh/api/series"
)

// Field numbers of proto/tickmesh/node/v1/write.proto and BatchId.
const (
	requestSequence  = 1
	requestBatchID   = 2
	requestParts     = 3
	requestTimeoutMs = 4

	batchIDSession = 1
	batchIDCounter = 2

	partShard  = 1
	partEra    = 2
	partBatch  = 3
	partPoints = 4

	// partBytesMax bounds what a part is larger than its batch.
	partBytesMax = 2*(1+5) + 3*(1+5) + 8
	// requestBytesMax bounds a request without parts.
	requestBytesMax = 4 * (2 + 2*10)
)

// encoded is a WriteRequest as it is sent. The frame's bytes have been copied: a
// stream may still hold them when the frame's owner uses them again.
type encoded []byte

func newEncoded(bytesMax int, sequence uint64, id series.BatchID, timeoutMs uint32) encoded {
	b := make([]byte, 0, bytesMax)
	b = protowire.AppendTag(b, requestSequence, protowire.VarintType)
	b = protowire.AppendVarint(b, sequence)
	b = protowire.AppendTag(b, requestBatchID, protowire.BytesType)
	size := protowire.SizeTag(batchIDSession) + protowire.SizeFixed64() + protowire.SizeTag(batchIDCounter) + protowire.SizeVarint(id.Counter)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendTag(b, batchIDSession, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, id.Session)
	b = protowire.AppendTag(b, batchIDCounter, protowire.VarintType)
	b = protowire.AppendVarint(b, id.Counter)
	b = protowire.AppendTag(b, requestTimeoutMs, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(timeoutMs))
}

func (b encoded) appendPart(shard uint16, era, points uint32, batch []byte) encoded {
	size := protowire.SizeTag(partShard) + protowire.SizeVarint(uint64(shard)) +
		protowire.SizeTag(partEra) + protowire.SizeVarint(uint64(era)) +
		protowire.SizeTag(partBatch) + protowire.SizeBytes(len(batch)) +
		protowire.SizeTag(partPoints) + protowire.SizeVarint(uint64(points))
	b = protowire.AppendTag(b, requestParts, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendTag(b, partShard, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(shard))
	b = protowire.AppendTag(b, partEra, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(era))
	b = protowire.AppendTag(b, partBatch, protowire.BytesType)
	b = protowire.AppendBytes(b, batch)
	b = protowire.AppendTag(b, partPoints, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(points))
}

// codec sends what is encoded already as it is, and all other messages as gRPC does.
type codec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(e)}, nil
	}
	return c.CodecV2.Marshal(v)
}
