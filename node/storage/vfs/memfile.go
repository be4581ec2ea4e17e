package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// inode is a file's contents, or a directory's existence. All fields but dir are
// guarded by the MemFS.
type inode struct {
	dir   bool
	names int // counted in MemFS.mu.used while there is one

	data   []byte
	synced []byte           // as of the last Sync
	dirty  map[int]struct{} // blocks that differ, maybe, from synced

	// Mappings made before data moved to a larger array: writes go there too, so
	// that a mapping stays true and its address stays the same.
	views map[*Mapping][]byte
}

func (n *inode) markDirty(from, to int) {
	if n.dirty == nil {
		n.dirty = map[int]struct{}{}
	}
	for b := from / BlockBytes; b*BlockBytes < to; b++ {
		n.dirty[b] = struct{}{}
	}
}

// resize cuts the file or grows it with zeros.
func (n *inode) resize(size int) {
	before := len(n.data)
	switch {
	case size < before:
		clear(n.data[size:])
		for _, view := range n.views {
			if size < len(view) {
				clear(view[size:])
			}
		}
		n.data = n.data[:size]
		n.markDirty(size, before)
	case size <= cap(n.data):
		n.data = n.data[:size]
		n.markDirty(before, size)
	default:
		grown := make([]byte, size, max(size, 2*cap(n.data)))
		copy(grown, n.data)
		n.data = grown
		n.markDirty(before, size)
	}
}

func (n *inode) writeAt(b []byte, offset int) {
	if end := offset + len(b); end > len(n.data) {
		n.resize(end)
	}
	copy(n.data[offset:], b)
	for _, view := range n.views {
		if offset < len(view) && unsafe.SliceData(view) != unsafe.SliceData(n.data) {
			copy(view[offset:], b)
		}
	}
	n.markDirty(offset, offset+len(b))
}

func (n *inode) sync() {
	n.synced = append(n.synced[:min(len(n.synced), len(n.data))], make([]byte, max(len(n.data)-len(n.synced), 0))...)
	for b := range n.dirty {
		if at := b * BlockBytes; at < len(n.data) {
			copy(n.synced[at:], n.data[at:min(at+BlockBytes, len(n.data))])
		}
	}
	n.dirty = nil
}

// memFile is a handle of an inode.
type memFile struct {
	fs       *MemFS
	inode    *inode
	name     string
	writable bool
	closed   atomic.Bool
}

func (f *memFile) lock(op string, write bool) error {
	switch {
	case f.closed.Load():
		return pathError(op, f.name, fs.ErrClosed)
	case f.inode.dir:
		return pathError(op, f.name, syscall.EISDIR)
	case write && !f.writable:
		return pathError(op, f.name, syscall.EBADF)
	}
	f.fs.mu.Lock()
	return nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.lock("size", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	return int64(len(f.inode.data)), nil
}

func (f *memFile) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.lock("read", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if offset < 0 {
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	if offset >= int64(len(f.inode.data)) {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(b, f.inode.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, offset int64) (int, error) {
	if err := f.lock("write", true); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if offset < 0 {
		return 0, pathError("write", f.name, syscall.EINVAL)
	}
	if len(b) == 0 {
		return 0, nil
	}
	if err := f.reserveLocked("write", offset+int64(len(b))); err != nil {
		return 0, err
	}
	f.inode.writeAt(b, int(offset))
	return len(b), nil
}

// reserveLocked accounts for a file that grows to size, when it does.
func (f *memFile) reserveLocked(op string, size int64) error {
	growth := size - int64(len(f.inode.data))
	if growth <= 0 || f.inode.names == 0 {
		return nil
	}
	if f.fs.mu.used+growth > f.fs.mu.capacity {
		return pathError(op, f.name, syscall.ENOSPC)
	}
	f.fs.mu.used += growth
	return nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.lock("truncate", true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	if size < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	return f.resizeLocked("truncate", size)
}

func (f *memFile) resizeLocked(op string, size int64) error {
	if err := f.reserveLocked(op, size); err != nil {
		return err
	}
	if f.inode.names > 0 {
		f.fs.mu.used -= max(int64(len(f.inode.data))-size, 0)
	}
	f.inode.resize(int(size))
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	if err := f.lock("preallocate", true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	if size <= 0 {
		return pathError("preallocate", f.name, syscall.EINVAL)
	}
	if size <= int64(len(f.inode.data)) {
		return nil
	}
	return f.resizeLocked("preallocate", size)
}

// Punch implements File. Mappings that there are go on showing what was there: who reads a hole that others are just making
// sees either.
func (f *memFile) Punch(offset, length int64) error {
	if err := f.lock("punch", true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	n := f.inode
	if offset < 0 || length <= 0 || offset%BlockBytes != 0 || length%BlockBytes != 0 || offset+length > int64(len(n.data)) {
		return pathError("punch", f.name, syscall.EINVAL)
	}
	data := make([]byte, len(n.data), cap(n.data))
	copy(data, n.data)
	clear(data[offset : offset+length])
	n.data = data
	n.markDirty(int(offset), int(offset+length))
	return nil
}

func (f *memFile) Links() (int, error) {
	if err := f.lock("stat", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	return f.inode.names, nil
}

// Held implements File. Blocks of zeros count as holes.
func (f *memFile) Held() (bytes int64, err error) {
	if err := f.lock("stat", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	var zeros [BlockBytes]byte
	for rest := f.inode.data; len(rest) > 0; rest = rest[min(BlockBytes, len(rest)):] {
		if b := rest[:min(BlockBytes, len(rest))]; string(b) != string(zeros[:len(b)]) {
			bytes += BlockBytes
		}
	}
	return bytes, nil
}

func (f *memFile) Sync() error {
	if err := f.lock("sync", false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.inode.sync()
	return nil
}

func (f *memFile) Map(length int64) (*Mapping, error) {
	if err := f.lock("map", false); err != nil {
		return nil, err
	}
	defer f.fs.mu.Unlock()
	n := f.inode
	if length <= 0 || length > int64(len(n.data)) {
		return nil, fmt.Errorf("map %d of %d bytes of %s: %w", length, len(n.data), f.name, ErrMapLength)
	}
	var m *Mapping
	unmap := func([]byte) error {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		delete(n.views, m)
		return nil
	}
	var advise func([]byte, Advice) error
	if told := f.fs.Advised; told != nil {
		advise = func(b []byte, advice Advice) error {
			told(f.name, length-int64(cap(b)), int64(len(b)), advice)
			return nil
		}
	}
	m = newMapping(f.name, n.data[:length:length], unmap, advise)
	if n.views == nil {
		n.views = map[*Mapping][]byte{}
	}
	n.views[m] = m.bytes
	return m, nil
}
