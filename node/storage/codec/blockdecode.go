package codec

import (
	"encoding/binary"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// BlockReader decodes one block. It keeps scratch memory between blocks, ready
// when zero, and is not safe for concurrent use.
type BlockReader struct {
	column columnDecoder
	copied []byte // the payload and unpackSlack bytes
	length int    // of the payload
	flags  byte
	count  int
	times  int // where the column of times starts
	values int // where the scale or the column of values starts
}

// Reset starts to read a block. It copies the payload. Errors are ErrCorrupt.
func (b *BlockReader) Reset(payload []byte) error {
	b.count = 0
	b.length = len(payload)
	b.copied = append(b.copied[:0], payload...)
	b.copied = extend(b.copied, unpackSlack)
	r := reader{bytes: b.copied[:b.length]}
	b.flags = r.byte()
	count := r.uvarint()
	length := r.uvarint()
	if r.bad || b.flags&blockUnknown != 0 || b.flags == blockFloat|blockStrays ||
		count >= BlockSamplesMax || length > uint64(b.length-r.at) {
		return corrupt("head of a block", 0)
	}
	b.count = int(count) + 1
	b.times = r.at
	b.values = r.at + int(length)
	return nil
}

// Len returns the number of samples, 0 after an error of Reset.
func (b *BlockReader) Len() int { return b.count }

// room lengthens s by the block's samples, rounded up for the kernels.
func room[T any](s []T, count int) []T { return extend(s, (count+7)&^7) }

// Times appends the times in ms to dst. Errors are ErrCorrupt; dst is then as
// before.
func (b *BlockReader) Times(dst []int64) ([]int64, error) {
	n := len(dst)
	grown := room(dst, b.count)
	r := reader{bytes: b.copied[:b.values], at: b.times}
	if err := b.column.decode(&r, grown[n:], b.count); err != nil {
		return dst, err
	}
	if r.at != b.values {
		return dst, corrupt("end of the times", r.at)
	}
	return grown[:n+b.count], nil
}

// Interval returns the first time and the interval, both in ms, of a block whose
// times all have the same distance; ok is false for others, and for what Times
// would refuse.
func (b *BlockReader) Interval() (firstMs, intervalMs int64, ok bool) {
	if b.count == 0 {
		return 0, 0, false
	}
	r := reader{bytes: b.copied[:b.values], at: b.times}
	flags := r.byte()
	firstMs, intervalMs = r.varint(), r.varint()
	width := r.byte()
	return firstMs, intervalMs, flags == order1 && width == 0 && !r.bad && r.at == b.values
}

// AppendRegular appends count times to dst, the first one and further ones with the same
// distance.
func AppendRegular(dst []int64, firstMs, intervalMs int64, count int) []int64 {
	n := len(dst)
	dst = extend(dst, count)
	fillLine(dst[n:], firstMs, intervalMs)
	return dst
}

// chunkSamples are decoded at a time: all that happens to them, the processor does in its
// nearest cache.
const chunkSamples = 256

// Values appends the values of samples [from, to) to dst. Those behind are not decoded.
// Errors are ErrCorrupt; dst is then as before.
func (b *BlockReader) Values(dst []float64, from, to int) ([]float64, error) {
	n := len(dst)
	grown := room(dst, to)
	values := grown[n:]
	r, scale, err := b.mantissas(asInts(values))
	if err != nil {
		return dst, err
	}
	values = values[:to]
	for at := 0; at < to; at += chunkSamples {
		chunk := values[at:min(at+chunkSamples, to)]
		b.column.next(asInts(chunk))
		if before := from - at; before < len(chunk) {
			toFloats(chunk[max(before, 0):], scale)
		}
	}
	err = b.strays(&r, func(i int, bits uint64) {
		if i < to {
			values[i] = math.Float64frombits(bits)
		}
	})
	if err != nil {
		return dst, err
	}
	if from > 0 {
		copy(values, values[from:])
	}
	return grown[:n+to-from], nil
}

// Numbers appends the values as numbers to both slices, which must have the
// same length. Errors are ErrCorrupt; both are then as before.
func (b *BlockReader) Numbers(mantissas []int64, scales []uint8) ([]int64, []uint8, error) {
	n := len(mantissas)
	grown := room(mantissas, b.count)
	r, scale, err := b.mantissas(grown[n:])
	if err != nil {
		return mantissas, scales, err
	}
	grownScales := extend(scales, b.count)
	for i := range grownScales[len(scales):] {
		grownScales[len(scales)+i] = scale
	}
	b.column.next(grown[n : n+b.count])
	err = b.strays(&r, func(i int, bits uint64) {
		grown[n+i], grownScales[len(scales)+i] = int64(bits), series.ScaleFloat
	})
	if err != nil {
		return mantissas, scales, err
	}
	return grown[:n+b.count], grownScales, nil
}

// mantissas starts to decode the column of values.
func (b *BlockReader) mantissas(dst []int64) (r reader, scale uint8, err error) {
	r = reader{bytes: b.copied[:b.length], at: b.values}
	scale = series.ScaleFloat
	if b.flags&blockFloat == 0 {
		if scale = r.byte(); scale > series.ScaleMax {
			return r, 0, corrupt("scale of a block", b.values)
		}
	}
	return r, scale, b.column.start(&r, dst, b.count)
}

// strays visits the values that are apart, and checks that the block ends there.
func (b *BlockReader) strays(r *reader, visit func(i int, bits uint64)) error {
	if b.flags&blockStrays != 0 {
		for i := -1; ; {
			gap := r.uvarint()
			if gap == 0 {
				break
			}
			bits := r.take(8)
			if r.bad || gap > uint64(b.count-1-i) {
				return corrupt("stray value", r.at)
			}
			i += int(gap)
			visit(i, binary.LittleEndian.Uint64(bits))
		}
	}
	if r.bad || r.at != b.length {
		return corrupt("end of a block", r.at)
	}
	return nil
}
