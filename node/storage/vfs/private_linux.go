package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MakePrivate takes the rights of group and others from the folder dir, and from those of
// its entries, and all below them, whose names ours reports: earlier versions made them
// readable for all. What belongs to another user stays as it is, as a volume's root does.
// It returns how many files and folders it changed. A folder that is not there is no error.
func MakePrivate(dir string, ours func(name string) bool) (changed int, err error) {
	euid := os.Geteuid()
	if followed, err := filepath.EvalSymlinks(dir); err == nil {
		dir = followed
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // never there, or removed meanwhile
		}
		if err != nil {
			return err
		}
		if path != dir && filepath.Dir(path) == dir && !ours(e.Name()) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		did, err := makePrivate(path, e, euid)
		if did {
			changed++
		}
		return err
	})
	return changed, err
}

func makePrivate(path string, e fs.DirEntry, euid int) (changed bool, err error) {
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	const others fs.FileMode = 0o077
	if !ok || int(stat.Uid) != euid || !info.IsDir() && !info.Mode().IsRegular() || info.Mode()&others == 0 {
		return false, nil
	}
	// The set-group-id bit, which volumes of Kubernetes have, stays.
	return true, os.Chmod(path, info.Mode()&^others)
}
