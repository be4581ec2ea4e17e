package index

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
)

// A posting is a set of series of one part, as their distances from the part's
// first local id. It is encoded as uvarint(count·8 + kind) and then
//
//	postingAll    nothing: the same set as the one that it is a part of
//	postingRun    uvarint first: count numbers from there on
//	postingList   uvarint first, then count-1 times uvarint(difference - 1)
//	postingSkip   for each block of 128: u32 first, u32 offset from the end of
//	              this table; then the blocks, 127 times uvarint(difference - 1)
//	postingBits   uvarint first word, uvarint words, u64 each
//
// whichever is shortest of those that may be had; long lists are searched by
// their blocks.
const (
	postingAll = iota
	postingRun
	postingList
	postingSkip
	postingBits

	postingKindBits = 3
	postingBlock    = 128
	skipEntryBytes  = 8
)

type posting struct {
	kind  uint8
	count uint32
	body  []byte
	seal  *seal // of the body; nil: it is in memory, or checked
}

// check returns what checks the body where it is read.
func (p posting) check() checked { return checked{seal: p.seal} }

func parsePosting(b []byte) posting {
	head, n := binary.Uvarint(b)
	if head>>postingKindBits > mergeSeries {
		panic(errDamagedPosting) // see partList.read
	}
	return posting{kind: uint8(head & (1<<postingKindBits - 1)), count: uint32(head >> postingKindBits), body: b[n:]}
}

// appendPosting encodes a growing list; whole is the size of the set that it is
// a part of, or -1.
func appendPosting(dst []byte, list []uint32, whole int) []byte {
	n := len(list)
	if n == whole {
		return appendHead(dst, n, postingAll)
	}
	first, last := list[0], list[n-1]
	if int(last-first) == n-1 {
		return binary.AppendUvarint(appendHead(dst, n, postingRun), uint64(first))
	}
	if words := int(last/64-first/64) + 1; n > postingBlock && words*8 <= n+n/16 {
		return appendBits(appendHead(dst, n, postingBits), list, words)
	}
	if n <= postingBlock {
		dst = binary.AppendUvarint(appendHead(dst, n, postingList), uint64(first))
		return appendDifferences(dst, list)
	}
	return appendBlocks(appendHead(dst, n, postingSkip), list)
}

func appendHead(dst []byte, count int, kind uint64) []byte {
	return binary.AppendUvarint(dst, uint64(count)<<postingKindBits|kind)
}

func appendDifferences(dst []byte, list []uint32) []byte {
	for i := 1; i < len(list); i++ {
		d := list[i] - list[i-1] - 1
		if d < 0x80 {
			dst = append(dst, byte(d))
		} else {
			dst = binary.AppendUvarint(dst, uint64(d))
		}
	}
	return dst
}

func appendBlocks(dst []byte, list []uint32) []byte {
	blocks := (len(list) + postingBlock - 1) / postingBlock
	table := len(dst)
	dst = append(dst, make([]byte, blocks*skipEntryBytes)...)
	start := len(dst)
	for i := range blocks {
		run := list[i*postingBlock : min((i+1)*postingBlock, len(list))]
		entry := dst[table+i*skipEntryBytes:]
		binary.LittleEndian.PutUint32(entry, run[0])
		binary.LittleEndian.PutUint32(entry[4:], uint32(len(dst)-start))
		dst = appendDifferences(dst, run)
	}
	return dst
}

func appendBits(dst []byte, list []uint32, words int) []byte {
	first := list[0] / 64
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(first)), uint64(words))
	var word uint64
	at := first
	for _, v := range list {
		for v/64 != at {
			dst = binary.LittleEndian.AppendUint64(dst, word)
			word = 0
			at++
		}
		word |= 1 << (v % 64)
	}
	return binary.LittleEndian.AppendUint64(dst, word)
}

// checkAgain checks postings of a part that were cut before: as cutPosting does, large ones where they begin alone.
func checkAgain(of *seal, list []posting) {
	c := checked{seal: of}
	for _, p := range list {
		if c.seal != nil && len(p.body) > 0 {
			at := c.place(p.body)
			c.need(at, at+min(len(p.body), sealBlock))
		}
	}
}

// run returns the bounds of a postingRun, last included.
func (p posting) run() (first, last uint32) {
	v, _ := binary.Uvarint(p.body)
	return uint32(v), uint32(v) + p.count - 1
}

// words returns the first word number and the bytes of a postingBits.
func (p posting) words() (first uint32, b []byte) {
	f, n := binary.Uvarint(p.body)
	words, m := binary.Uvarint(p.body[n:])
	return uint32(f), p.body[n+m : n+m+int(words)*8]
}

// checkedWords is words, all of them checked.
func (p posting) checkedWords() (first uint32, b []byte) {
	first, b = p.words()
	c := p.check()
	c.cut(b, b[len(b):])
	return first, b
}

// block returns the numbers of block i of a postingSkip in dst.
func (p posting) block(i int, dst *[postingBlock]uint32, c *checked) []uint32 {
	first := p.blockFirst(i, c)
	table := p.blocks() * skipEntryBytes
	n := min(int(p.count)-i*postingBlock, postingBlock)
	b := p.body[table+int(binary.LittleEndian.Uint32(p.body[i*skipEntryBytes+4:])):]
	list, rest := expand(dst[:n], first, b)
	c.cut(b, rest)
	return list
}

func (p posting) blocks() int { return (int(p.count) + postingBlock - 1) / postingBlock }

func (p posting) blockFirst(i int, c *checked) uint32 {
	entry := p.body[i*skipEntryBytes:]
	c.cut(entry, entry[skipEntryBytes:])
	return binary.LittleEndian.Uint32(entry)
}

// expand fills dst with first and what the differences in b add to it, and returns what is left of b.
func expand(dst []uint32, first uint32, b []byte) (list []uint32, rest []byte) {
	dst[0] = first
	at := 0
	for i := 1; i < len(dst); i++ {
		d := uint64(b[at])
		at++
		if d >= 0x80 {
			var n int
			d, n = binary.Uvarint(b[at-1:])
			at += n - 1
		}
		first += uint32(d) + 1
		dst[i] = first
	}
	return dst, b[at:]
}

// list returns the numbers of a postingList in dst.
func (p posting) list(dst *[postingBlock]uint32) []uint32 {
	first, n := binary.Uvarint(p.body)
	list, rest := expand(dst[:p.count], uint32(first), p.body[n:])
	c := p.check()
	c.cut(p.body, rest)
	return list
}

// each visits runs of the numbers in growing order until visit returns false. The
// slices are reused.
func (p posting) each(visit func([]uint32) bool) {
	var buffer [postingBlock]uint32
	switch p.kind {
	case postingRun:
		first, last := p.run()
		for at := uint64(first); at <= uint64(last); at += postingBlock {
			n := min(uint64(last)-at+1, postingBlock)
			for i := range n {
				buffer[i] = uint32(at + i)
			}
			if !visit(buffer[:n]) {
				return
			}
		}
	case postingList:
		visit(p.list(&buffer))
	case postingSkip:
		c := p.check()
		for i := range p.blocks() {
			if !visit(p.block(i, &buffer, &c)) {
				return
			}
		}
	case postingBits:
		first, b := p.checkedWords()
		for at := first * 64; len(b) > 0; at, b = at+64, b[8:] {
			n := 0
			for word := binary.LittleEndian.Uint64(b); word != 0; word &= word - 1 {
				buffer[n] = at + uint32(bits.TrailingZeros64(word))
				n++
			}
			if n > 0 && !visit(buffer[:n]) {
				return
			}
		}
	}
}

// first returns the least number, if that costs next to nothing.
func (p posting) first() (first uint32, ok bool) {
	switch p.kind {
	case postingRun, postingList:
		v, _ := binary.Uvarint(p.body)
		return uint32(v), true
	case postingSkip:
		c := p.check()
		return p.blockFirst(0, &c), true
	}
	return 0, false
}

// appendTo appends the numbers, each plus add.
func (p posting) appendTo(dst []uint32, add uint32) []uint32 {
	dst = slices.Grow(dst, int(p.count))
	switch p.kind { // the kinds that most postings have
	case postingRun:
		first, last := p.run()
		for v := uint64(first); v <= uint64(last); v++ {
			dst = append(dst, uint32(v)+add)
		}
		return dst
	case postingList:
		first, n := binary.Uvarint(p.body)
		start, end := len(dst), len(dst)+int(p.count)
		dst = dst[:end]
		_, rest := expand(dst[start:], uint32(first)+add, p.body[n:])
		c := p.check()
		c.cut(p.body, rest)
		return dst
	}
	p.each(func(run []uint32) bool {
		for _, v := range run {
			dst = append(dst, v+add)
		}
		return true
	})
	return dst
}

// orInto sets the numbers' bits.
func (p posting) orInto(set []uint64) {
	switch p.kind {
	case postingRun:
		first, last := p.run()
		setRun(set, first, last)
	case postingBits:
		first, b := p.checkedWords()
		for i := first; len(b) > 0; i, b = i+1, b[8:] {
			set[i] |= binary.LittleEndian.Uint64(b)
		}
	default:
		p.each(func(run []uint32) bool {
			for _, v := range run {
				set[v/64] |= 1 << (v % 64)
			}
			return true
		})
	}
}

func setRun(set []uint64, first, last uint32) {
	from, to := first/64, last/64
	head, tail := ^uint64(0)<<(first%64), ^uint64(0)>>(63-last%64)
	if from == to {
		set[from] |= head & tail
		return
	}
	set[from] |= head
	for i := from + 1; i < to; i++ {
		set[i] = ^uint64(0)
	}
	set[to] |= tail
}

// finder answers whether growing numbers are in a posting.
type finder struct {
	p           posting
	buffer      [postingBlock]uint32
	run         []uint32 // what is left of the current block
	next        int      // the block after the current one
	first, last uint32   // of a run; the first word of bits
	bits        []byte
	checked     checked
}

func (f *finder) reset(p posting) {
	f.p, f.run, f.next, f.checked = p, nil, 0, p.check()
	switch p.kind {
	case postingRun:
		f.first, f.last = p.run()
	case postingList:
		f.run = p.list(&f.buffer)
	case postingBits:
		f.first, f.bits = p.words()
	}
}

// has reports whether v is in the set. It must not be smaller than in earlier calls.
func (f *finder) has(v uint32) bool {
	switch f.p.kind {
	case postingRun:
		return v >= f.first && v <= f.last
	case postingBits:
		at := int(v/64) - int(f.first)
		if at < 0 || at >= len(f.bits)/8 {
			return false
		}
		b := f.bits[at*8+int(v%64/8):]
		f.checked.cut(b, b[1:])
		return b[0]&(1<<(v%8)) != 0
	case postingSkip:
		f.seek(v)
	}
	for len(f.run) > 0 && f.run[0] < v {
		f.run = f.run[1:]
	}
	return len(f.run) > 0 && f.run[0] == v
}

// seek makes the block that v would be in the current one.
func (f *finder) seek(v uint32) {
	blocks := f.p.blocks()
	if f.next >= blocks || f.p.blockFirst(f.next, &f.checked) > v {
		return
	}
	step := 1
	for f.next+step < blocks && f.p.blockFirst(f.next+step, &f.checked) <= v {
		step *= 2
	}
	low := f.next + step/2 // its first is not above v
	n := sort.Search(min(f.next+step, blocks)-low, func(i int) bool { return f.p.blockFirst(low+i, &f.checked) > v })
	f.run = f.p.block(low+n-1, &f.buffer, &f.checked)
	f.next = low + n
}

// filter keeps, in place, the numbers of a growing list that are in the posting,
// or those that are not.
func (f *finder) filter(list []uint32, keep bool) []uint32 {
	kept := list[:0]
	for _, v := range list {
		if f.has(v) == keep {
			kept = append(kept, v)
		}
	}
	return kept
}
