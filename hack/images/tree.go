package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one entry of an image's file system.
type file struct {
	mode    fs.FileMode // type and permissions: a folder, a symbolic link or a plain file
	content []byte      // of a plain file; the target of a link
	user    int         // and group
}

// tree is the file system of an image: files by their path, without a leading slash.
type tree map[string]file

// add puts a file at an absolute path, with the folders above it.
func (t tree) add(name string, f file) error {
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == "" || !path.IsAbs(name) {
		return fmt.Errorf("not an absolute path of a file: %q", name)
	}
	t[clean] = f
	for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
		above, ok := t[dir]
		if ok && !above.mode.IsDir() {
			return fmt.Errorf("%s lies below %s, which is no folder", clean, dir)
		}
		if !ok {
			t[dir] = file{mode: fs.ModeDir | 0o755}
		}
	}
	return nil
}

// copy puts a file of this machine at an absolute path. Zero keeps its permissions.
func (t tree) copy(source, name string, permissions fs.FileMode) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no plain file", source)
	}
	if permissions == 0 {
		permissions = info.Mode().Perm()
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return t.add(name, file{mode: permissions, content: content})
}

// write writes the tree as a tar archive that depends on nothing but the tree and the
// time.
func (t tree) write(w io.Writer, modified time.Time) error {
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		f := t[name]
		header := &tar.Header{
			Name: name, Mode: int64(f.mode.Perm()), Uid: f.user, Gid: f.user, ModTime: modified, Format: tar.FormatPAX,
		}
		if f.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		switch {
		case f.mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
		case f.mode&fs.ModeSymlink != 0:
			header.Typeflag, header.Linkname = tar.TypeSymlink, string(f.content)
		default:
			header.Typeflag, header.Size = tar.TypeReg, int64(len(f.content))
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := archive.Write(f.content); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return archive.Close()
}

func (t tree) bytes(modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	err := t.write(&b, modified)
	return b.Bytes(), err
}
