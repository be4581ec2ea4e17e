package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/bits"
	"path"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// A month's file, written whole and renamed into place (FORMAT.md):
//
//	magic · version u32 · month u32 · chunks u32 · chunk* · crc32c u32
//
// A chunk is a byte for its kind and, for chunkBits, its words.
const (
	activityPrefix  = "active-"
	activityNew     = "new-" // before the name while it is being written
	activityMagic   = "TMACTV\r\n"
	activityVersion = 1
	activityHeader  = 20

	chunkNone = 0
	chunkFull = 1
	chunkBits = 2
)

var errActivityFile = errors.New("not an activity file")

func activityName(m Month) string { return activityPrefix + m.String() }

// encode gives the file's bytes. Marks set meanwhile may or may not be in it.
func (m *monthMarks) encode() []byte {
	chunks := *m.chunks.Load()
	b := []byte(activityMagic)
	b = binary.LittleEndian.AppendUint32(b, activityVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.month))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(chunks)))
	for _, c := range chunks {
		switch {
		case c == nil:
			b = append(b, chunkNone)
		case c.ones.Load() == markBits:
			b = append(b, chunkFull)
		default:
			b = append(b, chunkBits)
			for i := range c.words {
				b = binary.LittleEndian.AppendUint64(b, c.words[i].Load())
			}
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeActivity reads a month's file; marks of series from count on are left out.
func decodeActivity(b []byte, count uint32, full *marks) (Month, []*marks, error) {
	if len(b) < activityHeader+4 || string(b[:8]) != activityMagic {
		return 0, nil, fmt.Errorf("%w: %d bytes, or another magic number", errActivityFile, len(b))
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return 0, nil, fmt.Errorf("%w: the checksum does not agree", errActivityFile)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != activityVersion {
		return 0, nil, fmt.Errorf("%w: version %d, known is %d", ErrVersion, v, activityVersion)
	}
	month, length := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	rest := body[activityHeader:]
	if month > uint32(MonthMax) || uint64(length) > uint64(len(rest)) {
		return 0, nil, fmt.Errorf("%w: month %d, %d chunks", errActivityFile, month, length)
	}
	chunks := make([]*marks, 0, min(length, (count+markBits-1)/markBits))
	for n := range length {
		if len(rest) == 0 || rest[0] > chunkBits || rest[0] == chunkBits && len(rest) < 1+markBits/8 {
			return 0, nil, fmt.Errorf("%w: chunk %d", errActivityFile, n)
		}
		kind := rest[0]
		rest = rest[1:]
		first := uint64(n) * markBits
		if first < uint64(count) {
			chunks = append(chunks, decodeMarks(kind, rest, uint64(count)-first, full))
		}
		if kind == chunkBits {
			rest = rest[markBits/8:]
		}
	}
	if len(rest) > 0 {
		return 0, nil, fmt.Errorf("%w: %d bytes too many", errActivityFile, len(rest))
	}
	return Month(month), chunks, nil
}

// decodeMarks gives the first count marks of a chunk.
func decodeMarks(kind byte, b []byte, count uint64, full *marks) *marks {
	switch {
	case kind == chunkNone:
		return nil
	case kind == chunkFull && count >= markBits:
		return full
	}
	c := new(marks)
	for i := range c.words {
		word := ^uint64(0)
		if kind == chunkBits {
			word = binary.LittleEndian.Uint64(b[i*8:])
		}
		if left := max(int64(count)-int64(i)*64, 0); left < 64 {
			word &= 1<<left - 1
		}
		c.words[i].Store(word)
		c.ones.Add(int32(bits.OnesCount64(word)))
	}
	if c.ones.Load() == markBits {
		return full
	}
	return c
}

// openActivity reads the files of all months. A month whose file is damaged
// counts as one in which every series was active: queries then look at more
// series than they need, and miss none.
func openActivity(o *Options) (*activity, error) {
	a := newActivity(o.FS, o.Dir, o.Failpoints)
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("series activity: %w", err)
	}
	for _, base := range names {
		name := path.Join(o.Dir, base)
		if strings.HasPrefix(base, activityNew+activityPrefix) {
			if err := o.FS.Remove(name); err != nil {
				return nil, fmt.Errorf("series activity: %w", err)
			}
			continue
		}
		month, ok := monthOfName(base)
		if !ok {
			continue
		}
		if o.State.Count == 0 {
			// Nothing counts yet, so it is of an earlier life.
			a.removed = append(a.removed, month)
			continue
		}
		if err := a.load(o, name, month); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *activity) load(o *Options, name string, month Month) error {
	m := &monthMarks{month: month}
	var chunks []*marks
	b, err := readFile(o.FS, name)
	if err == nil {
		var inside Month
		inside, chunks, err = decodeActivity(b, o.State.Count, a.full)
		if err == nil && inside != month {
			err = fmt.Errorf("%w: it is of %s", errActivityFile, inside)
		}
	}
	if errors.Is(err, ErrVersion) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		o.Corrupt(&CorruptError{File: name, What: err.Error()})
		chunks = nil
		for first := uint64(0); first < uint64(o.State.Count); first += markBits {
			chunks = append(chunks, decodeMarks(chunkFull, nil, uint64(o.State.Count)-first, a.full))
		}
		m.dirty.Store(true)
	}
	m.chunks.Store(&chunks)
	a.insertLocked(m)
	return nil
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

func monthOfName(base string) (Month, bool) {
	var year, month int
	text, ok := strings.CutPrefix(base, activityPrefix)
	if n, err := fmt.Sscanf(text, "%4d-%2d", &year, &month); !ok || n != 2 || err != nil {
		return 0, false
	}
	n := (year-1970)*12 + month - 1
	if n < 0 || n > int(MonthMax) || Month(n).String() != text {
		return 0, false
	}
	return Month(n), true
}

// save writes the months that changed and removes the files of those dropped. One
// save runs at a time.
func (a *activity) save() error {
	for _, m := range *a.months.Load() {
		if !m.dirty.Swap(false) {
			continue
		}
		if err := a.write(m); err != nil {
			m.dirty.Store(true)
			return fmt.Errorf("series activity: %w", err)
		}
		a.renamed = true
	}
	a.mu.Lock()
	removed := a.removed
	a.removed = nil
	a.mu.Unlock()
	for i, month := range removed {
		err := a.failpoints.Hit(PointActivityDrops)
		if err == nil && a.find(month) == nil {
			err = a.fs.Remove(path.Join(a.dir, activityName(month)))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.mu.Lock()
			a.removed = append(a.removed, removed[i:]...)
			a.mu.Unlock()
			return fmt.Errorf("series activity: %w", err)
		}
		a.renamed = true
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

func (a *activity) write(m *monthMarks) error {
	name := path.Join(a.dir, activityName(m.month))
	fresh := path.Join(a.dir, activityNew+activityName(m.month))
	f, err := a.fs.Create(fresh)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(m.encode(), 0)
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
