package vfs

import (
	"errors"
	"io"
)

// OpKind is the kind of a file-system operation.
type OpKind uint8

// The kinds of operations that a fault rule sees.
const (
	OpMkdirAll OpKind = iota
	OpCreate
	OpOpen
	OpOpenReadWrite
	OpRemove
	OpRename
	OpLink
	OpList
	OpStat
	OpSyncDir
	OpLock
	OpFree
	OpRead
	OpWrite
	OpTruncate
	OpPreallocate
	OpSync
	OpMap
)

// Op is an operation that is about to happen.
type Op struct {
	Kind   OpKind
	Name   string // of the file or directory; the old one of a rename or link
	To     string // the new name of a rename or link
	Offset int64  // of a read or write
	Length int64  // of a read, write or mapping; the size of truncate and preallocate
}

// ShortWrite is an error for a rule to return: the write puts down its first
// Bytes bytes and then fails with Err.
type ShortWrite struct {
	Bytes int
	Err   error
}

func (e *ShortWrite) Error() string { return "short write: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ShortWrite) Unwrap() error { return e.Err }

// Faults wraps a file system so that rule sees every operation first: when it
// returns an error, the operation fails with a *fs.PathError around it and has no
// effect, save for a *ShortWrite. Rule may be called from many goroutines, also
// for handles that are open already.
func Faults(inner FS, rule func(Op) error) FS { return &faultFS{inner, rule} }

type faultFS struct {
	inner FS
	rule  func(Op) error
}

func (f *faultFS) check(what string, op Op) error {
	if err := f.rule(op); err != nil {
		return pathError(what, op.Name, err)
	}
	return nil
}

func (f *faultFS) MkdirAll(dir string) error {
	if err := f.check("mkdir", Op{Kind: OpMkdirAll, Name: dir}); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

func (f *faultFS) file(what string, kind OpKind, name string, open func(string) (File, error)) (File, error) {
	if err := f.check(what, Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f}, nil
}

func (f *faultFS) Create(name string) (File, error) {
	return f.file("create", OpCreate, name, f.inner.Create)
}

func (f *faultFS) Open(name string) (File, error) {
	return f.file("open", OpOpen, name, f.inner.Open)
}

func (f *faultFS) OpenReadWrite(name string) (File, error) {
	return f.file("open", OpOpenReadWrite, name, f.inner.OpenReadWrite)
}

func (f *faultFS) Remove(name string) error {
	if err := f.check("remove", Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

func (f *faultFS) Rename(from, to string) error {
	if err := f.check("rename", Op{Kind: OpRename, Name: from, To: to}); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

func (f *faultFS) Link(from, to string) error {
	if err := f.check("link", Op{Kind: OpLink, Name: from, To: to}); err != nil {
		return err
	}
	return f.inner.Link(from, to)
}

func (f *faultFS) List(dir string) ([]string, error) {
	if err := f.check("list", Op{Kind: OpList, Name: dir}); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

func (f *faultFS) Stat(name string) (Info, error) {
	if err := f.check("stat", Op{Kind: OpStat, Name: name}); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.check("sync", Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

func (f *faultFS) Lock(name string) (io.Closer, error) {
	if err := f.check("lock", Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

func (f *faultFS) Free(dir string) (int64, error) {
	if err := f.check("free", Op{Kind: OpFree, Name: dir}); err != nil {
		return 0, err
	}
	return f.inner.Free(dir)
}

type faultFile struct {
	File
	fs *faultFS
}

func (f *faultFile) check(what string, kind OpKind, offset, length int64) error {
	return f.fs.check(what, Op{Kind: kind, Name: f.Name(), Offset: offset, Length: length})
}

func (f *faultFile) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.check("read", OpRead, offset, int64(len(b))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, offset)
}

func (f *faultFile) WriteAt(b []byte, offset int64) (int, error) {
	err := f.check("write", OpWrite, offset, int64(len(b)))
	if err == nil {
		return f.File.WriteAt(b, offset)
	}
	var short *ShortWrite
	if !errors.As(err, &short) {
		return 0, err
	}
	n, writeErr := f.File.WriteAt(b[:min(max(short.Bytes, 0), len(b))], offset)
	return n, errors.Join(err, writeErr)
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.check("truncate", OpTruncate, 0, size); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Preallocate(size int64) error {
	if err := f.check("preallocate", OpPreallocate, 0, size); err != nil {
		return err
	}
	return f.File.Preallocate(size)
}

func (f *faultFile) Sync() error {
	if err := f.check("sync", OpSync, 0, 0); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Map(length int64) (*Mapping, error) {
	if err := f.check("map", OpMap, 0, length); err != nil {
		return nil, err
	}
	return f.File.Map(length)
}
