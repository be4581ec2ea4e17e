package archive

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

const (
	objectMagic       = "TICKMESH ARCHIVE"
	objectVersion     = 2
	nonceBytes        = 16
	objectHeaderBytes = len(objectMagic) + 4 + nonceBytes

	blockHeaderBytes = 8
	payloadBytesMax  = 32 << 20
	blockBytes       = 1 << 20  // a block is written when it has so many bytes
	blockBytesMax    = 16 << 20 // decompressed
	runSamplesMax    = 16 << 10 // written in one run, so that a block stays below its bound
)

// appendRun appends samples of one series to a block.
func appendRun(dst []byte, key series.Key, timesMs []int64, values []float64) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	dst = binary.AppendUvarint(dst, uint64(len(timesMs)))
	before := int64(0)
	for _, ms := range timesMs {
		dst = binary.AppendVarint(dst, ms-before)
		before = ms
	}
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// run is samples of one series. Its slices are used again for the next one.
type run struct {
	key     series.Key
	timesMs []int64
	values  []float64
}

// next reads a run from the front of a block and returns what is left. Errors: ErrDamaged.
func (r *run) next(block []byte) (rest []byte, err error) {
	length, n := binary.Uvarint(block)
	if n <= 0 || length > series.KeyBytesMax || uint64(len(block)-n) < length {
		return nil, fmt.Errorf("%w: a key of %d bytes", ErrDamaged, length)
	}
	r.key, block = series.Key(block[n:n+int(length)]), block[n+int(length):]
	if _, _, _, err := r.key.Parts(nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	count, n := binary.Uvarint(block)
	const sampleBytesMin = 9
	if n <= 0 || count == 0 || count > uint64(len(block)-n)/sampleBytesMin {
		return nil, fmt.Errorf("%w: a run of %d samples", ErrDamaged, count)
	}
	block = block[n:]
	r.timesMs, r.values = r.timesMs[:0], r.values[:0]
	ms := int64(0)
	for range count {
		delta, n := binary.Varint(block)
		if ms += delta; n <= 0 || ms < scan.TimeMsMin || ms > scan.TimeMsMax {
			return nil, fmt.Errorf("%w: a time is out of range", ErrDamaged)
		}
		r.timesMs, block = append(r.timesMs, ms), block[n:]
	}
	if uint64(len(block))/8 < count {
		return nil, fmt.Errorf("%w: a run ends early", ErrDamaged)
	}
	for i := range count {
		r.values = append(r.values, math.Float64frombits(binary.LittleEndian.Uint64(block[8*i:])))
	}
	return block[8*count:], nil
}
