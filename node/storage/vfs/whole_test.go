package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
	"testing"
)

// What is written as a whole outlives a power cut once its name does, replaces what was there, and is read back.
func TestWholeFiles(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		name := path.Join(dir, "whole")
		if _, err := ReadFile(fsys, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
		for _, text := range []string{"a long first text", "short", ""} {
			must(t, WriteFile(fsys, name, []byte(text)))
			must(t, fsys.SyncDir(dir))
			if got := contents(t, fsys, name); got != text {
				t.Errorf("%q is written, the file has %q", text, got)
			}
			if got, err := ReadFile(fsys, name); err != nil || string(got) != text {
				t.Errorf("%q is read as %q, %v", text, got, err)
			}
			if mem, ok := fsys.(*MemFS); ok {
				if got := contents(t, mem.CrashClone(CrashOptions{}), name); got != text {
					t.Errorf("%q is written, a power cut leaves %q", text, got)
				}
			}
		}
	})
}

// A file that no memory holds is refused before memory is taken for it.
func TestReadFileTooLarge(t *testing.T) {
	name := path.Join(t.TempDir(), "large")
	f, err := OS().Create(name)
	must(t, err)
	must(t, errors.Join(f.Truncate(wholeBytesMax+1), f.Close()))
	if _, err := ReadFile(OS(), name); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// A file is not taken for written when it or its sync failed.
func TestWriteFileFails(t *testing.T) {
	for _, kind := range []OpKind{OpCreate, OpWrite, OpSync} {
		fsys := Faults(NewMemFS(), func(op Op) error {
			if op.Kind == kind {
				return syscall.EIO
			}
			return nil
		})
		if err := WriteFile(fsys, "whole", []byte("text")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v fails: %v", kind, err)
		}
	}
}

// What is removed with all that is in it is gone by all names in there, and by no other: not behind a symbolic link, and not
// by a second name elsewhere.
func TestRemoveAll(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		tree, kept := path.Join(dir, "tree"), path.Join(dir, "kept")
		must(t, RemoveAll(fsys, tree))
		must(t, fsys.MkdirAll(path.Join(tree, "deep/empty")))
		must(t, fsys.MkdirAll(kept))
		create(t, fsys, path.Join(kept, "file"), "kept")
		create(t, fsys, path.Join(tree, "file"), "gone")
		must(t, fsys.Link(path.Join(kept, "file"), path.Join(tree, "deep/file")))
		if err := fsys.Link(path.Join(kept, "file"), path.Join(tree, "file")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a link over a file: %v", err)
		}
		if _, err := os.Stat(kept); err == nil { // it is a directory of the operating system
			must(t, os.Symlink(kept, path.Join(tree, "symbolic")))
		}
		must(t, RemoveAll(fsys, tree))
		if _, err := fsys.Stat(tree); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what was removed: %v", err)
		}
		if got := contents(t, fsys, path.Join(kept, "file")); got != "kept" {
			t.Errorf("the other name has %q", got)
		}
		must(t, RemoveAll(fsys, path.Join(kept, "file")))
	})
}

func TestIsNoLink(t *testing.T) {
	for _, err := range []error{syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS, syscall.EXDEV} {
		if !IsNoLink(&os.LinkError{Op: "link", Old: "a", New: "b", Err: err}) {
			t.Errorf("%v", err)
		}
	}
	if IsNoLink(&os.LinkError{Op: "link", Old: "a", New: "b", Err: syscall.ENOSPC}) {
		t.Error("a full disk has links")
	}
}
