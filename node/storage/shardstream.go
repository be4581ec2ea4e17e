package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// ErrStream marks bytes that are not what an Export writes.
var ErrStream = errors.New("not the stream of a shard")

// streamFormat is the version of the stream, in its header. FORMAT.md has the layout.
const streamFormat = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

// The kinds of frames, in the order in which they come.
const (
	frameHeader    = 1 // JSON: streamHeader
	frameBatches   = 2 // the table of batch ids
	frameTombstone = 3 // one each
	frameKeys      = 4 // of series, by id: uvarint length, key
	frameSegment   = 5 // the next bytes of the present segment's file
	frameEnd       = 6 // nothing
)

const (
	frameHeadBytes  = 1 + 4 + 4
	frameSumBytes   = 4
	frameBytes      = 256 << 10 // of a payload that can be cut anywhere
	frameBytesMax   = 256 << 20
	frameFirstBytes = 1 << 20 // that a length alone may make the reader take
)

// ShardExport describes what a stream brings.
type ShardExport struct {
	Shard uint16 `json:"shard"`
	// Index is the entry that the state stands for. Replaying all entries behind it
	// gives the sender's state; but samples and deletes up to the entry Through may
	// be there already, so before that one is applied the shard is no state that
	// ever was, and nothing may be read from it.
	Index   uint64 `json:"index"`
	Through uint64 `json:"through"`
	CutMs   int64  `json:"cutMs"` // samples before it are gone
	// retention.Cuts are cuts of some series, see retention.Cuts.
	RuleCuts []retention.Cuts `json:"ruleCuts,omitempty"`
	Series   uint32           `json:"series"` // ids that have been given
	Samples  int64            `json:"samples"`
	Bytes    int64            `json:"bytes"` // of all frames but the first
}

// streamHeader begins a stream.
type streamHeader struct {
	Format   int     `json:"format"`
	Shards   int     `json:"shards"` // of the sender's folder
	Segments []int64 `json:"segments"`
	ShardExport
}

// streamTombstone is a delete that hides samples of the first segments.
type streamTombstone struct {
	hides        uint64 // so many segments
	entry        uint64
	ids          []uint32
	fromMs, toMs int64
}

func (t *streamTombstone) encode() []byte {
	b := binary.AppendUvarint(nil, t.hides)
	b = binary.AppendUvarint(b, t.entry)
	return append(b, entry.DeleteBody(t.ids, t.fromMs, t.toMs)...)
}

func decodeStreamTombstone(b []byte) (t streamTombstone, err error) {
	for _, field := range [...]*uint64{&t.hides, &t.entry} {
		v, used := binary.Uvarint(b)
		if used <= 0 {
			return t, fmt.Errorf("%w: a tombstone", ErrStream)
		}
		*field, b = v, b[used:]
	}
	if t.ids, t.fromMs, t.toMs, err = entry.ParseDeleteBody(b); err != nil {
		return t, fmt.Errorf("%w: %w", ErrStream, err)
	}
	return t, nil
}

// beginFrame appends a frame's head to dst; the payload follows it.
func beginFrame(dst []byte, kind uint8, number uint32, payloadBytes int) []byte {
	dst = append(dst, kind)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	return binary.LittleEndian.AppendUint32(dst, uint32(payloadBytes))
}

// endFrame appends the checksum of a frame that began at an index of dst.
func endFrame(dst []byte, from int) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// frameReader reads frames one after the other.
type frameReader struct {
	r       io.Reader
	number  uint32
	payload bytes.Buffer
}

// next returns the next frame; the payload is reused. Errors: ErrStream and those of
// the reader, io.ErrUnexpectedEOF when it ends.
func (f *frameReader) next() (kind uint8, payload []byte, err error) {
	var head [frameHeadBytes]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, fmt.Errorf("read frame %d of a shard: %w", f.number, err)
	}
	n := int64(binary.LittleEndian.Uint32(head[5:]))
	if number := binary.LittleEndian.Uint32(head[1:]); number != f.number || n > frameBytesMax {
		return 0, nil, fmt.Errorf("%w: frame %d of %d bytes, want frame %d", ErrStream, number, n, f.number)
	}
	// The buffer grows with what comes, not with what is promised.
	f.payload.Reset()
	f.payload.Grow(int(min(n, frameFirstBytes)))
	if _, err := io.CopyN(&f.payload, f.r, n+frameSumBytes); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, fmt.Errorf("read frame %d of a shard: %w", f.number, err)
	}
	b := f.payload.Bytes()
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, b[:n])
	if sum != binary.LittleEndian.Uint32(b[n:]) {
		return 0, nil, fmt.Errorf("%w: checksum of frame %d", ErrStream, f.number)
	}
	f.number++
	return head[0], b[:n], nil
}
