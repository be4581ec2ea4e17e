// Package durable replaces files so that whoever reads one, after a power cut too, finds all of the
// new content or all of the old. Files are for their owner alone, and so are folders that it makes.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Modes of what is made, whatever the umask.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// newSuffix ends the temporary name of Replace.
const newSuffix = ".new"

// Replace replaces a file that nobody else replaces at the same time. What an earlier attempt left
// behind under its temporary name, which ends in .new, is written over.
func Replace(name string, content []byte) error {
	file, err := os.OpenFile(name+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, FileMode)
	if err != nil {
		return err
	}
	return replace(file, name, content)
}

// ReplaceShared replaces a file that others may replace at the same time: the last one counts.
// Pattern is that of os.CreateTemp for the temporary name, in the folder of the file.
func ReplaceShared(name, pattern string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), pattern)
	if err != nil {
		return err
	}
	return replace(file, name, content)
}

// replace writes, syncs and closes a temporary file, gives it its name, and syncs the folder. The
// temporary file is gone where that fails.
func replace(file *os.File, name string, content []byte) error {
	err := file.Chmod(FileMode) // before there is content: an earlier file may have another
	if err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return SyncDir(filepath.Dir(name))
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// MakeDir makes a folder and those above it that are not there, durably. One that is there keeps
// its mode.
func MakeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if above := filepath.Dir(dir); above != dir {
		if err := MakeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}
