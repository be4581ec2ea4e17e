package codec

import (
	"encoding/binary"

	"github.com/klauspost/compress/huff0"
)

// symbolBits is the most bits that a symbol takes of one value. Residuals are
// smooth enough that more would win nothing but larger tables: measured on walks
// and counters with uniform, normal and exponential steps.
const symbolBits = 6

// entropyEncoder codes the top bits of values by Huffman. Values of 3 bits and
// less are coded several at a time, so that a frequent value can cost less than
// a bit. Ready when zero.
type entropyEncoder struct {
	symbols []byte
	low     []uint64
	out     []byte
	huffman huff0.Scratch
}

const (
	// huffmanGain is how many bytes coded values may have for each 1000 of packed
	// ones: what is harder to decode must be worth it.
	huffmanGain = 985

	// huffmanPatchShare bounds the exceptions: one in so many values.
	huffmanPatchShare = 256
)

// valuesPerSymbol returns how many values of a width share a symbol.
func valuesPerSymbol(width uint) int {
	switch width {
	case 1:
		return 8
	case 2:
		return 4
	case 3:
		return 2
	}
	return 1
}

// append returns the coded values if they need clearly fewer bytes than packed. The
// result is valid until the next call.
func (e *entropyEncoder) append(values []uint64, all *sizes, packed int) (coded []byte, flags byte, ok bool) {
	width, exceptions := uint(64), 0
	for width > 1 && exceptions+int(all.count[width]) <= len(values)/huffmanPatchShare {
		exceptions += int(all.count[width])
		width--
	}
	shift := width - min(width, symbolBits)
	e.gather(values, width)
	e.huffman.Reuse = huff0.ReusePolicyNone
	out, _, err := huff0.Compress4X(e.symbols, &e.huffman)
	bound := packed * huffmanGain / 1000
	if err != nil || len(out) >= bound { // incompressible, too few, or all the same
		return nil, 0, false
	}
	flags = columnHuffman
	e.out = append(e.out[:0], byte(width))
	e.out = binary.AppendUvarint(e.out, uint64(len(out)))
	e.out = append(e.out, out...)
	e.out = appendPacked(e.out, e.low, shift)
	start := len(e.out)
	if e.out = appendPatches(e.out, values, []uint8{byte(width)}); len(e.out) > start {
		flags |= columnPatched
	}
	return e.out, flags, len(e.out) <= bound
}

// gather fills e.symbols with the top bits of values, or with several values of
// a small width, and e.low with the bits below.
func (e *entropyEncoder) gather(values []uint64, width uint) {
	if per := valuesPerSymbol(width); per > 1 {
		e.low = e.low[:0]
		e.symbols = extend(e.symbols[:0], (len(values)+per-1)/per)
		clear(e.symbols)
		mask := byte(1<<width - 1)
		for i, v := range values {
			e.symbols[i/per] |= byte(v) & mask << (uint(i%per) * width)
		}
		return
	}
	shift := width - min(width, symbolBits)
	e.symbols = extend(e.symbols[:0], len(values))
	e.low = extend(e.low[:0], len(values))
	mask := ^uint64(0) >> (64 - width)
	for i, v := range values {
		v &= mask
		e.symbols[i] = byte(v >> shift)
		e.low[i] = v & (1<<shift - 1)
	}
}

// entropyDecoder is the other direction. Ready when zero.
type entropyDecoder struct {
	huffman huff0.Scratch
	symbols []byte

	// Of symbols of one value each, the top bits of the values to come.
	pending  []byte
	topShift uint
	topMask  int64
}

// top returns the bits of a value that a pending symbol stands for.
func (d *entropyDecoder) top(symbol byte) int64 {
	return int64(symbol) & d.topMask << (d.topShift & 63)
}

// over puts symbols that were pending over the low bits of their values.
func (d *entropyDecoder) over(values []int64, symbols []byte) {
	values = values[:len(symbols)]
	for i, s := range symbols {
		values[i] |= d.top(s)
	}
}

// decode reads the coded top bits of count values, and puts those of the first ones over the
// low bits that are in values, or leaves them pending. The length of values is a multiple of 8.
func (d *entropyDecoder) decode(coded []byte, values []int64, count int, width uint) bool {
	per := valuesPerSymbol(width)
	length := (count + per - 1) / per
	d.huffman.MaxDecodedSize = length
	scratch, rest, err := huff0.ReadTable(coded, &d.huffman)
	if err != nil {
		return false
	}
	d.symbols = extend(d.symbols[:0], length)
	symbols, err := scratch.Decoder().Decompress4X(d.symbols[:length:length], rest)
	if err != nil || len(symbols) != length {
		return false
	}
	symbols = symbols[:min(length, len(values)/per)]
	switch per {
	case 1:
		d.pending, d.topShift, d.topMask = symbols, width-min(width, symbolBits), int64(1)<<min(width, symbolBits)-1
	case 2:
		mask := int64(1)<<width - 1
		for _, s := range symbols {
			pair := values[:2:2]
			pair[0], pair[1] = int64(s)&mask, int64(s>>(width&7))&mask
			values = values[2:]
		}
	default:
		mask := int64(1)<<width - 1
		for i, s := range symbols {
			for k := range per {
				values[i*per+k] = int64(s) >> (uint(k) * width) & mask
			}
		}
	}
	return true
}
