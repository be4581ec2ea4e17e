package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// MemFS is a file system in memory, for tests. It knows what has been synced,
// so CrashClone can tell what a power cut would leave. The root "/" and the
// working directory "." exist from the start.
type MemFS struct {
	// Advised, when set before files are mapped, is told of what Mapping.Advise passes to the kernel elsewhere.
	Advised func(name string, offset, length int64, advice Advice)

	mu struct {
		sync.Mutex
		names    map[string]*inode // what a process sees
		durable  map[string]*inode // what a power cut leaves for certain
		pending  []change          // what SyncDir has not made durable, oldest first
		locks    map[string]bool
		capacity int64
		used     int64 // bytes of files that have a name
	}
}

// change is one directory operation: names that get an inode, or nil for none.
// It happens as a whole or not at all.
type change struct {
	names  [2]string // the second is empty unless it is a rename
	inodes [2]*inode
}

const memCapacityDefault = 1 << 40

// NewMemFS makes an empty file system of 1 TiB.
func NewMemFS() *MemFS {
	m := &MemFS{}
	m.mu.names = map[string]*inode{".": {dir: true}, "/": {dir: true}}
	m.mu.durable = map[string]*inode{".": {dir: true}, "/": {dir: true}}
	m.mu.locks = map[string]bool{}
	m.mu.capacity = memCapacityDefault
	return m
}

// SetCapacity sets the bytes that all files together may have; beyond, writes
// fail with syscall.ENOSPC. It may be below what is used.
func (m *MemFS) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// parentLocked checks that the directory of name exists.
func (m *MemFS) parentLocked(op, name string) error {
	switch d := m.mu.names[path.Dir(name)]; {
	case d == nil:
		return pathError(op, name, fs.ErrNotExist)
	case !d.dir:
		return pathError(op, name, syscall.ENOTDIR)
	}
	return nil
}

// applyLocked makes a change visible, and remembers that it is not durable.
func (m *MemFS) applyLocked(c change) {
	for i, name := range c.names {
		if name == "" {
			continue
		}
		if c.inodes[i] == nil {
			delete(m.mu.names, name)
		} else {
			m.mu.names[name] = c.inodes[i]
		}
	}
	m.mu.pending = append(m.mu.pending, c)
}

// MkdirAll implements FS.
func (m *MemFS) MkdirAll(dir string) error {
	dir = path.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for at := dir; ; at = path.Dir(at) {
		if d := m.mu.names[at]; d != nil {
			if !d.dir {
				return pathError("mkdir", at, syscall.ENOTDIR)
			}
			break
		}
		missing = append(missing, at)
	}
	for _, at := range slices.Backward(missing) {
		d := &inode{dir: true}
		m.mu.names[at], m.mu.durable[at] = d, d
		for i := range m.mu.pending { // an earlier Remove must not come true later
			m.mu.pending[i].forget(at)
		}
	}
	return nil
}

// Create implements FS.
func (m *MemFS) Create(name string) (File, error) {
	name = path.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.parentLocked("create", name); err != nil {
		return nil, err
	}
	n := m.mu.names[name]
	switch {
	case n == nil:
		n = &inode{names: 1}
		m.applyLocked(change{names: [2]string{name}, inodes: [2]*inode{n}})
	case n.dir:
		return nil, pathError("create", name, syscall.EISDIR)
	default:
		m.mu.used -= int64(len(n.data))
		n.resize(0)
	}
	return &memFile{fs: m, inode: n, name: name, writable: true}, nil
}

// Open implements FS.
func (m *MemFS) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *MemFS) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

func (m *MemFS) open(name string, writable bool) (File, error) {
	name = path.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.names[name]
	if n == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	if n.dir && writable {
		return nil, pathError("open", name, syscall.EISDIR)
	}
	return &memFile{fs: m, inode: n, name: name, writable: writable}, nil
}

// Remove implements FS.
func (m *MemFS) Remove(name string) error {
	name = path.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.names[name]
	if n == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.dir && len(childrenOf(m.mu.names, name)) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.dropNameLocked(n)
	m.applyLocked(change{names: [2]string{name}})
	return nil
}

func (m *MemFS) dropNameLocked(n *inode) {
	if n.names--; n.names == 0 {
		m.mu.used -= int64(len(n.data))
	}
}

// Rename implements FS. Directories cannot be renamed.
func (m *MemFS) Rename(from, to string) error {
	from, to = path.Clean(from), path.Clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.names[from]
	if n == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	if n.dir {
		return pathError("rename", from, syscall.EISDIR)
	}
	if err := m.parentLocked("rename", to); err != nil {
		return err
	}
	if from == to {
		return nil
	}
	if old := m.mu.names[to]; old != nil {
		if old.dir {
			return pathError("rename", to, syscall.EISDIR)
		}
		m.dropNameLocked(old)
	}
	m.applyLocked(change{names: [2]string{to, from}, inodes: [2]*inode{n, nil}})
	return nil
}

// Link implements FS. Directories cannot be linked.
func (m *MemFS) Link(from, to string) error {
	from, to = path.Clean(from), path.Clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.names[from]
	switch {
	case n == nil:
		return pathError("link", from, fs.ErrNotExist)
	case n.dir:
		return pathError("link", from, syscall.EPERM)
	case m.mu.names[to] != nil:
		return pathError("link", to, fs.ErrExist)
	}
	if err := m.parentLocked("link", to); err != nil {
		return err
	}
	n.names++
	m.applyLocked(change{names: [2]string{to}, inodes: [2]*inode{n}})
	return nil
}

func childrenOf(names map[string]*inode, dir string) []string {
	var children []string
	for name := range names {
		if name != dir && path.Dir(name) == dir {
			children = append(children, path.Base(name))
		}
	}
	slices.Sort(children)
	return children
}

// List implements FS.
func (m *MemFS) List(dir string) ([]string, error) {
	dir = path.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.directoryLocked("list", dir); err != nil {
		return nil, err
	}
	return childrenOf(m.mu.names, dir), nil
}

func (m *MemFS) directoryLocked(op, dir string) error {
	switch d := m.mu.names[dir]; {
	case d == nil:
		return pathError(op, dir, fs.ErrNotExist)
	case !d.dir:
		return pathError(op, dir, syscall.ENOTDIR)
	}
	return nil
}

// Stat implements FS.
func (m *MemFS) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.names[path.Clean(name)]
	if n == nil {
		return Info{}, pathError("stat", name, fs.ErrNotExist)
	}
	return Info{Size: int64(len(n.data)), Dir: n.dir}, nil
}

// SyncDir implements FS. A rename between directories becomes durable, as a
// whole, with whichever of the two is synced first.
func (m *MemFS) SyncDir(dir string) error {
	dir = path.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.directoryLocked("sync", dir); err != nil {
		return err
	}
	m.mu.pending = applyChanges(m.mu.durable, m.mu.pending, func(c change) bool {
		return path.Dir(c.names[0]) == dir || c.names[1] != "" && path.Dir(c.names[1]) == dir
	})
	return nil
}

// applyChanges applies the chosen changes to names and returns the others. Of a change
// that stays behind, the names that a later chosen change has set are taken out:
// on a disk the later one wins.
func applyChanges(names map[string]*inode, changes []change, chosen func(change) bool) []change {
	var left []change
	for _, c := range changes {
		if !chosen(c) {
			left = append(left, c)
			continue
		}
		for i, name := range c.names {
			if name == "" {
				continue
			}
			if c.inodes[i] == nil {
				delete(names, name)
			} else {
				names[name] = c.inodes[i]
			}
			for j := range left {
				left[j].forget(name)
			}
		}
	}
	return slices.DeleteFunc(left, func(c change) bool { return c.names[0] == "" })
}

// forget takes a name out of the change.
func (c *change) forget(name string) {
	if c.names[1] == name {
		c.names[1], c.inodes[1] = "", nil
	}
	if c.names[0] == name {
		c.names[0], c.inodes[0] = c.names[1], c.inodes[1]
		c.names[1], c.inodes[1] = "", nil
	}
}

// Lock implements FS.
func (m *MemFS) Lock(name string) (io.Closer, error) {
	name = path.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.locks[name] {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	if err := m.parentLocked("lock", name); err != nil {
		return nil, err
	}
	if m.mu.names[name] == nil {
		m.applyLocked(change{names: [2]string{name}, inodes: [2]*inode{{names: 1}}})
	}
	m.mu.locks[name] = true
	return &memLock{fs: m, name: name}, nil
}

type memLock struct {
	fs   *MemFS
	name string
	once sync.Once
}

func (l *memLock) Close() error {
	err := fs.ErrClosed
	l.once.Do(func() {
		l.fs.mu.Lock()
		defer l.fs.mu.Unlock()
		delete(l.fs.mu.locks, l.name)
		err = nil
	})
	return err
}

// Free implements FS.
func (m *MemFS) Free(dir string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.directoryLocked("free", path.Clean(dir)); err != nil {
		return 0, err
	}
	return max(m.mu.capacity-m.mu.used, 0), nil
}

// String lists the files and their sizes, for messages of tests.
func (m *MemFS) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, n := range m.mu.names {
		if !n.dir {
			names = append(names, fmt.Sprintf("%s %d", name, len(n.data)))
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}
