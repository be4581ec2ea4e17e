package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Field numbers of proto/tickmesh/node/v1/write.proto and BatchId.
const (
	requestFrames = 1

	frameSequence  = 1
	frameBatchID   = 2
	frameParts     = 3
	frameTimeoutMs = 4
	frameLevel     = 5

	batchIDSession = 1
	batchIDCounter = 2

	partShard  = 1
	partEra    = 2
	partBatch  = 3
	partPoints = 4
)

// Bounds of what is sent besides batches.
const (
	// PartBytesMax bounds what a part is larger than its batch.
	PartBytesMax = 2*(1+5) + 3*(1+5) + 8
	// FrameBytesMax bounds a frame without parts, in a request.
	FrameBytesMax = 5 * (2 + 2*10)
)

// Part is a part of a Frame as it is sent.
type Part struct {
	Shard  uint16
	Era    uint32
	Points uint32
	Batch  []byte
}

// Frame is a frame as it is sent: nodev1.Frame. A request is its frames one behind the
// other.
type Frame struct {
	Sequence  uint64
	ID        series.BatchID
	TimeoutMs uint32
	Level     series.Level
	Parts     []Part
}

func (p *Part) bytes() int {
	return 4*protowire.SizeTag(partShard) + protowire.SizeVarint(uint64(p.Shard)) + protowire.SizeVarint(uint64(p.Era)) +
		protowire.SizeBytes(len(p.Batch)) + protowire.SizeVarint(uint64(p.Points))
}

func batchIDBytes(id series.BatchID) int {
	return 2*protowire.SizeTag(batchIDSession) + protowire.SizeFixed64() + protowire.SizeVarint(id.Counter)
}

// bytes returns the length of the message, without its own length.
func (f *Frame) bytes() int {
	size := 3*protowire.SizeTag(frameSequence) + protowire.SizeVarint(f.Sequence) +
		protowire.SizeBytes(batchIDBytes(f.ID)) + protowire.SizeVarint(uint64(f.TimeoutMs))
	if f.Level != series.LevelMajority {
		size += protowire.SizeTag(frameLevel) + protowire.SizeVarint(uint64(FromLevel(f.Level)))
	}
	for i := range f.Parts {
		size += protowire.SizeTag(frameParts) + protowire.SizeBytes(f.Parts[i].bytes())
	}
	return size
}

// AppendTo appends the frame to a request: at most FrameBytesMax, and for each part
// PartBytesMax and its batch.
func (f *Frame) AppendTo(b []byte) []byte {
	b = protowire.AppendTag(b, requestFrames, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(f.bytes()))
	b = protowire.AppendTag(b, frameSequence, protowire.VarintType)
	b = protowire.AppendVarint(b, f.Sequence)
	b = protowire.AppendTag(b, frameBatchID, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(batchIDBytes(f.ID)))
	b = protowire.AppendTag(b, batchIDSession, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, f.ID.Session)
	b = protowire.AppendTag(b, batchIDCounter, protowire.VarintType)
	b = protowire.AppendVarint(b, f.ID.Counter)
	b = protowire.AppendTag(b, frameTimeoutMs, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(f.TimeoutMs))
	if f.Level != series.LevelMajority {
		b = protowire.AppendTag(b, frameLevel, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(FromLevel(f.Level)))
	}
	for i := range f.Parts {
		p := &f.Parts[i]
		b = protowire.AppendTag(b, frameParts, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(p.bytes()))
		b = protowire.AppendTag(b, partShard, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(p.Shard))
		b = protowire.AppendTag(b, partEra, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(p.Era))
		b = protowire.AppendTag(b, partBatch, protowire.BytesType)
		b = protowire.AppendBytes(b, p.Batch)
		b = protowire.AppendTag(b, partPoints, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(p.Points))
	}
	return b
}

// ReceivedFrame is a frame of a request. Its batches point into the request.
type ReceivedFrame struct {
	Sequence  uint64
	TimeoutMs uint32
	Frame     series.Frame
	// Err reports why the frame cannot be written, though its sequence could be read:
	// ErrInvalid.
	Err error
}

// RequestReader reads the frames of requests. Batches are not looked into.
type RequestReader struct {
	left []byte
	err  error
	seen [(shardMax + 1) / 64]uint64 // shards of the frame; empty between two of them
}

// Reset turns to another request.
func (r *RequestReader) Reset(request []byte) { r.left, r.err = request, nil }

// Next reads the next frame. It returns false at the end, and where the request is no
// message: then Err says so.
func (r *RequestReader) Next(f *ReceivedFrame) bool {
	for r.err == nil && len(r.left) > 0 {
		var v field
		if !r.field(&r.left, &v) {
			return false
		}
		if v.number == requestFrames && v.kind == protowire.BytesType {
			return r.frame(v.bytes, f)
		}
	}
	return false
}

// Err returns ErrInvalid when the request ended early because it is no message.
func (r *RequestReader) Err() error { return r.err }

// field is one field of a message: its varint or fixed number, or its bytes.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// field takes the next field off a message.
func (r *RequestReader) field(message *[]byte, f *field) bool {
	n, err := f.take(*message)
	if err != nil {
		r.err = err
		return false
	}
	*message = (*message)[n:]
	return true
}

// take reads the first field of a message and returns its length.
func (f *field) take(message []byte) (n int, err error) {
	var size int
	f.number, f.kind, n = protowire.ConsumeTag(message)
	if n < 0 || !f.number.IsValid() {
		return 0, fmt.Errorf("%w: no field of a message", ErrInvalid)
	}
	f.value, f.bytes = 0, nil
	switch rest := message[n:]; f.kind {
	case protowire.VarintType:
		f.value, size = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.value, size = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		f.bytes, size = protowire.ConsumeBytes(rest)
	default:
		size = protowire.ConsumeFieldValue(f.number, f.kind, rest)
	}
	if size < 0 {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, protowire.ParseError(size))
	}
	return n + size, nil
}

func (r *RequestReader) frame(message []byte, f *ReceivedFrame) bool {
	*f = ReceivedFrame{Frame: series.Frame{Parts: f.Frame.Parts[:0]}}
	var v field
	var level tickmeshv1.WriteLevel
	for points := uint64(0); len(message) > 0; {
		if !r.field(&message, &v) {
			break
		}
		switch {
		case v.number == frameSequence && v.kind == protowire.VarintType:
			f.Sequence = v.value
		case v.number == frameTimeoutMs && v.kind == protowire.VarintType:
			f.TimeoutMs = uint32(v.value)
			f.Frame.Timeout = time.Duration(f.TimeoutMs) * time.Millisecond
		case v.number == frameLevel && v.kind == protowire.VarintType:
			level = tickmeshv1.WriteLevel(int32(v.value))
		case v.number == frameBatchID && v.kind == protowire.BytesType:
			r.batchID(v.bytes, &f.Frame.ID)
		case v.number == frameParts && v.kind == protowire.BytesType:
			points += uint64(r.part(v.bytes, f))
			f.Frame.Points = int(min(points, math.MaxInt32))
		}
	}
	for i := range f.Frame.Parts {
		r.seen[f.Frame.Parts[i].Shard/64] = 0
	}
	if f.Err == nil {
		f.Frame.Level, f.Err = ToLevel(level)
	}
	if f.Err == nil {
		f.Err = checkFrame(&f.Frame)
	}
	return r.err == nil
}

func checkFrame(f *series.Frame) error {
	switch {
	case len(f.Parts) == 0:
		return fmt.Errorf("%w: a frame without parts", ErrInvalid)
	case (f.ID.Session == 0) != (f.ID.Counter == 0):
		return fmt.Errorf("%w: batch id with session %d and counter %d", ErrInvalid, f.ID.Session, f.ID.Counter)
	}
	return nil
}

func (r *RequestReader) batchID(message []byte, id *series.BatchID) {
	var v field
	for len(message) > 0 && r.field(&message, &v) {
		switch {
		case v.number == batchIDSession && v.kind == protowire.Fixed64Type:
			id.Session = v.value
		case v.number == batchIDCounter && v.kind == protowire.VarintType:
			id.Counter = v.value
		}
	}
}

// part adds a part to a frame and returns its number of points.
func (r *RequestReader) part(message []byte, f *ReceivedFrame) (points uint32) {
	var v field
	var shard uint32
	var p series.Part
	for len(message) > 0 && r.field(&message, &v) {
		switch {
		case v.number == partBatch && v.kind == protowire.BytesType:
			p.Batch = v.bytes
		case v.kind != protowire.VarintType:
		case v.number == partShard:
			shard = uint32(v.value)
		case v.number == partEra:
			p.Era = uint32(v.value)
		case v.number == partPoints:
			points = uint32(v.value)
		}
	}
	if f.Err != nil || r.err != nil {
		return 0
	}
	if p.Shard, f.Err = ToShard(shard); f.Err != nil {
		return 0
	}
	if bit := uint64(1) << (p.Shard % 64); r.seen[p.Shard/64]&bit == 0 {
		r.seen[p.Shard/64] |= bit
	} else {
		f.Err = fmt.Errorf("%w: two parts for shard %d", ErrInvalid, p.Shard)
		return 0
	}
	f.Frame.Parts = append(f.Frame.Parts, p)
	return points
}
