package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Orders of a column: what is packed of the values v.
const (
	order0    = 0 // v[i]
	order1    = 1 // v[i] − v[i−1]
	order2    = 2 // v[i] − 2·v[i−1] + v[i−2]
	orderMask = 3
)

// The other bits of a column's first byte.
const (
	columnPatched = 1 << 2 // exceptions follow the packed values
	columnGrouped = 1 << 3 // a width for each group of groupValues
	columnShifted = 1 << 4 // a byte says how many low bits, all zero, are left out
	columnHuffman = 1 << 5 // the top bits are coded by Huffman
	columnUnknown = 3 << 6
)

const (
	// groupValues is how many values share a width. It is a multiple of 8, so
	// that groups start at whole bytes.
	groupValues = 128
	groupsMax   = BlockSamplesMax / groupValues

	// patchShare bounds the exceptions: one in so many values. More would slow
	// down decoding.
	patchShare = 8
)

// columnEncoder packs int64 columns: residuals of some order, less a base, as
// numbers of few bits, and the ones that need more as exceptions ("patched frame
// of reference": Zukowski et al., "Super-Scalar RAM-CPU Cache Compression", ICDE
// 2006). All arithmetic is modulo 2^64. It is scratch memory, ready when zero.
type columnEncoder struct {
	packed  []uint64 // residuals less the base, shifted
	sorted  [sampleValues]int64
	widths  [groupsMax]uint8
	groups  [groupsMax]sizes
	packing []byte
	entropy entropyEncoder
}

// plan is how a column is going to be packed.
type plan struct {
	order  int
	base   int64
	shift  uint
	groups []uint8 // widths, or one for all
}

// append appends the column of values, at least one, to dst. Orders up to
// orderMax are tried.
func (e *columnEncoder) append(dst []byte, values []int64, orderMax int, dense bool) []byte {
	if isLine(values) {
		dst = append(dst, order1)
		dst = binary.AppendVarint(dst, values[0])
		dst = binary.AppendVarint(dst, values[1]-values[0])
		return append(dst, 0)
	}
	p := plan{order: order0}
	lowest := int64(math.MinInt64)
	if len(values) > 2 {
		p.order, lowest = e.chooseOrder(values, orderMax)
	}
	first := p.order // so many values are kept as they are
	e.residuals(values, &p, first, lowest)
	all := e.measure()
	width, cost := all.best(len(values))
	p.groups = append(e.widths[:0], uint8(width))
	if len(values) > groupValues {
		e.chooseGroups(&p, cost, len(values))
	}

	flags := byte(p.order)
	if p.shift > 0 {
		flags |= columnShifted
	}
	var head [3*binary.MaxVarintLen64 + 2]byte
	h := head[:1]
	if p.shift > 0 {
		h = append(h, byte(p.shift))
	}
	for i := range first {
		h = binary.AppendVarint(h, values[i])
	}
	h = binary.AppendVarint(h, p.base)

	var packedFlags byte
	e.packing, packedFlags = e.pack(e.packing[:0], p.groups)
	if dense {
		if coded, codedFlags, ok := e.entropy.append(e.packed, &all, len(e.packing)); ok {
			h[0] = flags | codedFlags
			return append(append(dst, h...), coded...)
		}
	}
	h[0] = flags | packedFlags
	return append(append(dst, h...), e.packing...)
}

// isLine reports whether all differences are the same.
func isLine(values []int64) bool {
	if len(values) < 2 {
		return false
	}
	step := values[1] - values[0]
	for i := 2; i < len(values); i++ {
		if values[i]-values[i-1] != step {
			return false
		}
	}
	return true
}

// sampleValues is how many residuals the choices of order and base look at.
const sampleValues = 64

// chooseOrder returns the order whose residuals vary least, by the mean size of
// their distance to the median, and a bound under which residuals are taken as
// outliers.
func (e *columnEncoder) chooseOrder(values []int64, orderMax int) (order int, lowest int64) {
	least := math.Inf(1)
	sample := e.sorted[:min(sampleValues, len(values)-2)]
	for o := range orderMax + 1 {
		for k := range sample {
			sample[k] = residual(values, o, 2+k*(len(values)-2)/len(sample))
		}
		slices.Sort(sample)
		if cost := spreadCost(sample); cost < least {
			least, order, lowest = cost, o, fence(sample)
		}
	}
	return order, lowest
}

// spreadCost returns how many bits the sorted sample's values would need, by two
// measures, each of which fails for some distribution: the mean size of the
// distance to the median and the size of the range that holds nearly all.
func spreadCost(sample []int64) (cost float64) {
	median, tail := sample[len(sample)/2], len(sample)/32
	low, high := sample[tail], sample[len(sample)-1-tail]
	spread := uint64(high) - uint64(low)
	sum := 0
	for _, r := range sample {
		sum += bits.Len64(zigzag(r - median))
	}
	return float64(sum)/float64(len(sample)) + math.Log2(float64(spread)+1)
}

// fence returns a lower bound of the values that are near most of a sorted sample.
func fence(sample []int64) int64 {
	tail := len(sample) / 32
	low, high := sample[tail], sample[len(sample)-1-tail]
	spread := uint64(high) - uint64(low)
	if spread > 1<<60 || low < math.MinInt64/2 {
		return math.MinInt64
	}
	return low - 2*int64(spread)
}

func residual(values []int64, order, i int) int64 {
	switch order {
	case order1:
		return values[i] - values[i-1]
	case order2:
		return values[i] - 2*values[i-1] + values[i-2]
	}
	return values[i]
}

// residuals fills e.packed, whose first values are zero, and completes the plan.
func (e *columnEncoder) residuals(values []int64, p *plan, first int, lowest int64) {
	e.packed = extend(e.packed[:0], len(values))
	packed := e.packed
	base := int64(math.MaxInt64)
	clear(packed[:first])
	for i := first; i < len(values); i++ {
		var r int64
		switch p.order {
		case order0:
			r = values[i]
		case order1:
			r = values[i] - values[i-1]
		default:
			r = values[i] - 2*values[i-1] + values[i-2]
		}
		packed[i] = uint64(r)
		if r >= lowest {
			base = min(base, r)
		}
	}
	if first == len(values) {
		base = 0
	}
	all := uint64(0)
	for i := first; i < len(packed); i++ {
		packed[i] -= uint64(base)
		all |= packed[i]
	}
	p.base = base
	if all != 0 {
		p.shift = uint(bits.TrailingZeros64(all))
	}
	if p.shift > 0 {
		for i := first; i < len(packed); i++ {
			packed[i] = uint64(int64(packed[i]) >> p.shift)
		}
	}
}

// sizes counts values by their size in bits. Negative ones, which are always
// exceptions if the width is under 64, have size 64 and the cost of their patch.
type sizes struct {
	count        [65]uint16
	negativeBits uint32
}

// measure fills e.groups and returns their sum.
func (e *columnEncoder) measure() (all sizes) {
	for g := 0; g*groupValues < len(e.packed); g++ {
		group := &e.groups[g]
		*group = sizes{}
		for _, v := range e.packed[g*groupValues : min(len(e.packed), (g+1)*groupValues)] {
			group.count[bits.Len64(v)]++
			if int64(v) < 0 {
				group.negativeBits += patchBits(uint(bits.Len64(^v)))
			}
		}
		for size, count := range group.count {
			all.count[size] += count
		}
		all.negativeBits += group.negativeBits
	}
	return all
}

// patchBits estimates the cost of an exception of so many bits over the width.
func patchBits(over uint) uint32 { return 12 + uint32(over)*9/8 }

// best returns the width of least cost, and the cost in bits.
func (s *sizes) best(values int) (width uint, cost uint32) {
	w := len(s.count) - 1
	for w > 0 && s.count[w] == 0 {
		w--
	}
	width, cost = uint(w), uint32(values*w)
	// The exceptions of a width are the values of a greater size: so many, of so
	// many bits in all. Huge positive values count as negative ones, if both are
	// there, which is rare.
	count, bits, negative := uint32(0), uint32(0), uint32(0)
	for w--; w >= 0; w-- {
		if n := uint32(s.count[w+1]); w == 63 && s.negativeBits > 0 {
			negative = n
		} else {
			count += n
			bits += n * uint32(w+1)
		}
		if count+negative > uint32(values)/patchShare {
			break
		}
		c := uint32(values*w) + 12*count + (bits-uint32(w)*count)*9/8
		if negative > 0 {
			c += s.negativeBits
		}
		if c < cost {
			width, cost = uint(w), c
		}
	}
	return width, cost
}

// chooseGroups chooses a width of its own for each group if that costs less than cost.
func (e *columnEncoder) chooseGroups(p *plan, cost uint32, values int) {
	count := (values + groupValues - 1) / groupValues
	total := uint32(8 * count)
	var widths [groupsMax]uint8
	for g := range count {
		width, c := e.groups[g].best(min(groupValues, values-g*groupValues))
		widths[g] = uint8(width)
		total += c
	}
	if total < cost {
		p.groups = append(p.groups[:0], widths[:count]...)
	}
}

// pack appends widths, packed values and exceptions.
func (e *columnEncoder) pack(dst []byte, widths []uint8) (_ []byte, flags byte) {
	dst = append(dst, widths...)
	if len(widths) > 1 {
		flags = columnGrouped
		for g, width := range widths {
			dst = appendPacked(dst, e.packed[g*groupValues:min(len(e.packed), (g+1)*groupValues)], uint(width))
		}
	} else {
		dst = appendPacked(dst, e.packed, uint(widths[0]))
	}
	start := len(dst)
	if dst = appendPatches(dst, e.packed, widths); len(dst) > start {
		flags |= columnPatched
	}
	return dst, flags
}

// appendPatches appends the values that are wider than their width, if any: for
// each the distance to the one before it and what is above the width. A zero
// distance ends the list.
func appendPatches(dst []byte, packed []uint64, widths []uint8) []byte {
	start, last := len(dst), -1
	for g := range widths {
		values, width := packed, uint(widths[g])
		if len(widths) > 1 {
			values = packed[:min(len(packed), (g+1)*groupValues)]
		}
		for i := g * groupValues; i < len(values); i++ {
			if over := int64(values[i]) >> (width & 63); values[i]>>width != 0 {
				dst = binary.AppendUvarint(dst, uint64(i-last))
				dst = binary.AppendVarint(dst, over)
				last = i
			}
		}
	}
	if len(dst) > start {
		dst = append(dst, 0)
	}
	return dst
}
