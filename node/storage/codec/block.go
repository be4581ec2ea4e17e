package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of a block's samples.
const (
	BlockSamples      = 1024 // of a block in a segment
	BlockSamplesDense = 8192 // of a block in a closed old partition
	BlockSamplesMax   = 8192
)

// ErrSamples is returned for columns that cannot be a block: none or too many
// samples, or columns of several lengths.
var ErrSamples = errors.New("number of samples")

// The bits of a block's first byte.
const (
	blockFloat   = 1 << 0 // values are the bits of floats, else decimals of one scale
	blockStrays  = 1 << 1 // some values are apart, as they are no decimals of that scale
	blockUnknown = ^byte(blockFloat | blockStrays)
)

const (
	// strayShare bounds the strays: one value in so many, else all are floats.
	strayShare = 8
	// scaleSpare is how many values in one justify a greater scale.
	scaleSpare = 32
)

// BlockEncoder packs blocks. The zero value is ready; it keeps scratch memory
// between blocks and is not safe for concurrent use.
type BlockEncoder struct {
	// Dense spends more time on encoding and decoding for fewer bytes. It pays
	// for blocks of BlockSamplesDense samples.
	Dense bool

	column    columnEncoder
	mantissas []int64
	strays    []int32
	bytes     []byte
}

// Append appends the block of the samples in columns to dst. There may be 1 to
// BlockSamplesMax samples, with any times and values. The error is ErrSamples.
func (e *BlockEncoder) Append(dst []byte, columns *Columns) ([]byte, error) {
	n := len(columns.Times)
	if n == 0 || n > BlockSamplesMax || n != len(columns.Mantissas) || n != len(columns.Scales) {
		return dst, fmt.Errorf("%w: %d times, %d mantissas, %d scales", ErrSamples, n, len(columns.Mantissas), len(columns.Scales))
	}
	scale := e.numbers(columns)
	flags := byte(0)
	if scale == series.ScaleFloat {
		flags = blockFloat
	} else if len(e.strays) > 0 {
		flags = blockStrays
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(n-1))
	e.bytes = e.column.append(e.bytes[:0], columns.Times, order2, e.Dense)
	dst = binary.AppendUvarint(dst, uint64(len(e.bytes)))
	dst = append(dst, e.bytes...)
	if flags&blockFloat != 0 {
		return e.column.append(dst, e.mantissas, order1, e.Dense), nil
	}
	dst = append(dst, scale)
	dst = e.column.append(dst, e.mantissas, order2, e.Dense)
	if flags&blockStrays != 0 {
		dst = e.appendStrays(dst, columns)
	}
	return dst, nil
}

func (e *BlockEncoder) appendStrays(dst []byte, columns *Columns) []byte {
	last := int32(-1)
	for _, i := range e.strays {
		dst = binary.AppendUvarint(dst, uint64(i-last))
		last = i
		bits := series.FloatNumber(series.Float64(columns.Mantissas[i], columns.Scales[i])).Mantissa
		dst = binary.LittleEndian.AppendUint64(dst, uint64(bits))
	}
	return append(dst, 0)
}

// numbers fills e.mantissas with all values in one scale, which it returns, and
// e.strays with the indexes of those that have no such mantissa.
func (e *BlockEncoder) numbers(columns *Columns) (scale uint8) {
	scale = chooseScale(columns.Scales)
	n := len(columns.Mantissas)
	e.mantissas = extend(e.mantissas[:0], n)
	e.strays = e.strays[:0]
	if scale != series.ScaleFloat {
		last := int64(0)
		for i, m := range columns.Mantissas {
			ok := columns.Scales[i] == scale && decimalInBounds(m)
			if !ok {
				m, ok = Rescale(m, columns.Scales[i], scale)
			}
			if !ok {
				if m = last; len(e.strays) == n/strayShare {
					scale = series.ScaleFloat
					break
				}
				e.strays = append(e.strays, int32(i))
			}
			e.mantissas[i], last = m, m
		}
	}
	if scale == series.ScaleFloat {
		e.strays = e.strays[:0]
		for i, m := range columns.Mantissas {
			e.mantissas[i], _ = Rescale(m, columns.Scales[i], series.ScaleFloat)
		}
		return scale
	}
	for scale > 0 && dividedBy10(e.mantissas) {
		scale--
	}
	return scale
}

// chooseScale returns the least scale that nearly all decimals fit in, or
// series.ScaleFloat.
func chooseScale(scales []uint8) uint8 {
	var counts [series.ScaleMax + 1]int
	decimals := 0
	for _, s := range scales {
		if s <= series.ScaleMax {
			counts[s]++
			decimals++
		}
	}
	if len(scales)-decimals > len(scales)/strayShare {
		return series.ScaleFloat
	}
	over := 0
	for s := uint8(series.ScaleMax); s > 0; s-- {
		if over += counts[s]; over > len(scales)/scaleSpare {
			return s
		}
	}
	return 0
}

// dividedBy10 divides all mantissas by 10 if that leaves no rest.
func dividedBy10(mantissas []int64) bool {
	for _, m := range mantissas {
		if m%10 != 0 {
			return false
		}
	}
	for i := range mantissas {
		mantissas[i] /= 10
	}
	return true
}
