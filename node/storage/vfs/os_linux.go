package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Modes of what is made: measurements, keys of clusters and names of users are for the
// owner alone. A umask can only take rights away.
const (
	FileMode   fs.FileMode = 0o600
	FolderMode fs.FileMode = 0o700
)

// OS returns the operating system's files.
func OS() FS { return osFS{newSyncs()} }

type osFS struct{ syncs *syncs }

func (o osFS) MkdirAll(dir string) error {
	var missing []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil {
			if !info.IsDir() {
				return &fs.PathError{Op: "mkdir", Path: at, Err: unix.ENOTDIR}
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, at)
	}
	for _, at := range slices.Backward(missing) {
		if err := os.Mkdir(at, FolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := o.SyncDir(filepath.Dir(at)); err != nil {
			return err
		}
	}
	return nil
}

func (o osFS) Create(name string) (File, error) {
	return o.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (o osFS) Open(name string) (File, error) { return o.open(name, os.O_RDONLY) }

func (o osFS) OpenReadWrite(name string) (File, error) { return o.open(name, os.O_RDWR) }

func (o osFS) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, FileMode)
	if err != nil {
		return nil, err
	}
	return &osFile{f, o.syncs}, nil
}

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Link(from, to string) error { return os.Link(from, to) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: info.Size(), Dir: info.IsDir()}, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, FileMode)
	if err != nil {
		return nil, err
	}
	err = control(f, "flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", name, ErrLocked)
	}
	return nil, errors.Join(err, f.Close())
}

func (osFS) Free(dir string) (int64, error) {
	var s unix.Statfs_t
	err := retryInterrupted(func() error { return unix.Statfs(dir, &s) })
	if err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// control runs a system call on f's descriptor and keeps it open meanwhile.
func control(f *os.File, what string, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		callErr = retryInterrupted(func() error { return call(int(fd)) })
	})
	if err == nil && callErr != nil {
		err = &fs.PathError{Op: what, Path: f.Name(), Err: callErr}
	}
	return err
}

func retryInterrupted(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// MajorFaults returns how often this process has waited for a disk since its start to
// read a block of a mapped file.
func MajorFaults() int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Majflt
}
