package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/bits"
	"path"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// A period's file, written whole and renamed into place (FORMAT.md):
//
//	magic · version u32 · month or day u32 · chunks u32 · chunk* · crc32c u32
//
// A chunk is a byte for its kind and, for chunkBits, its words. Those of days may be lists too.
const (
	activityNew     = "new-" // before the name while it is being written
	activityVersion = 1
	activityHeader  = 20

	chunkNone  = 0
	chunkFull  = 1
	chunkBits  = 2
	chunkFew   = 3 // u8 count, u16 of each bit that is set
	chunkNoFew = 4 // likewise of each that is not set
)

// periodFiles says how the files of periods are named, and what they hold.
type periodFiles struct {
	prefix  string
	magic   string // 8 bytes
	last    uint32 // the greatest number of a period
	kindMax byte   // of a chunk
	text    func(number uint32) string
	parse   func(text string) (number uint32, ok bool)
}

func monthFiles() periodFiles {
	return periodFiles{
		prefix: "active-", magic: "TMACTV\r\n", last: uint32(MonthMax), kindMax: chunkBits,
		text: func(number uint32) string { return Month(number).String() }, parse: parseMonth,
	}
}

func dayFiles() periodFiles {
	return periodFiles{
		prefix: "day-", magic: "TMDAYS\r\n", last: uint32(DayMax), kindMax: chunkNoFew,
		text: func(number uint32) string { return Day(number).String() }, parse: parseDay,
	}
}

func (f *periodFiles) name(number uint32) string { return f.prefix + f.text(number) }

// number returns the period of a file; none: it is no file of these.
func (f *periodFiles) number(base string) (number uint32, ok bool) {
	text, ok := strings.CutPrefix(base, f.prefix)
	if !ok {
		return 0, false
	}
	return f.parse(text)
}

var errActivityFile = errors.New("not an activity file")

// encode returns the file's bytes. Marks set meanwhile may or may not be in it.
func (f *periodFiles) encode(p *periodMarks) []byte {
	chunks := *p.chunks.Load()
	b := []byte(f.magic)
	b = binary.LittleEndian.AppendUint32(b, activityVersion)
	b = binary.LittleEndian.AppendUint32(b, p.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(chunks)))
	for _, c := range chunks {
		b = f.appendChunk(b, c)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (f *periodFiles) appendChunk(b []byte, c chunk) []byte {
	switch {
	case c.none():
		return append(b, chunkNone)
	case c.ones() == markBits:
		return append(b, chunkFull)
	}
	words := c.words()
	if f.kindMax >= chunkNoFew {
		if few, ok := fewOf(&words); ok {
			kind := byte(chunkNoFew)
			if few.value {
				kind = chunkFew
			}
			b = append(b, kind, byte(len(few.list)))
			for _, bit := range few.list {
				b = binary.LittleEndian.AppendUint16(b, bit)
			}
			return b
		}
	}
	b = append(b, chunkBits)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// decode reads a file; marks of series from count on are left out.
func (f *periodFiles) decode(b []byte, count uint32, full *marks) (number uint32, chunks []chunk, err error) {
	if len(b) < activityHeader+4 || string(b[:8]) != f.magic {
		return 0, nil, fmt.Errorf("%w: %d bytes, or another magic number", errActivityFile, len(b))
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return 0, nil, fmt.Errorf("%w: the checksum does not agree", errActivityFile)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != activityVersion {
		return 0, nil, fmt.Errorf("%w: version %d, known is %d", ErrVersion, v, activityVersion)
	}
	number, length := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	rest := body[activityHeader:]
	if number > f.last || uint64(length) > uint64(len(rest)) {
		return 0, nil, fmt.Errorf("%w: it is of %d, with %d chunks", errActivityFile, number, length)
	}
	chunks = make([]chunk, 0, min(length, (count+markBits-1)/markBits))
	for n := range length {
		words, kind, left, ok := cutWords(rest, f.kindMax)
		if !ok {
			return 0, nil, fmt.Errorf("%w: chunk %d", errActivityFile, n)
		}
		rest = left
		if first := uint64(n) * markBits; first < uint64(count) {
			chunks = append(chunks, makeChunk(words, kind, uint64(count)-first, full))
		}
	}
	if len(rest) > 0 {
		return 0, nil, fmt.Errorf("%w: %d bytes too many", errActivityFile, len(rest))
	}
	return number, chunks, nil
}

// cutWords cuts a chunk.
func cutWords(b []byte, kindMax byte) (words [markWords]uint64, kind byte, rest []byte, ok bool) {
	if len(b) == 0 || b[0] > kindMax {
		return words, 0, nil, false
	}
	kind, b = b[0], b[1:]
	switch kind {
	case chunkFull:
		for i := range words {
			words[i] = ^uint64(0)
		}
	case chunkBits:
		if len(b) < markBits/8 {
			return words, 0, nil, false
		}
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(b[i*8:])
		}
		b = b[markBits/8:]
	case chunkFew, chunkNoFew:
		if len(b) == 0 || len(b)-1 < 2*int(b[0]) {
			return words, 0, nil, false
		}
		n := int(b[0])
		for i := range n {
			bit := binary.LittleEndian.Uint16(b[1+2*i:])
			if bit >= markBits {
				return words, 0, nil, false
			}
			words[bit/64] |= 1 << (bit % 64)
		}
		if kind == chunkNoFew {
			for i := range words {
				words[i] = ^words[i]
			}
		}
		b = b[1+2*n:]
	}
	return words, kind, b, true
}

// makeChunk returns the first count marks of a chunk.
func makeChunk(words [markWords]uint64, kind byte, count uint64, full *marks) chunk {
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
	case kind == chunkFew || kind == chunkNoFew:
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

// openActivity reads the files of all periods. One whose file is damaged counts as one in which
// every series was active: queries then look at more series than they need, and miss none.
func openActivity(o *Options) (*activity, error) {
	a := newActivity(o.FS, o.Dir, o.Failpoints)
	a.settled.Store(o.State.Count == 0 || o.State.Days != nil)
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("series activity: %w", err)
	}
	for _, base := range names {
		if fresh, ok := strings.CutPrefix(base, activityNew); ok && (strings.HasPrefix(fresh, a.months.files.prefix) || strings.HasPrefix(fresh, a.days.files.prefix)) {
			if err := o.FS.Remove(path.Join(o.Dir, base)); err != nil {
				return nil, fmt.Errorf("series activity: %w", err)
			}
			continue
		}
		if number, ok := a.months.files.number(base); ok {
			err = a.load(o, &a.months, number, o.State.Count > 0)
		} else if number, ok = a.days.files.number(base); ok {
			err = a.load(o, &a.days, number, o.State.Count > 0 && o.State.Days != nil)
		}
		if err != nil {
			return nil, err
		}
	}
	a.relate(o.State.Days)
	return a, nil
}

// load reads the file of a period. One that does not count, as it is of an earlier life or has
// been kept by a program that does not know of it, is removed by the next save.
func (a *activity) load(o *Options, ps *periods, number uint32, counts bool) error {
	if !counts {
		ps.removed = append(ps.removed, number)
		return nil
	}
	name := path.Join(o.Dir, ps.files.name(number))
	p := newPeriodMarks(number, nil)
	var chunks []chunk
	b, err := readFile(o.FS, name)
	if err == nil {
		var inside uint32
		inside, chunks, err = ps.files.decode(b, o.State.Count, a.full)
		if err == nil && inside != number {
			err = fmt.Errorf("%w: it is of %s", errActivityFile, ps.files.text(inside))
		}
	}
	if errors.Is(err, ErrVersion) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		o.Corrupt(&CorruptError{File: name, What: err.Error()})
		var all [markWords]uint64
		for i := range all {
			all[i] = ^uint64(0)
		}
		chunks = nil
		for first := uint64(0); first < uint64(o.State.Count); first += markBits {
			chunks = append(chunks, makeChunk(all, chunkFull, uint64(o.State.Count)-first, a.full))
		}
		p.dirty.Store(true)
	}
	p.chunks.Store(&chunks)
	ps.insertLocked(p)
	return nil
}

// relate makes months and days that were loaded agree: who is marked on a day is marked in its
// month, and of months that are coarse no days are kept.
func (a *activity) relate(state *DaysState) {
	for _, m := range *a.months.list.Load() {
		m.coarse = !a.settled.Load() || state != nil && slices.Contains(state.Coarse, Month(m.number))
	}
	var kept []*periodMarks
	for _, p := range *a.days.list.Load() {
		month := uint32(Day(p.number).Month())
		m := a.months.find(month)
		if m == nil {
			m = newPeriodMarks(month, nil)
			a.months.insertLocked(m)
		}
		if m.join(p, a.full); m.coarse {
			a.days.removed = append(a.days.removed, p.number)
		} else {
			kept = append(kept, p)
		}
	}
	a.days.list.Store(&kept)
}

// join adds the marks of another period, before anybody else looks.
func (p *periodMarks) join(other *periodMarks, full *marks) {
	for n, c := range *other.chunks.Load() {
		mine := p.chunk(uint32(n) * markBits)
		have, add := mine.words(), c.words()
		more := false
		for i := range have {
			more = more || add[i]&^have[i] != 0
			have[i] |= add[i]
		}
		if more {
			p.replace(n, makeChunk(have, chunkBits, markBits, full))
			p.dirty.Store(true)
		}
	}
}

// daysState returns what marks of days tell, for the manifest.
func (a *activity) daysState() *DaysState {
	if !a.settled.Load() {
		return nil
	}
	state := &DaysState{}
	for _, m := range *a.months.list.Load() {
		if m.coarse {
			state.Coarse = append(state.Coarse, Month(m.number))
		}
	}
	return state
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return nil, err
	}
	if size > 1<<30 {
		return nil, fmt.Errorf("%w: %d bytes", errActivityFile, size)
	}
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	return b, err
}

// save writes the periods that changed and removes the files of those dropped. One
// save runs at a time.
func (a *activity) save() error {
	for _, ps := range [...]*periods{&a.months, &a.days} {
		for _, p := range *ps.list.Load() {
			if !p.dirty.Swap(false) {
				continue
			}
			if err := a.write(&ps.files, p); err != nil {
				p.dirty.Store(true)
				return fmt.Errorf("series activity: %w", err)
			}
			a.renamed = true
		}
	}
	a.pack()
	for _, ps := range [...]*periods{&a.months, &a.days} {
		if err := a.saveDrops(ps); err != nil {
			return fmt.Errorf("series activity: %w", err)
		}
	}
	if !a.renamed {
		return nil
	}
	if err := a.fs.SyncDir(a.dir); err != nil {
		return fmt.Errorf("series activity: %w", err)
	}
	a.renamed = false
	return nil
}

// saveDrops removes the files of periods that were dropped.
func (a *activity) saveDrops(ps *periods) error {
	a.mu.Lock()
	removed := ps.removed
	ps.removed = nil
	a.mu.Unlock()
	for i, number := range removed {
		err := a.failpoints.Hit(PointActivityDrops)
		if err == nil && ps.find(number) == nil {
			err = a.fs.Remove(path.Join(a.dir, ps.files.name(number)))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.mu.Lock()
			ps.removed = append(ps.removed, removed[i:]...)
			a.mu.Unlock()
			return err
		}
		a.renamed = true
	}
	return nil
}

func (a *activity) write(files *periodFiles, p *periodMarks) error {
	name := path.Join(a.dir, files.name(p.number))
	fresh := path.Join(a.dir, activityNew+files.name(p.number))
	f, err := a.fs.Create(fresh)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(files.encode(p), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := a.failpoints.Hit(PointActivityFile); err != nil {
		return err
	}
	return a.fs.Rename(fresh, name)
}
