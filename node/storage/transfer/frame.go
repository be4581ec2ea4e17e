package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

const (
	frameHeadBytes  = 1 + 4 + 4
	frameSumBytes   = 4
	frameBytes      = 256 << 10 // of a payload that can be cut anywhere
	frameBytesMax   = 256 << 20
	frameFirstBytes = 1 << 20 // that a length alone may make the reader take
)

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
