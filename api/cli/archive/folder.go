package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/tickmesh/tickmesh/api/durable"
)

// Folder is a Store in a folder of a file system.
type Folder struct{ dir string }

var _ Store = (*Folder)(nil)

// partSuffix ends the names of files that are being written.
const partSuffix = ".part"

// NewFolder returns the store of a folder, which need not be there yet.
func NewFolder(dir string) *Folder { return &Folder{dir: dir} }

// String names the folder.
func (f *Folder) String() string { return f.dir }

func (f *Folder) path(key string) string { return filepath.Join(f.dir, filepath.FromSlash(key)) }

// Put implements Store: the file gets its name when it is on disk.
func (f *Folder) Put(ctx context.Context, key string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := f.path(key)
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.ReplaceShared(path, filepath.Base(path)+".*"+partSuffix, content)
}

// limited is a part of a file.
type limited struct {
	io.Reader
	io.Closer
}

// Get implements Store.
func (f *Folder) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := os.Open(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", f.path(key), ErrNone)
	}
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return limited{io.LimitReader(file, length), file}, nil
}

// List implements Store.
func (f *Folder) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := filepath.WalkDir(f.path(filepath.Dir(prefix+"x")), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was deleted meanwhile, or never there
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			relative, err := filepath.Rel(f.dir, path)
			key := filepath.ToSlash(relative)
			if err != nil || e.IsDir() || !strings.HasPrefix(key, prefix) || strings.HasSuffix(key, partSuffix) {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if !yield(Info{Key: key, Bytes: info.Size(), ModifiedAt: info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Info{}, err)
		}
	}
}

// Delete implements Store.
func (f *Folder) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(f.path(key)))
}
