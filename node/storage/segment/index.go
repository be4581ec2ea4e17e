package segment

import (
	"encoding/binary"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// entryBlocksMax bounds the blocks of one index entry. A series with more has
// several entries, which a search by time can skip.
const entryBlocksMax = 128

// The units, in ms, that the time differences of an index entry may be counted
// in: most series have an interval of whole seconds.
//
//nolint:gochecknoglobals // a constant table
var indexUnits = [4]int64{1, 100, 1000, 10000}

// appendIndexBody appends the body of an index entry: the blocks of one series,
// in order, whose first starts at offset base+uvarint.
func appendIndexBody(dst []byte, blocks []blockRef, base, startMs int64, blockSamples int) []byte {
	unitCode := indexUnitOf(blocks)
	unit := uint64(indexUnits[unitCode])
	dst = binary.AppendUvarint(dst, uint64(blocks[0].offset-base))
	dst = binary.AppendUvarint(dst, uint64(len(blocks))<<2|uint64(unitCode))
	for i := range blocks {
		b := &blocks[i]
		dst = binary.AppendUvarint(dst, uint64(b.length))
		if b.samples == blockSamples {
			dst = append(dst, 0)
		} else {
			dst = binary.AppendUvarint(dst, uint64(b.samples))
		}
		if i == 0 {
			dst = binary.AppendUvarint(dst, uint64(b.minMs-startMs))
		} else {
			dst = binary.AppendUvarint(dst, uint64(b.minMs-blocks[i-1].maxMs)/unit)
		}
		dst = binary.AppendUvarint(dst, uint64(b.maxMs-b.minMs)/unit)
	}
	return dst
}

func indexUnitOf(blocks []blockRef) int {
	code := len(indexUnits) - 1
	for i := range blocks {
		width := uint64(blocks[i].maxMs - blocks[i].minMs)
		gap := uint64(0)
		if i > 0 {
			gap = uint64(blocks[i].minMs - blocks[i-1].maxMs)
		}
		for width%uint64(indexUnits[code]) != 0 || gap%uint64(indexUnits[code]) != 0 {
			code--
		}
	}
	return code
}

// indexReader walks the blocks of an index entry.
type indexReader struct {
	rest         []byte
	left         uint64
	unit         uint64
	first        bool
	blockSamples int
	limits       indexLimits

	block blockRef // the block that next found
}

// indexLimits are what blocks must keep within.
type indexLimits struct {
	Partition
	dataBytes int64 // of the section, without its page directory
}

func (r *indexReader) reset(body []byte, base int64, blockSamples int, limits indexLimits) (reason string) {
	offset, n := binary.Uvarint(body)
	if n <= 0 || base < 0 || base > limits.dataBytes || offset > uint64(limits.dataBytes-base) {
		return "offset of a block"
	}
	count, m := binary.Uvarint(body[n:])
	if m <= 0 || count>>2 == 0 || count>>2 > entryBlocksMax {
		return "number of blocks"
	}
	*r = indexReader{
		rest: body[n+m:], left: count >> 2, unit: uint64(indexUnits[count&3]), first: true,
		blockSamples: blockSamples, limits: limits,
	}
	r.block.offset = base + int64(offset)
	r.block.maxMs = limits.StartMs
	return ""
}

// next moves to the next block. At the end both results say no.
func (r *indexReader) next() (ok bool, reason string) {
	if r.left == 0 {
		if len(r.rest) > 0 {
			return false, "bytes after the last block of an entry"
		}
		return false, ""
	}
	r.left--
	length, ok1 := r.uvarint()
	samples, ok2 := r.uvarint()
	gap, ok3 := r.uvarint()
	width, ok4 := r.uvarint()
	if !(ok1 && ok2 && ok3 && ok4) {
		return false, "entry of a block is cut short"
	}
	if samples == 0 {
		samples = uint64(r.blockSamples)
	}
	b := &r.block
	b.offset += int64(b.length)
	if length <= crcBytes || length > uint64(r.limits.dataBytes-b.offset) || samples > codec.BlockSamplesMax {
		return false, "size of a block"
	}
	gapUnit := r.unit
	if r.first {
		gapUnit = 1
	}
	room := uint64(r.limits.EndMs-1) - uint64(b.maxMs) // wraps right: the end lies after all blocks
	if gap == 0 && !r.first || gap > room/gapUnit || width > (room-gap*gapUnit)/r.unit {
		return false, "time of a block"
	}
	b.length, b.samples = int(length), int(samples)
	b.minMs = int64(uint64(b.maxMs) + gap*gapUnit)
	b.maxMs = int64(uint64(b.minMs) + width*r.unit)
	r.first = false
	return true, ""
}

func (r *indexReader) uvarint() (uint64, bool) {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return v, true
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return 0, false
	}
	r.rest = r.rest[n:]
	return v, true
}
