package tenant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tickmesh/tickmesh/api/kept"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// FolderFile is the file of marks in a data folder: a JSON object of names and marks.
const FolderFile = "DATABASES"

// ErrFolder marks a file that cannot be read as marks.
var ErrFolder = errors.New("not a file of databases")

// Folder keeps marks in a file of a data folder, for a server on its own.
type Folder struct {
	file *kept.Folder[shardmap.DatabaseMark]
}

// OpenFolder reads the file of a data folder; none is one without marks. Errors: ErrFolder,
// and those of reading.
func OpenFolder(dir string) (*Folder, error) {
	file, err := kept.Open(filepath.Join(dir, FolderFile), kept.Codec[shardmap.DatabaseMark]{Encode: encodeMarks, Decode: decodeMarks})
	if err != nil {
		return nil, err
	}
	return &Folder{file}, nil
}

func encodeMarks(marks map[string]shardmap.DatabaseMark) ([]byte, error) {
	return json.MarshalIndent(marks, "", " ")
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
func (f *Folder) All() map[string]shardmap.DatabaseMark { return f.file.All() }

// Set implements Marks. It returns when the file is safe on disk.
func (f *Folder) Set(ctx context.Context, name string, mark shardmap.DatabaseMark) error {
	if err := shardmap.ValidateDatabase(name, mark); err != nil {
		return err
	}
	return f.file.Change(ctx, func(all map[string]shardmap.DatabaseMark) error {
		if mark == "" {
			delete(all, name)
		} else {
			all[name] = mark
		}
		if len(all) > shardmap.DatabasesMax {
			return shardmap.ErrDatabases
		}
		return nil
	})
}
