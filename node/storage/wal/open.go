package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const lockFile = "LOCK"

// Open opens the log of a folder, or begins one. It finds where the last run
// ended and cuts off what a power cut has torn, which Stats counts. Damage to
// records that were synced is left to Replay.
//
// Errors: vfs.ErrLocked when another process has the log, ErrBroken when what the last run has
// left cannot be synced, and what the file system returns. A full disk is no error here: Write reports it.
func Open(options Options) (*Log, error) {
	l, err := open(options)
	if err == nil {
		l.stopped.Go(l.background)
	}
	return l, err
}

// open is Open without the background.
func open(options Options) (*Log, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	l := &Log{options: options, kick: make(chan struct{}, 1), stop: make(chan struct{})}
	if err := options.FS.MkdirAll(options.Dir); err != nil {
		return nil, err
	}
	lock, err := options.FS.Lock(path.Join(options.Dir, lockFile))
	if err != nil {
		return nil, err
	}
	l.lock = lock
	err = l.list()
	if err == nil {
		err = l.recover()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", options.Dir, err), l.closeFiles())
	}
	return l, nil
}

// list opens the files of the folder.
func (l *Log) list() error {
	names, err := l.options.FS.List(l.options.Dir)
	if err != nil {
		return err
	}
	for _, name := range names { // sorted, and so by base
		full := path.Join(l.options.Dir, name)
		if base, ok := parseFileName(name); ok {
			if err := l.openFile(full, base); err != nil {
				return err
			}
		} else if number, ok := parseSpareName(name); ok {
			if err := l.adoptSpare(full, number); err != nil {
				return err
			}
		}
	}
	return l.inferLengths()
}

func (l *Log) openFile(name string, base Position) error {
	handle, err := l.options.FS.OpenReadWrite(name)
	if err != nil {
		return err
	}
	f := &file{name: name, base: base, handle: handle}
	l.mu.files = append(l.mu.files, f)
	b := make([]byte, fileHeaderUsed)
	if err := readFull(handle, b, 0); err != nil {
		return err
	}
	written, length, ok, err := decodeFileHeader(name, b)
	if err != nil {
		return err
	}
	if ok && written == base {
		f.length = length
	}
	return nil
}

// inferLengths guesses the length of files whose headers are damaged.
func (l *Log) inferLengths() error {
	for i, f := range l.mu.files {
		if i+1 < len(l.mu.files) {
			reach := int64(l.mu.files[i+1].base - f.base)
			if f.length == 0 || f.length > reach {
				f.length = reach
			}
			continue
		}
		if f.length == 0 {
			size, err := f.handle.Size()
			if err != nil {
				return err
			}
			f.length = max((size+recordAlign-1)&^(recordAlign-1), fileHeaderBytes, l.options.FileBytes)
		}
	}
	return nil
}

// adoptSpare keeps a spare file of an earlier run if it can be used.
func (l *Log) adoptSpare(name string, number uint64) error {
	l.prepare.spareNumber = max(l.prepare.spareNumber, number)
	info, err := l.options.FS.Stat(name)
	if err != nil {
		return err
	}
	if info.Size == l.options.FileBytes && len(l.prepare.spares) < l.options.RecycleMax {
		l.prepare.spares = append(l.prepare.spares, name)
		l.counters.spares.Store(int64(len(l.prepare.spares)))
		return nil
	}
	if err := l.options.FS.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// survey is what the scan of one file has found.
type survey struct {
	gaps    []gap    // that no record of the file calls synced
	synced  Position // the highest position that a record calls synced
	records int      // and lost records whose headers are good
	ended   bool
	last    int64 // offset behind the last record
}

// gap is where something is missing.
type gap struct {
	at         Position
	recognised bool // there is the header of a record
}

// surveyFile scans a file.
func surveyFile(f *file) (survey, error) {
	size, err := f.handle.Size()
	if err != nil {
		return survey{}, err
	}
	s := newScanner(f.handle, f.base, fileHeaderBytes, min(size, f.length), false)
	defer s.close()
	v := survey{last: fileHeaderBytes}
	inGap := false
	for {
		found, err := s.next()
		if err != nil {
			return survey{}, err
		}
		switch found.kind {
		case foundLimit:
			if !v.ended && !inGap { // what follows the last record is missing
				v.gaps = append(v.gaps, gap{at: f.base + Position(v.last)})
			}
			return v, nil
		case foundGap:
			if found.recognised {
				v.records++
			}
			if !inGap {
				v.gaps = append(v.gaps, gap{f.base + Position(found.from), found.recognised})
			}
			inGap = true
			continue
		case foundRecord:
			v.records++
		case foundEnd:
			v.ended = true
		}
		inGap = false
		v.last = found.to
		v.synced = max(v.synced, found.synced)
		for len(v.gaps) > 0 && v.gaps[0].at < v.synced {
			v.gaps = v.gaps[1:]
		}
	}
}

// recover finds the end of the log, cuts what is torn, and makes the log ready
// for writing.
func (l *Log) recover() error {
	surveys, from, err := l.surveyTail()
	if err != nil {
		return err
	}
	files := l.mu.files[from:]
	// Files at the end that never got a record can be written as they are.
	empty := len(files)
	for empty > 0 && surveys[empty-1].records == 0 && !surveys[empty-1].ended && isWhole(files[empty-1]) {
		empty--
	}
	if err := l.dropLast(len(files) - empty - 2); err != nil {
		return err
	}
	files = l.mu.files[from:]
	synced := syncedOf(surveys)
	if err := l.renew(files, surveys, synced); err != nil {
		return err
	}
	if tear, torn := tearOf(files[:empty], surveys, synced); torn {
		if err := l.cut(files[:empty], surveys, tear, synced); err != nil {
			return err
		}
	}
	for i, f := range l.mu.files {
		f.full = i < from+empty
	}
	l.start(from + empty)
	return nil
}

// dropLast removes the last n files, which are empty: only one is made ahead, so
// more are the work of somebody else.
func (l *Log) dropLast(n int) error {
	if n <= 0 {
		return nil
	}
	for range n {
		last := len(l.mu.files) - 1
		f := l.mu.files[last]
		l.mu.files = l.mu.files[:last]
		if err := errors.Join(f.handle.Close(), l.options.FS.Remove(f.name)); err != nil {
			return err
		}
	}
	// A name that came back could lie inside of a file that has grown meanwhile.
	return l.options.FS.SyncDir(l.options.Dir)
}

// renew writes what no record calls synced once more, as it was read, and syncs
// it. A process that was killed may have left pages that only the kernel has, and
// one whose sync failed has left pages that the kernel has and takes for written:
// a sync alone would say that they are durable, and they are not.
func (l *Log) renew(files []*file, surveys []survey, synced Position) error {
	b := make([]byte, zeroUnit)
	for i, f := range files {
		for _, part := range [][2]int64{
			{0, fileHeaderBytes}, {max(int64(synced)-int64(f.base), fileHeaderBytes), surveys[i].last},
		} {
			if err := rewrite(f.handle, part[0], part[1], b); err != nil {
				return err
			}
		}
		if err := f.handle.Sync(); err != nil {
			return fmt.Errorf("%w: what the last run has written cannot be made durable: %w", ErrBroken, err)
		}
	}
	return nil
}

// rewrite writes the bytes [from, to) of a file as they are, as far as there are any.
func rewrite(handle vfs.File, from, to int64, b []byte) error {
	for from < to {
		n, err := handle.ReadAt(b[:min(int64(len(b)), to-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		if _, err := handle.WriteAt(b[:n], from); err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// isWhole reports whether an empty file has its blocks.
func isWhole(f *file) bool {
	size, err := f.handle.Size()
	if err != nil || size < f.length {
		return false
	}
	b := make([]byte, fileHeaderUsed)
	if readFull(f.handle, b, 0) != nil {
		return false
	}
	base, length, ok, err := decodeFileHeader(f.name, b)
	return err == nil && ok && base == f.base && length == f.length
}

// surveyTail scans files, the last one first, until one begins where everything
// is known to be synced. It returns the index of that file and the surveys from it on.
func (l *Log) surveyTail() ([]survey, int, error) {
	var reversed []survey
	var synced Position
	from := len(l.mu.files)
	for from > 0 && (from == len(l.mu.files) || synced < l.mu.files[from].base) {
		from--
		v, err := surveyFile(l.mu.files[from])
		if err != nil {
			return nil, 0, err
		}
		synced = max(synced, v.synced)
		reversed = append(reversed, v)
	}
	surveys := make([]survey, len(reversed))
	for i, v := range reversed {
		surveys[len(surveys)-1-i] = v
	}
	return surveys, from, nil
}

// syncedOf returns the highest position that a record calls synced.
func syncedOf(surveys []survey) Position {
	var synced Position
	for i := range surveys {
		synced = max(synced, surveys[i].synced)
	}
	return synced
}

// tearOf returns the first place that is missing and that no record calls synced.
func tearOf(files []*file, surveys []survey, synced Position) (gap, bool) {
	for i, f := range files {
		for _, g := range surveys[i].gaps {
			if g.at >= synced {
				return g, true
			}
		}
		// A file that is missing between two others.
		if i+1 < len(files) && f.end() < files[i+1].base && f.end() >= synced {
			return gap{at: f.end()}, true
		}
	}
	return gap{}, false
}

// cut ends the log at tear: the file there and those after it get an end record
// in place of what is torn. Their positions are never used again.
//
// The last file goes first, and each is durable before the one before it: when
// the power goes in between, the tear is still there and what follows it is never
// taken for its continuation. For the same reason only the end record at the tear
// calls everything before it synced.
func (l *Log) cut(files []*file, surveys []survey, tear gap, synced Position) error {
	lost := int64(0)
	for i, f := range slices.Backward(files) {
		if f.end() <= tear.at {
			break
		}
		at := max(int64(tear.at)-int64(f.base), fileHeaderBytes)
		lost += max(surveys[i].last-at, 0)
		if surveys[i].last > at || tear.recognised && tear.at >= f.base {
			l.counters.tornTails.Add(1)
		}
		if err := l.options.Failpoints.Hit(FailpointOpenCut); err != nil {
			return err
		}
		if err := f.handle.Truncate(at); err != nil {
			return err
		}
		end := f.base + Position(at)
		if f.base <= tear.at {
			synced = end
		}
		if _, err := f.handle.WriteAt(endRecord(end, synced), at); err != nil {
			return err
		}
		if err := f.handle.Sync(); err != nil {
			return err
		}
	}
	l.counters.tornBytes.Add(lost)
	return nil
}

// start takes the first of the empty files as the current one. A disk without
// room for one is left for Write to tell.
func (l *Log) start(empty int) {
	if empty < len(l.mu.files) {
		l.mu.current = l.mu.files[empty]
		if empty+1 < len(l.mu.files) {
			l.mu.next = l.mu.files[empty+1]
		}
	} else if l.makeNext(false) == nil {
		l.mu.current, l.mu.next = l.mu.next, nil
	}
	if l.mu.current == nil {
		l.mu.end = l.baseLocked()
	} else {
		l.mu.end = l.mu.current.base + fileHeaderBytes
		l.mu.unsynced = []*file{l.mu.current}
	}
	l.write.offset = fileHeaderBytes
	l.synced.Store(uint64(l.mu.end))
}
