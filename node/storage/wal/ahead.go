package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	// aheadRetry is how long the background waits after it could not make a file.
	aheadRetry = time.Second
	zeroUnit   = 1 << 20
	// zeroBytes are written between two syncs while a file is zeroed: a larger
	// stretch would hold up the syncs of the log for longer.
	zeroBytes = 4 << 20
)

// background makes the next file ahead of need and syncs files that are full.
func (l *Log) background() {
	retry := time.NewTimer(aheadRetry)
	defer retry.Stop()
	for {
		if l.writable() == nil {
			_ = l.syncFull()
			if err := l.makeNext(true); err != nil {
				retry.Reset(aheadRetry)
			}
		}
		select {
		case <-l.stop:
			return
		case <-l.kick:
		case <-retry.C:
		}
	}
}

// syncFull syncs when there are full files that are not known to be durable, so
// that the stretch a power cut may cost, and what Open scans, stay bounded even
// if nobody calls Sync. An error has broken the log, which the next Write reports.
func (l *Log) syncFull() error {
	l.mu.Lock()
	full := len(l.mu.unsynced) > 1
	l.mu.Unlock()
	if !full {
		return nil
	}
	_, err := l.Sync()
	return err
}

// makeNext makes the next file unless there is one, and remembers the outcome.
func (l *Log) makeNext(zero bool) error {
	l.prepare.Lock()
	defer l.prepare.Unlock()
	return l.makeNextLocked(l.options.FileBytes, zero)
}

func (l *Log) makeNextLocked(length int64, zero bool) error {
	l.mu.Lock()
	if l.mu.next != nil {
		l.mu.Unlock()
		return nil
	}
	base := l.baseLocked()
	l.mu.Unlock()
	next, err := l.makeFile(base, length, zero)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.aheadErr = err
	if err == nil {
		l.mu.next = next
		l.mu.files = append(l.mu.files, next)
	}
	return err
}

// baseLocked returns the position at which a new file starts.
func (l *Log) baseLocked() Position {
	if n := len(l.mu.files); n > 0 {
		return l.mu.files[n-1].end()
	}
	return l.mu.end
}

// takeNext returns an empty file with room for need bytes of records and an end
// record. The write lock is held. In a steady state the file is there.
func (l *Log) takeNext(need int64) (*file, error) {
	length := l.options.FileBytes
	if least := fileHeaderBytes + need + recordHeaderBytes; least > length {
		length *= (least + length - 1) / length
	}
	l.mu.Lock()
	next := l.mu.next
	l.mu.Unlock()
	if next != nil && next.length >= length {
		return next, nil
	}
	l.counters.switchWaits.Add(1)
	l.prepare.Lock()
	defer l.prepare.Unlock()
	if err := l.makeNextLocked(length, false); err != nil {
		return nil, l.spaceError(length, err)
	}
	l.mu.Lock()
	next = l.mu.next
	l.mu.Unlock()
	if next.length < length {
		if err := l.growFile(next, length); err != nil {
			return nil, l.spaceError(length, err)
		}
	}
	return next, nil
}

func (l *Log) spaceError(length int64, err error) error {
	if errors.Is(err, ErrBroken) {
		return err
	}
	return &SpaceError{Dir: l.options.Dir, Bytes: length, Cause: err}
}

// growFile makes an empty file larger, for a buffer that would not fit. Until the
// header is rewritten the file is as it was.
func (l *Log) growFile(f *file, length int64) error {
	if err := f.handle.Preallocate(length); err != nil {
		return err
	}
	_, err := f.handle.WriteAt(encodeFileHeader(f.base, length), 0)
	if err == nil {
		err = f.handle.Sync()
	}
	if err != nil { // it is unknown whether the file is of the old or the new length
		return l.breakBy(f.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.length = length
	return nil
}

// makeFile makes an empty file. Its name becomes that of a log file only when
// blocks and header are durable, and is durable when makeFile returns: nothing is
// ever written to a file that could be taken for a spare after a power cut.
func (l *Log) makeFile(base Position, length int64, zero bool) (*file, error) {
	if int64(base)+length < 0 {
		return nil, errors.New("the log has no positions left")
	}
	handle, spare, err := l.makeSpare(length, zero)
	if err != nil {
		return nil, err
	}
	f := &file{name: fileName(l.options.Dir, base), base: base, length: length}
	_, err = handle.WriteAt(encodeFileHeader(base, length), 0)
	if err == nil {
		err = handle.Sync()
	}
	if err == nil {
		err = l.options.Failpoints.Hit(FailpointBeforeRename)
	}
	if err == nil {
		err = l.options.FS.Rename(spare, f.name)
	}
	if err := errors.Join(err, handle.Close()); err != nil {
		return nil, errors.Join(err, l.removeIfThere(spare))
	}
	if err := l.options.Failpoints.Hit(FailpointAfterRename); err != nil {
		return nil, errors.Join(err, l.removeIfThere(f.name))
	}
	if err := l.options.FS.SyncDir(l.options.Dir); err != nil {
		return nil, errors.Join(err, l.removeIfThere(f.name))
	}
	// Opened by its final name, for the messages.
	if f.handle, err = l.options.FS.OpenReadWrite(f.name); err != nil {
		return nil, errors.Join(err, l.removeIfThere(f.name))
	}
	return f, nil
}

func (l *Log) removeIfThere(name string) error {
	if err := l.options.FS.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeSpare returns a spare file of at least length bytes, an old one if there is
// one of the right size. The prepare lock is held.
func (l *Log) makeSpare(length int64, zero bool) (vfs.File, string, error) {
	if length == l.options.FileBytes && len(l.prepare.spares) > 0 {
		name := l.prepare.spares[0]
		l.prepare.spares = l.prepare.spares[1:]
		l.counters.spares.Store(int64(len(l.prepare.spares)))
		if handle, err := l.options.FS.OpenReadWrite(name); err == nil {
			l.counters.recycled.Add(1)
			return handle, name, nil
		}
		// A spare that cannot be opened is nobody's loss.
	}
	name := l.newSpareName()
	handle, err := l.options.FS.Create(name)
	if err != nil {
		return nil, "", err
	}
	err = handle.Preallocate(length)
	if err == nil && zero {
		err = l.writeZeros(handle, length)
	}
	if err != nil {
		return nil, "", errors.Join(err, handle.Close(), l.options.FS.Remove(name))
	}
	return handle, name, nil
}

func (l *Log) newSpareName() string {
	l.prepare.spareNumber++
	return spareName(l.options.Dir, l.prepare.spareNumber)
}

// writeZeros turns reserved blocks into written ones, so that a later fdatasync
// has no metadata to write: the journal would double the cost of each sync.
func (l *Log) writeZeros(handle vfs.File, length int64) error {
	zeros := make([]byte, min(length, zeroUnit))
	for at := int64(0); at < length; at += int64(len(zeros)) {
		select {
		case <-l.stop:
			return ErrClosed
		default:
		}
		if _, err := handle.WriteAt(zeros[:min(int64(len(zeros)), length-at)], at); err != nil {
			return err
		}
		l.counters.bytesWritten.Add(min(int64(len(zeros)), length-at))
		if (at+int64(len(zeros)))%zeroBytes == 0 {
			if err := handle.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TrimBefore deletes the files that end at or before position: they are kept
// for later, up to RecycleMax, or removed, once no Replay reads them. It returns
// when that is durable. The file that is being written always stays.
func (l *Log) TrimBefore(position Position) error {
	// A file that a sync may be busy with must stay. An error has broken the log;
	// that is for writers to hear, and room is still worth having.
	_ = l.syncFull()
	l.prepare.Lock()
	defer l.prepare.Unlock()
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	var trimmed []*file
	for len(l.mu.files) > 0 {
		f := l.mu.files[0]
		if f.end() > position || f == l.mu.current || f == l.mu.next || slices.Contains(l.mu.unsynced, f) {
			break
		}
		l.mu.files = l.mu.files[1:]
		f.trimmed = true
		if f.readers == 0 {
			trimmed = append(trimmed, f)
		}
	}
	l.mu.Unlock()
	err := l.retireLocked(trimmed)
	l.wake()
	return err
}

// retireLocked makes spares of trimmed files or removes them. The prepare lock
// is held.
func (l *Log) retireLocked(files []*file) error {
	if len(files) == 0 {
		return nil
	}
	var errs []error
	var spares []string
	for _, f := range files {
		size, err := f.handle.Size()
		errs = append(errs, err, f.handle.Close(), l.options.Failpoints.Hit(FailpointTrim))
		if size == l.options.FileBytes && f.length == size && len(l.prepare.spares)+len(spares) < l.options.RecycleMax {
			spare := l.newSpareName()
			if err = l.options.FS.Rename(f.name, spare); err == nil {
				spares = append(spares, spare)
			}
		} else {
			err = l.options.FS.Remove(f.name)
		}
		errs = append(errs, err)
	}
	err := l.options.FS.SyncDir(l.options.Dir)
	if err == nil {
		// Not before: a spare whose old name comes back must be as it was.
		l.prepare.spares = append(l.prepare.spares, spares...)
		l.counters.spares.Store(int64(len(l.prepare.spares)))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("trim the log in %s: %w", path.Clean(l.options.Dir), err)
	}
	return nil
}
