package index

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"
)

const (
	markWords = 64
	markBits  = markWords * 64 // series of a chunk of marks
	// fewMarks bounds the list of a chunk that is not a bitmap: it takes a quarter of one.
	fewMarks = 64
)

// marks are the bits of a run of series in one period.
type marks struct {
	words  [markWords]atomic.Uint64
	ones   atomic.Int32
	frozen atomic.Bool // it is being replaced: who has set a bit has to set it again
}

func newFullMarks() *marks {
	c := new(marks)
	for i := range c.words {
		c.words[i].Store(^uint64(0))
	}
	c.ones.Store(markBits)
	return c
}

func (c *marks) has(local uint32) bool {
	return c.words[local%markBits/64].Load()&(1<<(local%64)) != 0
}

// fewSet is a chunk of which few bits differ from the others. It never changes.
type fewSet struct {
	list  []uint16 // growing
	value bool     // of the bits in the list
}

// word returns the bits of the 64 series from 64·i on.
func (f *fewSet) word(i int) (w uint64) {
	at, _ := slices.BinarySearch(f.list, uint16(i*64))
	for _, bit := range f.list[at:] {
		if int(bit/64) != i {
			break
		}
		w |= 1 << (bit % 64)
	}
	if !f.value {
		return ^w
	}
	return w
}

func (f *fewSet) ones() int {
	if f.value {
		return len(f.list)
	}
	return markBits - len(f.list)
}

// chunk has the marks of a run of series; the zero chunk has none.
type chunk struct {
	marks *marks
	few   *fewSet // if marks is nil
}

func (c chunk) none() bool { return c.marks == nil && c.few == nil }

func (c chunk) has(local uint32) bool {
	switch {
	case c.marks != nil:
		return c.marks.has(local)
	case c.few != nil:
		_, found := slices.BinarySearch(c.few.list, uint16(local%markBits))
		return found == c.few.value
	}
	return false
}

// word returns the marks of the 64 series from 64·i on.
func (c chunk) word(i int) uint64 {
	switch {
	case c.marks != nil:
		return c.marks.words[i].Load()
	case c.few != nil:
		return c.few.word(i)
	}
	return 0
}

func (c chunk) ones() int {
	switch {
	case c.marks != nil:
		return int(c.marks.ones.Load())
	case c.few != nil:
		return c.few.ones()
	}
	return 0
}

// words copies the marks.
func (c chunk) words() (words [markWords]uint64) {
	for i := range words {
		words[i] = c.word(i)
	}
	return words
}

// writable returns a copy of which bits can be set.
func (c chunk) writable() *marks {
	m := new(marks)
	ones := 0
	for i, w := range c.words() {
		m.words[i].Store(w)
		ones += bits.OnesCount64(w)
	}
	m.ones.Store(int32(ones))
	return m
}

// fewOf returns words as a list, if few of their bits differ from the others.
func fewOf(words *[markWords]uint64) (*fewSet, bool) {
	ones := 0
	for _, w := range words {
		ones += bits.OnesCount64(w)
	}
	f := &fewSet{value: ones <= markBits/2}
	if ones > fewMarks && ones < markBits-fewMarks {
		return nil, false
	}
	for i, w := range words {
		if !f.value {
			w = ^w
		}
		for ; w != 0; w &= w - 1 {
			f.list = append(f.list, uint16(i*64+bits.TrailingZeros64(w)))
		}
	}
	return f, true
}

// placedChunk is a chunk of a period: that of the series from number·markBits on.
type placedChunk struct {
	number uint32
	chunk
}

// periodMarks describes which series were active in a period: a month or a day.
type periodMarks struct {
	chunks atomic.Pointer[[]placedChunk] // that have any, growing; replaced when one is; guarded by activity.mu
	dirty  atomic.Bool                   // since it was saved
	packed bool                          // chunks that could be lists are; guarded by activity.mu
}

func newPeriodMarks(chunks []placedChunk) *periodMarks {
	p := new(periodMarks)
	p.chunks.Store(&chunks)
	return p
}

// searchChunk returns where in a list a chunk is or would be. Series that are active together
// have mostly come together, so that a list mostly has no gaps.
func searchChunk(list []placedChunk, number uint32) (at int, found bool) {
	if len(list) > 0 && number >= list[0].number {
		if at := int(number - list[0].number); at < len(list) && list[at].number == number {
			return at, true
		}
	}
	return slices.BinarySearchFunc(list, number, func(c placedChunk, number uint32) int { return cmp.Compare(c.number, number) })
}

// chunk returns the chunk that a series is in.
func (p *periodMarks) chunk(local uint32) chunk {
	list := *p.chunks.Load()
	if at, ok := searchChunk(list, local/markBits); ok {
		return list[at].chunk
	}
	return chunk{}
}

// set sets a bit that was seen unset. It returns false when the chunk is being replaced,
// or this was the last bit to fill it, so that the lock is needed.
func (p *periodMarks) set(c *marks, local uint32) bool {
	bit := uint64(1) << (local % 64)
	full := false
	if c.words[local%markBits/64].Or(bit)&bit == 0 {
		full = c.ones.Add(1) == markBits
	}
	// The mark first, then the note that there is something to save: save clears
	// the note before it reads the marks.
	if !p.dirty.Load() {
		p.dirty.Store(true)
	}
	return !full && !c.frozen.Load()
}

// setLocked sets a bit, and makes what is missing: the chunk, or the sharing of a full one. It
// returns the memory that this took.
func (p *periodMarks) setLocked(local uint32, full *marks) (grown int64) {
	number := local / markBits
	c := p.chunk(local)
	if c.marks == nil && !c.has(local) {
		c = chunk{marks: c.writable()}
		p.replace(number, c)
		grown = markBytes
	}
	if c.marks == nil {
		return grown
	}
	if !c.has(local) {
		p.set(c.marks, local)
	}
	if c.marks != full && c.marks.ones.Load() == markBits {
		// All its bits are set, so nobody has anything left to set in the old one.
		p.replace(number, chunk{marks: full})
	}
	return grown
}

// replace puts another chunk in a place.
func (p *periodMarks) replace(number uint32, c chunk) {
	old := *p.chunks.Load()
	at, found := searchChunk(old, number)
	next := make([]placedChunk, 0, len(old)+1)
	next = append(append(next, old[:at]...), placedChunk{number, c})
	if found {
		at++
	}
	next = append(next, old[at:]...)
	p.chunks.Store(&next)
	p.packed = false
}

// pack makes lists of the chunks that can be. Bits may be set meanwhile: who sets one in a
// chunk that is frozen sees that afterwards, and waits for the lock that the caller holds.
func (p *periodMarks) pack(full *marks) {
	if p.packed {
		return
	}
	next := slices.Clone(*p.chunks.Load())
	for i, c := range next {
		if ones := c.ones(); c.marks == nil || c.marks == full || ones > fewMarks && ones < markBits-fewMarks {
			continue
		}
		c.marks.frozen.Store(true)
		words := c.words()
		if few, ok := fewOf(&words); ok {
			next[i].chunk = chunk{few: few}
		} else {
			c.marks.frozen.Store(false)
		}
	}
	p.chunks.Store(&next)
	p.packed = true
}

// join adds the marks of another period, before anybody else looks.
func (p *periodMarks) join(other *periodMarks, full *marks) {
	for _, c := range *other.chunks.Load() {
		have, add := p.chunk(c.number*markBits).words(), c.words()
		more := false
		for i := range have {
			more = more || add[i]&^have[i] != 0
			have[i] |= add[i]
		}
		if more {
			p.replace(c.number, makeChunk(have, true, markBits, full))
			p.dirty.Store(true)
		}
	}
}

// makeChunk returns the first count marks of words, as a list if they may be one.
func makeChunk(words [markWords]uint64, listed bool, count uint64, full *marks) chunk {
	ones := 0
	for i := range words {
		if left := max(int64(count)-int64(i)*64, 0); left < 64 {
			words[i] &= 1<<left - 1
		}
		ones += bits.OnesCount64(words[i])
	}
	switch {
	case ones == 0:
		return chunk{}
	case ones == markBits:
		return chunk{marks: full}
	case listed:
		if few, ok := fewOf(&words); ok {
			return chunk{few: few}
		}
	}
	c := new(marks)
	for i, w := range words {
		c.words[i].Store(w)
	}
	c.ones.Store(int32(ones))
	return chunk{marks: c}
}

const (
	markBytes  = markBits/8 + 8 // memory of marks
	placeBytes = 24             // of a place in a list of chunks
	fewBytes   = 32             // of a fewSet without its list
)

// bytes returns the memory of the marks.
func (p *periodMarks) bytes(full *marks) (n int64) {
	for _, c := range *p.chunks.Load() {
		n += placeBytes
		switch {
		case c.few != nil:
			n += fewBytes + 2*int64(cap(c.few.list))
		case c.marks != nil && c.marks != full:
			n += markBytes
		}
	}
	return n
}
