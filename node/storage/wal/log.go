package wal

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Options say where a log is and how large its files are.
type Options struct {
	FS  vfs.FS
	Dir string // made if missing; it belongs to the log alone
	// FileBytes is the size of a file. 0 means FileBytesDefault.
	FileBytes int64
	// RecycleMax bounds the trimmed files that are kept to be written again.
	// 0 means RecycleDefault, a negative number none.
	RecycleMax int
	// Failpoints may be nil.
	Failpoints *failpoint.Set
	// OnCorrupt, if not nil, is called for each damaged range that Replay meets.
	OnCorrupt func(*CorruptError)
}

// Defaults and bounds of Options.
const (
	FileBytesDefault = 64 << 20
	FileBytesMin     = 2 * fileHeaderBytes
	FileBytesMax     = 1 << 40
	RecycleDefault   = 2
)

// Names of the failpoints.
const (
	FailpointBeforeWrite  = "wal/before-write"
	FailpointAfterWrite   = "wal/after-write"
	FailpointBeforeSync   = "wal/before-sync"
	FailpointAfterSync    = "wal/after-sync"
	FailpointBeforeRename = "wal/before-rename"
	FailpointAfterRename  = "wal/after-rename"
	FailpointSwitch       = "wal/switch"
	FailpointTrim         = "wal/trim"
	FailpointOpenCut      = "wal/open-cut"
)

// Failpoints lists the names of the failpoints.
func Failpoints() []string {
	return []string{
		FailpointBeforeWrite, FailpointAfterWrite, FailpointBeforeSync, FailpointAfterSync,
		FailpointBeforeRename, FailpointAfterRename, FailpointSwitch, FailpointTrim, FailpointOpenCut,
	}
}

// Log is a log that is open for writing. All its methods may be called from many
// goroutines. Locks are taken in the order write → prepare → mu, and sync → mu.
type Log struct {
	options Options
	lock    interface{ Close() error }

	// write serialises writers.
	write struct {
		sync.Mutex
		offset int64 // in the current file
	}
	// prepare serialises what makes, renames and removes files.
	prepare struct {
		sync.Mutex
		spares      []string // oldest first, durable, of FileBytes
		spareNumber uint64   // never used yet
	}
	// sync serialises syncs.
	sync sync.Mutex
	mu   struct {
		sync.Mutex
		files    []*file // in order of position; current and next are the last ones
		current  *file   // nil when there was no room for one
		next     *file   // made ahead; nil while there is none
		unsynced []*file // that may have records after synced, in order
		end      Position
		broken   error
		aheadErr error // of the last try to make a file ahead
		closed   bool
	}
	synced atomic.Uint64

	counters counters

	kick    chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup
}

type counters struct {
	records, recordBytes, writes, bytesWritten  atomic.Int64
	syncs, syncNanos                            atomic.Int64
	corruptions, corruptBytes                   atomic.Int64
	tornTails, tornBytes, recycled, switchWaits atomic.Int64
	spares                                      atomic.Int64
}

// Write puts the buffer's records at the end of the log, with one write to the
// file, and returns the positions of the first record and of what follows the last.
// When it returns nil the operating system has them: see the promises above.
//
// Errors: ErrClosed; ErrBroken, after which the records may or may not appear
// once the log is opened again; *SpaceError, after which they do not.
func (l *Log) Write(b *Buffer) (start, end Position, err error) {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.writable(); err != nil {
		return 0, 0, err
	}
	current, err := l.room(int64(b.Len()))
	if err != nil {
		return 0, 0, err
	}
	start = current.base + Position(l.write.offset)
	if b.Len() == 0 {
		return start, start, nil
	}
	b.place(start, l.Synced())
	err = l.options.Failpoints.Hit(FailpointBeforeWrite)
	if err == nil {
		_, err = current.handle.WriteAt(b.bytes, l.write.offset)
	}
	if err == nil {
		err = l.options.Failpoints.Hit(FailpointAfterWrite)
	}
	if err != nil {
		return 0, 0, l.breakBy(current.name, err)
	}
	l.write.offset += int64(b.Len())
	end = start + Position(b.Len())
	l.mu.Lock()
	l.mu.end = end
	l.mu.Unlock()
	l.counters.writes.Add(1)
	l.counters.records.Add(int64(b.records))
	l.counters.recordBytes.Add(int64(b.Len()))
	l.counters.bytesWritten.Add(int64(b.Len()))
	return start, end, nil
}

func (l *Log) writable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.closed:
		return ErrClosed
	case l.mu.broken != nil:
		return l.mu.broken
	}
	return nil
}

// breakBy makes cause the reason why the log takes no more writes, unless there
// is one already, and returns the reason.
func (l *Log) breakBy(name string, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.broken == nil {
		l.mu.broken = &vfs.BrokenError{Kind: ErrBroken, File: name, Cause: cause}
	}
	return l.mu.broken
}

// room returns a current file with room for need bytes of records and an end
// record. The write lock is held.
func (l *Log) room(need int64) (*file, error) {
	l.mu.Lock()
	current := l.mu.current
	l.mu.Unlock()
	if current != nil && l.write.offset+need+recordHeaderBytes <= current.length {
		return current, nil
	}
	next, err := l.takeNext(need)
	if err != nil {
		return nil, err
	}
	if current != nil {
		end := endRecord(current.base+Position(l.write.offset), l.Synced())
		if _, err := current.handle.WriteAt(end, l.write.offset); err != nil {
			return nil, l.breakBy(current.name, err)
		}
		l.counters.bytesWritten.Add(recordHeaderBytes)
	}
	if err := l.options.Failpoints.Hit(FailpointSwitch); err != nil {
		return nil, l.breakBy(next.name, err)
	}
	l.write.offset = fileHeaderBytes
	l.mu.Lock()
	if current != nil {
		current.full = true
	}
	l.mu.current, l.mu.next = next, nil
	l.mu.unsynced = append(l.mu.unsynced, next)
	l.mu.end = next.base + fileHeaderBytes
	l.mu.Unlock()
	l.wake()
	return next, nil
}

// wake notifies the background that there is something to do.
func (l *Log) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Sync makes durable what has been written when it is called, and returns the
// position up to which the log is durable. Errors: ErrClosed, ErrBroken.
func (l *Log) Sync() (Position, error) {
	l.sync.Lock()
	defer l.sync.Unlock()
	if err := l.writable(); err != nil {
		return 0, err
	}
	return l.syncLocked()
}

func (l *Log) syncLocked() (Position, error) {
	l.mu.Lock()
	target := l.mu.end
	files := append([]*file(nil), l.mu.unsynced...)
	l.mu.Unlock()
	if target == l.Synced() {
		return target, nil
	}
	for _, f := range files {
		start := time.Now()
		err := l.options.Failpoints.Hit(FailpointBeforeSync)
		if err == nil {
			err = f.handle.Sync()
		}
		if err == nil {
			err = l.options.Failpoints.Hit(FailpointAfterSync)
		}
		if err != nil {
			return 0, l.breakBy(f.name, err)
		}
		l.counters.syncs.Add(1)
		l.counters.syncNanos.Add(int64(time.Since(start)))
	}
	l.mu.Lock()
	// The last one goes on being written, and so may those after it.
	l.mu.unsynced = l.mu.unsynced[max(len(files)-1, 0):]
	l.mu.Unlock()
	l.synced.Store(uint64(target))
	return target, nil
}

// Synced returns the position up to which the log is known to be durable.
func (l *Log) Synced() Position { return Position(l.synced.Load()) }

// End returns the position at which the next record will be, or before which it
// will not be.
func (l *Log) End() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.end
}

// First returns the lowest position from which the log can be replayed.
func (l *Log) First() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firstLocked()
}

func (l *Log) firstLocked() Position {
	if len(l.mu.files) == 0 {
		return l.mu.end
	}
	return l.mu.files[0].base
}

// Close makes the log durable, ends it with an end record, so that the next Open
// knows all of it to be synced, and gives up its files. A broken log is closed
// without that, and returns the reason. Replays that are running end with an error.
func (l *Log) Close() error {
	l.write.Lock()
	defer l.write.Unlock()
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.mu.closed = true
	err := l.mu.broken
	current := l.mu.current
	l.mu.Unlock()
	close(l.stop)
	l.stopped.Wait()

	l.sync.Lock()
	defer l.sync.Unlock()
	if err == nil {
		_, err = l.syncLocked()
	}
	if err == nil && current != nil && l.write.offset > fileHeaderBytes {
		_, err = current.handle.WriteAt(endRecord(current.base+Position(l.write.offset), l.Synced()), l.write.offset)
		if err == nil {
			err = current.handle.Sync()
		}
	}
	if err == nil {
		err = l.giveBack(current)
	}
	return errors.Join(err, l.closeFiles())
}

// giveBack frees what was made ahead, once all is synced: the next Open begins another file. What
// a power cut leaves of it is as it was before.
func (l *Log) giveBack(current *file) error {
	l.prepare.Lock()
	defer l.prepare.Unlock()
	l.mu.Lock()
	next := l.mu.next
	if next != nil && current != nil && next != current {
		l.mu.next = nil
		l.mu.files = slices.DeleteFunc(l.mu.files, func(f *file) bool { return f == next })
	} else {
		next = nil // without another file nobody would know where the log goes on
	}
	l.mu.Unlock()
	var errs []error
	if current != nil && l.write.offset > fileHeaderBytes {
		errs = append(errs, current.handle.Truncate(l.write.offset+recordHeaderBytes))
	}
	if next != nil {
		errs = append(errs, next.handle.Close(), l.options.FS.Remove(next.name))
	}
	for _, spare := range l.prepare.spares {
		errs = append(errs, l.removeIfThere(spare))
	}
	l.prepare.spares = nil
	l.counters.spares.Store(0)
	return errors.Join(append(errs, l.options.FS.SyncDir(l.options.Dir))...)
}

func (l *Log) closeFiles() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, f := range l.mu.files {
		errs = append(errs, f.handle.Close())
	}
	l.mu.files = nil
	return errors.Join(append(errs, l.lock.Close())...)
}

func (o *Options) setDefaults() error {
	if o.FileBytes == 0 {
		o.FileBytes = FileBytesDefault
	}
	if o.FileBytes < FileBytesMin || o.FileBytes > FileBytesMax || o.FileBytes%recordAlign != 0 {
		return fmt.Errorf("a log file of %d bytes: want a multiple of %d from %d to %d", o.FileBytes, recordAlign, int64(FileBytesMin), int64(FileBytesMax))
	}
	switch {
	case o.RecycleMax == 0:
		o.RecycleMax = RecycleDefault
	case o.RecycleMax < 0:
		o.RecycleMax = 0
	}
	return nil
}
