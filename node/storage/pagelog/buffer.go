package pagelog

import (
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// buffersSpareMax are the buffers that are kept while they are not needed.
const buffersSpareMax = 2

// buffers hold the pages of the current generation that are not written yet.
// They are guarded by Log.mu, but the bytes of those that are full do not change.
type buffers struct {
	active  []byte
	start   int64 // offset of active in the generation
	full    []fullBuffer
	writing bool // the first of full
	spare   [][]byte
	done    *sync.Cond // a write has ended
}

// fullBuffer takes no more pages. It lies in one extent.
type fullBuffer struct {
	bytes []byte
	start int64
}

// has returns what a buffer has from an offset on, if the offset lies in it.
func (f *fullBuffer) has(offset int64) ([]byte, bool) {
	if offset < f.start || offset-f.start >= int64(len(f.bytes)) {
		return nil, false
	}
	return f.bytes[offset-f.start:], true
}

// at is has of all buffers.
func (b *buffers) at(offset int64) ([]byte, bool) {
	active := fullBuffer{b.active, b.start}
	if from, ok := active.has(offset); ok {
		return from, true
	}
	for i := range b.full {
		if from, ok := b.full[i].has(offset); ok {
			return from, true
		}
	}
	return nil, false
}

// bytes returns the size of what is buffered.
func (b *buffers) bytes() int64 {
	sum := len(b.active)
	for i := range b.full {
		sum += len(b.full[i].bytes)
	}
	return int64(sum)
}

// handOverLocked puts the active buffer among the full ones, which WriteFull writes, and
// makes another one active. Only while there are BuffersMax does it write, or wait for
// the write that is under way; then it drops and re-takes mu.
func (l *Log) handOverLocked() error {
	b := &l.mu.buffers
	if l.mu.broken != nil {
		return l.mu.broken
	}
	if len(b.full)+1 >= BuffersMax {
		return l.writeLocked()
	}
	if len(b.active) == 0 {
		return nil
	}
	b.full = append(b.full, fullBuffer{b.active, b.start})
	l.full.Add(1)
	b.start += int64(len(b.active))
	if n := len(b.spare); n > 0 {
		b.active, b.spare = b.spare[n-1][:0], b.spare[:n-1]
	} else {
		b.active = make([]byte, 0, cap(b.active))
	}
	return nil
}

// writeLocked writes the oldest full buffer, or waits for the write that is under way.
// It drops and re-takes mu.
func (l *Log) writeLocked() error {
	b := &l.mu.buffers
	if l.mu.broken != nil {
		return l.mu.broken
	}
	if b.writing {
		b.done.Wait()
		return l.mu.broken
	}
	if len(b.full) == 0 {
		return nil
	}
	b.writing = true
	g, oldest := l.currentLocked(), b.full[0]
	index, inExtent := g.locate(oldest.start)
	e := g.extents[index].Load()
	l.mu.Unlock()
	err := l.writeOut(e, oldest.bytes, inExtent)
	l.mu.Lock()
	b.writing = false
	b.done.Broadcast()
	if err != nil { // it stays, for readers
		return l.breakLocked(e.file.Name(), err)
	}
	g.flushed.Store(oldest.start + int64(len(oldest.bytes)))
	b.full = slices.Delete(b.full, 0, 1)
	l.full.Add(-1)
	if len(b.spare) < buffersSpareMax {
		b.spare = append(b.spare, oldest.bytes)
	}
	return nil
}

// WriteFull writes to the operating system the pages of buffers that are full. Who takes a
// lock under which it will Append calls it before: Append then finds room and waits for
// no disk, unless it is given more than BuffersMax buffers hold. What cannot be written
// breaks the log, as the next Append reports.
func (l *Log) WriteFull() {
	if l.full.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.mu.buffers
	for len(b.full) > 0 && l.mu.broken == nil {
		if b.writing && len(b.full) < BuffersMax/2 {
			return // who writes goes on
		}
		_ = l.writeLocked()
	}
}

func (l *Log) writeOut(e *extent, b []byte, offset int64) error {
	if err := l.options.Failpoints.Hit(FailpointBeforeFlush); err != nil {
		return err
	}
	if _, err := e.file.WriteAt(b, offset); err != nil {
		return err
	}
	l.counters.flushes.Add(1)
	l.counters.bytesWritten.Add(int64(len(b)))
	return l.options.Failpoints.Hit(FailpointAfterFlush)
}

func (l *Log) breakLocked(name string, cause error) error {
	if l.mu.broken == nil {
		l.mu.broken = &vfs.BrokenError{Kind: ErrBroken, File: name, Cause: cause}
	}
	return l.mu.broken
}

// Flush writes all pages appended so far to the operating system. Errors:
// ErrBroken, ErrClosed.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writableLocked(); err != nil {
		return err
	}
	return l.flushAllLocked()
}

// flushAllLocked writes what there is when it is called; mu is dropped meanwhile.
func (l *Log) flushAllLocked() error {
	g, b := l.currentLocked(), &l.mu.buffers
	target := b.start + int64(len(b.active))
	for g == l.currentLocked() && g.flushed.Load() < target && b.bytes() > 0 {
		step := l.writeLocked
		if len(b.full) == 0 {
			step = l.handOverLocked
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
