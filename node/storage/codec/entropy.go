package codec

import (
	"encoding/binary"

	"github.com/klauspost/compress/fse"
	"github.com/klauspost/compress/huff0"
)

// entropyEncoder codes the top 8 bits of values by Huffman or FSE. Ready when zero.
type entropyEncoder struct {
	symbols []byte
	low     []uint64
	out     []byte
	huffman huff0.Scratch
	fse     fse.Scratch
}

// Bounds of the entropy coders' choice, in 1/1000 of the bytes of the next
// simpler way: what is harder to decode must be worth it.
const (
	huffmanGain = 985
	fseGain     = 980

	// entropyPatchShare bounds the exceptions: one in so many values.
	entropyPatchShare = 256
)

// append gives the coded values if they need clearly fewer bytes than packed. The
// result is valid until the next call.
func (e *entropyEncoder) append(values []uint64, all *sizes, packed int) (coded []byte, flags byte, ok bool) {
	width, exceptions := 64, 0
	for width > 1 && exceptions+int(all.count[width]) <= len(values)/entropyPatchShare {
		exceptions += int(all.count[width])
		width--
	}
	shift := uint(max(0, width-8))
	e.symbols = extend(e.symbols[:0], len(values))
	e.low = extend(e.low[:0], len(values))
	for i, v := range values {
		e.symbols[i] = byte(v >> shift)
		e.low[i] = v & (1<<shift - 1)
	}
	bound := packed * huffmanGain / 1000
	best, flags := e.code(bound)
	if flags == 0 {
		return nil, 0, false
	}
	e.out = append(e.out[:0], byte(width))
	e.out = binary.AppendUvarint(e.out, uint64(len(best)))
	e.out = append(e.out, best...)
	e.out = appendPacked(e.out, e.low, shift)
	start := len(e.out)
	if e.out = appendPatches(e.out, values, []uint8{byte(width)}); len(e.out) > start {
		flags |= columnPatched
	}
	return e.out, flags, len(e.out) <= bound
}

// code codes the symbols in the shortest way; flags are 0 if that needs bound
// bytes or more.
func (e *entropyEncoder) code(bound int) (best []byte, flags byte) {
	e.huffman.Reuse = huff0.ReusePolicyNone
	if out, _, err := huff0.Compress4X(e.symbols, &e.huffman); err == nil && len(out) < bound {
		best, flags, bound = out, columnHuffman, len(out)*fseGain/1000
	}
	if out, err := fse.Compress(e.symbols, &e.fse); err == nil && len(out) < bound {
		best, flags = out, columnFSE
	}
	return best, flags
}

// entropyDecoder is the other direction. Ready when zero.
type entropyDecoder struct {
	huffman huff0.Scratch
	fse     fse.Scratch
	symbols []byte
}

// decode gives exactly count symbols, valid until the next call.
func (d *entropyDecoder) decode(coded []byte, flags byte, count int) ([]byte, bool) {
	if flags&columnFSE != 0 {
		d.fse.DecompressLimit = count
		out, err := fse.Decompress(coded, &d.fse)
		return out, err == nil && len(out) == count
	}
	d.huffman.MaxDecodedSize = count
	scratch, rest, err := huff0.ReadTable(coded, &d.huffman)
	if err != nil {
		return nil, false
	}
	d.symbols = extend(d.symbols[:0], count)
	out, err := scratch.Decoder().Decompress4X(d.symbols[:count:count], rest)
	return out, err == nil && len(out) == count
}
