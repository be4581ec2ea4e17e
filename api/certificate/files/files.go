package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// MakeDir makes a folder that only this user can look into, and those above it.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, DirMode); err != nil {
		return err
	}
	return os.Chmod(dir, DirMode)
}

// Write writes a file that only this user can read, in one step: whoever reads it
// finds all of it, or what was there before.
func Write(name string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(FileMode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
