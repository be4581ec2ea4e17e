package vfs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
)

const wholeBytesMax = 1 << 30 // of a file that is read into memory

// ErrTooLarge refuses to read a file into memory that is larger than any that is read so.
var ErrTooLarge = errors.New("the file is too large to be read as a whole")

// ReadFile returns all bytes of a file, and ErrTooLarge for one of more than a GiB.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > wholeBytesMax {
		return nil, fmt.Errorf("%s: %w: %d bytes", name, ErrTooLarge, size)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n == len(b) && errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// RemoveAll removes a file, or a directory with all that is in it, but nothing behind a symbolic link or in a file system that
// is mounted there. One that is not there is no error.
func RemoveAll(fs FS, name string) error {
	err := fs.Remove(name)
	if errors.Is(err, iofs.ErrExist) { // it is a directory that is not empty
		var children []string
		if children, err = fs.List(name); err != nil {
			return err
		}
		for _, child := range children {
			if err := RemoveAll(fs, path.Join(name, child)); err != nil {
				return err
			}
		}
		err = fs.Remove(name)
	}
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	return err
}

// WriteFile makes a file with these bytes and makes them durable, but not the file's name: see FS.SyncDir.
func WriteFile(fs FS, name string, b []byte) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
