package tenant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// FolderFile is the file of marks in a data folder: a JSON object of names and marks.
const FolderFile = "DATABASES"

// ErrFolder marks a file that cannot be read as marks.
var ErrFolder = errors.New("not a file of databases")

// Folder keeps marks in a file of a data folder, for a server on its own.
type Folder struct {
	path string

	writing sync.Mutex
	mu      struct {
		sync.Mutex
		marks map[string]shardmap.DatabaseMark // replaced, never changed in place
	}
}

// OpenFolder reads the file of a data folder; none is one without marks. Errors: ErrFolder,
// and those of reading.
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{path: filepath.Join(dir, FolderFile)}
	text, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.mu.marks = map[string]shardmap.DatabaseMark{}
		return f, nil
	case err != nil:
		return nil, err
	}
	if f.mu.marks, err = decodeMarks(text); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return f, nil
}

func decodeMarks(text []byte) (map[string]shardmap.DatabaseMark, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	marks := map[string]shardmap.DatabaseMark{}
	if err := decoder.Decode(&marks); err != nil || marks == nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if len(marks) > shardmap.DatabasesMax {
		return nil, fmt.Errorf("%w: it has %d names", ErrFolder, len(marks))
	}
	for name, mark := range marks {
		if err := shardmap.ValidateDatabase(name, mark); err != nil || mark == "" {
			return nil, fmt.Errorf("%w: %q is %q", ErrFolder, name, mark)
		}
	}
	return marks, nil
}

// All implements Marks.
func (f *Folder) All() map[string]shardmap.DatabaseMark {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.marks
}

// Set implements Marks. It returns when the file is safe on disk.
func (f *Folder) Set(_ context.Context, name string, mark shardmap.DatabaseMark) error {
	if err := shardmap.ValidateDatabase(name, mark); err != nil {
		return err
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	next := maps.Clone(f.All())
	if mark == "" {
		delete(next, name)
	} else {
		next[name] = mark
	}
	if len(next) > shardmap.DatabasesMax {
		return shardmap.ErrDatabases
	}
	if err := f.write(next); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.marks = next
	return nil
}

// write replaces the file: a new one is synced, renamed into place, and the folder synced.
func (f *Folder) write(marks map[string]shardmap.DatabaseMark) error {
	text, err := json.MarshalIndent(marks, "", " ")
	if err != nil {
		return err
	}
	temporary := f.path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
