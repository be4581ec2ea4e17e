package codec

import (
	"encoding/binary"
	"math"

	"github.com/klauspost/compress/huff0"

	"github.com/tickmesh/tickmesh/api/series"
)

// oracleReader panics on bytes that are cut short.
type oracleReader struct{ b []byte }

func (r *oracleReader) take(n int) []byte {
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *oracleReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.take(n)
	return v
}

func (r *oracleReader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.take(n)
	return v
}

func (r *oracleReader) packed(count, width int) []uint64 {
	s := bitsOf(r.take((count*width+7)/8), false)
	values := make([]uint64, count)
	for i := range values {
		for k := range width {
			if s.bits[i*width+k] == '1' {
				values[i] |= 1 << k
			}
		}
	}
	return values
}

func (r *oracleReader) huffman(count int) (values []uint64, width int) {
	width = int(r.take(1)[0])
	coded := r.take(int(r.uvarint()))
	scratch, rest, err := huff0.ReadTable(coded, nil)
	if err != nil {
		panic(err)
	}
	per := map[int]int{1: 8, 2: 4, 3: 2}[width]
	if per > 0 {
		symbols, err := scratch.Decoder().Decompress4X(make([]byte, 0, (count+per-1)/per), rest)
		if err != nil {
			panic(err)
		}
		for i := range count {
			values = append(values, uint64(symbols[i/per])>>(i%per*width)&(1<<width-1))
		}
		return values, width
	}
	symbols, err := scratch.Decoder().Decompress4X(make([]byte, 0, count), rest)
	if err != nil {
		panic(err)
	}
	low := max(0, width-6)
	values = r.packed(count, low)
	for i := range values {
		values[i] += uint64(symbols[i]) & (1<<min(6, width) - 1) << low
	}
	return values, width
}

func (r *oracleReader) column(count int) []int64 {
	flags := r.take(1)[0]
	order, shift := int(flags&3), 0
	if flags&16 != 0 {
		shift = int(r.take(1)[0])
	}
	var values []int64
	for range order {
		values = append(values, r.varint())
	}
	base := r.varint()
	var u []uint64
	widths := make([]int, count)
	switch {
	case flags&32 != 0:
		var width int
		u, width = r.huffman(count)
		for i := range widths {
			widths[i] = width
		}
	case flags&8 != 0:
		for i, w := range r.take((count + 127) / 128) {
			for k := i * 128; k < min(count, i*128+128); k++ {
				widths[k] = int(w)
			}
		}
		for i := 0; i < count; i += 128 {
			u = append(u, r.packed(min(128, count-i), widths[i])...)
		}
	default:
		width := int(r.take(1)[0])
		for i := range widths {
			widths[i] = width
		}
		u = r.packed(count, width)
	}
	if flags&4 != 0 {
		for i := -1; ; {
			gap := r.uvarint()
			if gap == 0 {
				break
			}
			i += int(gap)
			u[i] += uint64(r.varint()) << widths[i]
		}
	}
	for i := order; i < count; i++ {
		residual := base + int64(u[i]<<shift)
		switch order {
		case 1:
			residual += values[i-1]
		case 2:
			residual += 2*values[i-1] - values[i-2]
		}
		values = append(values, residual)
	}
	return values
}

// oracleBlock decodes a sound block as FORMAT.md says.
func oracleBlock(payload []byte) (times []int64, values []float64) {
	r := &oracleReader{payload}
	flags := r.take(1)[0]
	count := int(r.uvarint()) + 1
	length := int(r.uvarint())
	times = (&oracleReader{r.take(length)}).column(count)
	scale := uint8(series.ScaleFloat)
	if flags&1 == 0 {
		scale = r.take(1)[0]
	}
	for _, m := range r.column(count) {
		values = append(values, series.Float64(m, scale))
	}
	if flags&2 != 0 {
		for i := -1; ; {
			gap := r.uvarint()
			if gap == 0 {
				break
			}
			i += int(gap)
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(r.take(8)))
		}
	}
	return times, values
}
