package index

import (
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

// periodMarks says which series were active in a period: a month or a day.
type periodMarks struct {
	number uint32                  // of the period
	coarse bool                    // of a month: which series were active on its days is not known
	chunks atomic.Pointer[[]chunk] // replaced when a chunk is; guarded by activity.mu
	dirty  atomic.Bool             // since it was saved
	packed bool                    // chunks that could be lists are; guarded by activity.mu
}

func newPeriodMarks(number uint32, chunks []chunk) *periodMarks {
	p := &periodMarks{number: number}
	p.chunks.Store(&chunks)
	return p
}

func (p *periodMarks) chunk(local uint32) chunk {
	chunks := *p.chunks.Load()
	if n := int(local / markBits); n < len(chunks) {
		return chunks[n]
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

// replace puts another chunk in the place of chunk n.
func (p *periodMarks) replace(n int, c chunk) {
	old := *p.chunks.Load()
	next := make([]chunk, max(n+1, len(old)))
	copy(next, old)
	next[n] = c
	p.chunks.Store(&next)
	p.packed = false
}

// pack makes lists of the chunks that can be. Bits may be set meanwhile: who sets one in a
// chunk that is frozen sees that afterwards, and waits for the lock that the caller holds.
func (p *periodMarks) pack(full *marks) {
	if p.packed {
		return
	}
	old := *p.chunks.Load()
	next := make([]chunk, len(old))
	for n, c := range old {
		next[n] = c
		if ones := c.ones(); c.marks == nil || c.marks == full || ones > fewMarks && ones < markBits-fewMarks {
			continue
		}
		c.marks.frozen.Store(true)
		words := c.words()
		if few, ok := fewOf(&words); ok {
			next[n] = chunk{few: few}
		} else {
			c.marks.frozen.Store(false)
		}
	}
	p.chunks.Store(&next)
	p.packed = true
}

// periods are the marks of all months, or of all days.
type periods struct {
	list    atomic.Pointer[[]*periodMarks] // newest first; replaced on change
	removed []uint32                       // their files are still there; guarded by activity.mu
	files   periodFiles
}

func (ps *periods) init(files periodFiles) {
	ps.files = files
	ps.list.Store(&[]*periodMarks{})
}

func (ps *periods) find(number uint32) *periodMarks {
	list := *ps.list.Load()
	if at, ok := searchPeriod(list, number); ok {
		return list[at]
	}
	return nil
}

// searchPeriod returns where in a list, newest first, a period is or would be. It is nearly
// always one of the newest.
func searchPeriod(list []*periodMarks, number uint32) (at int, found bool) {
	if len(list) > 0 && list[0].number == number {
		return 0, true
	}
	return slices.BinarySearchFunc(list, number, func(p *periodMarks, number uint32) int { return int(number) - int(p.number) })
}

// between returns the periods from one number to another, both included.
func (ps *periods) between(from, to uint32) []*periodMarks {
	list := *ps.list.Load()
	first, _ := searchPeriod(list, to)
	end, found := searchPeriod(list, from)
	if found {
		end++
	}
	return list[first:max(first, end)]
}

func (ps *periods) insertLocked(p *periodMarks) {
	list := *ps.list.Load()
	at, _ := searchPeriod(list, p.number)
	list = slices.Insert(slices.Clone(list), at, p)
	ps.list.Store(&list)
	ps.removed = slices.DeleteFunc(ps.removed, func(number uint32) bool { return number == p.number })
}

// dropBeforeLocked forgets all periods before a number.
func (ps *periods) dropBeforeLocked(number uint32) {
	var kept []*periodMarks
	for _, p := range *ps.list.Load() {
		if p.number >= number {
			kept = append(kept, p)
		} else {
			ps.removed = append(ps.removed, p.number)
		}
	}
	ps.list.Store(&kept)
}

// bytes returns the memory of all marks.
func (ps *periods) bytes(full *marks) (n int64) {
	for _, p := range *ps.list.Load() {
		for _, c := range *p.chunks.Load() {
			n += 16
			switch {
			case c.few != nil:
				n += 32 + 2*int64(cap(c.few.list))
			case c.marks != nil && c.marks != full:
				n += markBits/8 + 8
			}
		}
	}
	return n
}
