package vfs

import (
	"errors"
	"io"
	iofs "io/fs"
	"syscall"
)

// FS is a file system. Names are slash-separated paths, relative to the working
// directory of the implementation or absolute. Errors wrap those of io/fs and
// syscall: errors.Is works with fs.ErrNotExist, syscall.ENOSPC, syscall.EIO and
// the like. All methods may be called from many goroutines.
type FS interface {
	// MkdirAll creates dir and its missing parents, and makes them durable.
	MkdirAll(dir string) error
	// Create makes a new file, or empties an existing one, for reading and writing.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	// Remove removes a file or an empty directory. Open handles and mappings of
	// the file go on working.
	Remove(name string) error
	// Rename renames the file, in place of what had the name.
	Rename(from, to string) error
	// Link adds a second name of a file. Errors: fs.ErrExist when that is taken.
	Link(from, to string) error
	// List returns the sorted base names of a directory's entries.
	List(dir string) ([]string, error)
	// Stat returns what a name stands for.
	Stat(name string) (Info, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes the advisory lock of a file, which it creates if missing, until
	// the result is closed or the process ends. It returns ErrLocked when another
	// holder, in this process or another, has it.
	Lock(name string) (io.Closer, error)
	// Free returns the bytes that an ordinary user may still write below dir.
	Free(dir string) (bytes int64, err error)
}

// File is an open file. ReadAt and WriteAt may be called from many goroutines.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Name returns the name that the file was opened by.
	Name() string
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// Truncate cuts the file, or grows it with zeros without reserving blocks.
	Truncate(size int64) error
	// Preallocate reserves blocks for the first size bytes. A file that was
	// shorter grows and reads as zeros there; a longer one keeps its length.
	// It is where a full disk shows (syscall.ENOSPC) instead of later.
	Preallocate(size int64) error
	// Punch gives the blocks of some bytes within the file back to the disk: they read as zeros from then on. Both numbers are
	// multiples of BlockBytes. After a power cut each block is as before or zeros, synced or not. It takes no room of the disk.
	// Error: errors.ErrUnsupported where the file system keeps no holes.
	Punch(offset, length int64) error
	// Links returns how many names the file has.
	Links() (int, error)
	// Held returns the bytes of the disk that the file takes, without its holes.
	Held() (int64, error)
	// Sync makes data and size durable (fdatasync).
	Sync() error
	// Map maps the first length bytes, which must exist, for reading. The mapping
	// outlives the handle, and shows later writes of any handle at once.
	Map(length int64) (*Mapping, error)
}

// Info describes what a name stands for.
type Info struct {
	Size int64 // bytes; of no meaning for a directory
	Dir  bool
}

// ErrLocked reports that another holder has the lock.
var ErrLocked = errors.New("locked by another process")

// ErrMapLength refuses a mapping of no bytes or of more bytes than the file has.
var ErrMapLength = errors.New("mapping is empty or goes beyond the end of the file")

// IsNoSpace reports whether err means that the disk or the quota is full: it may
// pass when files are removed.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsNoLink reports whether err means that no file gets a second name here: the file system has none, the names would lie in
// two, or it is not allowed.
func IsNoLink(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, iofs.ErrPermission) || errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EMLINK)
}

// BlockBytes is the unit in which a disk is taken to write: a power cut leaves
// each block as it was before or after a write.
const BlockBytes = 4096
