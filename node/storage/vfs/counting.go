package vfs

import (
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// Count is what has gone to the files whose base names start with Prefix.
type Count struct {
	Prefix       string
	BytesWritten int64
	BytesZeroed  int64 // by which Preallocate made files longer; not in BytesWritten
	Writes       int64
	Syncs        int64
	SyncTime     time.Duration // in all syncs together
	Failures     int64         // writes, preallocations and syncs that gave an error
}

// CountingFS is a file system that counts what passes through it.
type CountingFS struct {
	FS
	classes []countClass
}

type countClass struct {
	prefix                                              string
	bytesWritten, bytesZeroed, writes, syncs, syncNanos atomic.Int64
	failures                                            atomic.Int64
}

// Counting wraps a file system. A file counts for the first of the prefixes that
// its base name starts with, else for the class of prefix "".
func Counting(inner FS, prefixes ...string) *CountingFS {
	c := &CountingFS{FS: inner, classes: make([]countClass, len(prefixes)+1)}
	for i, prefix := range prefixes {
		c.classes[i].prefix = prefix
	}
	return c
}

// Counts returns the counters, in the order of the prefixes, the rest last.
func (c *CountingFS) Counts() []Count {
	counts := make([]Count, len(c.classes))
	for i := range c.classes {
		k := &c.classes[i]
		counts[i] = Count{
			Prefix: k.prefix, BytesWritten: k.bytesWritten.Load(), BytesZeroed: k.bytesZeroed.Load(),
			Writes: k.writes.Load(), Syncs: k.syncs.Load(),
			SyncTime: time.Duration(k.syncNanos.Load()), Failures: k.failures.Load(),
		}
	}
	return counts
}

func (c *CountingFS) wrap(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	base := path.Base(f.Name())
	for i := range c.classes[:len(c.classes)-1] {
		if strings.HasPrefix(base, c.classes[i].prefix) {
			return &countingFile{f, &c.classes[i]}, nil
		}
	}
	return &countingFile{f, &c.classes[len(c.classes)-1]}, nil
}

// Create implements FS.
func (c *CountingFS) Create(name string) (File, error) { return c.wrap(c.FS.Create(name)) }

// OpenReadWrite implements FS. Handles for reading only are not wrapped.
func (c *CountingFS) OpenReadWrite(name string) (File, error) {
	return c.wrap(c.FS.OpenReadWrite(name))
}

type countingFile struct {
	File
	class *countClass
}

func (f *countingFile) failed(err error) {
	if err != nil {
		f.class.failures.Add(1)
	}
}

func (f *countingFile) WriteAt(b []byte, offset int64) (int, error) {
	n, err := f.File.WriteAt(b, offset)
	f.class.writes.Add(1)
	f.class.bytesWritten.Add(int64(n))
	f.failed(err)
	return n, err
}

func (f *countingFile) Preallocate(size int64) error {
	before, err := f.Size()
	if err == nil {
		err = f.File.Preallocate(size)
	}
	if err == nil {
		f.class.bytesZeroed.Add(max(size-before, 0))
	}
	f.failed(err)
	return err
}

func (f *countingFile) Sync() error {
	start := time.Now()
	err := f.File.Sync()
	f.class.syncs.Add(1)
	f.class.syncNanos.Add(int64(time.Since(start)))
	f.failed(err)
	return err
}
