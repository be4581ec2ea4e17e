package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tickmesh/tickmesh/api/kept"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// FolderFile is the file of a Folder in a data folder (FORMAT.md).
const FolderFile = "METADATA"

// ErrFolder marks a file that cannot be read as records of metadata.
var ErrFolder = errors.New("not a file of metadata")

// Folder keeps records in a file of a data folder, for a server on its own.
type Folder struct {
	file *kept.Folder[shardmap.MetadataRecord]
}

// OpenFolder reads the file of a data folder; none is one without records. Errors: ErrFolder, and those of
// reading.
func OpenFolder(dir string) (*Folder, error) {
	file, err := kept.Open(filepath.Join(dir, FolderFile), kept.Codec[shardmap.MetadataRecord]{Encode: encodeFolder, Decode: decodeFolder})
	if err != nil {
		return nil, err
	}
	return &Folder{file}, nil
}

// folderFormat is the format of the file.
const folderFormat = 1

// folderFile is the text of the file.
type folderFile struct {
	Format  int                     `json:"format"`
	Records map[string]folderRecord `json:"records"` // by the name of the database
}

type folderRecord struct {
	Revision int64  `json:"revision"`
	Text     []byte `json:"text"`
}

func encodeFolder(all map[string]shardmap.MetadataRecord) ([]byte, error) {
	f := folderFile{Format: folderFormat, Records: make(map[string]folderRecord, len(all))}
	for database, r := range all {
		f.Records[database] = folderRecord{r.Revision, r.Text}
	}
	return json.Marshal(f)
}

func decodeFolder(text []byte) (map[string]shardmap.MetadataRecord, error) {
	var f folderFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if f.Format != folderFormat {
		return nil, fmt.Errorf("%w: the file has format %d, this version reads format %d; without the file, writers are asked anew", ErrFolder, f.Format, folderFormat)
	}
	all := make(map[string]shardmap.MetadataRecord, len(f.Records))
	for database, r := range f.Records {
		record := shardmap.MetadataRecord{Database: database, Revision: r.Revision, Text: r.Text}
		if err := record.Validate(); err != nil || r.Revision < 1 {
			return nil, fmt.Errorf("%w: database %q at revision %d", ErrFolder, database, r.Revision)
		}
		all[database] = record
	}
	return all, nil
}

// Metadata implements Store.
func (f *Folder) Metadata(_ context.Context, since int64) (changed []shardmap.MetadataRecord, revision int64, err error) {
	revision = since // records may have been taken away, and no other process writes any
	for _, r := range f.file.All() {
		revision = max(revision, r.Revision)
		if r.Revision > since {
			changed = append(changed, r)
		}
	}
	return changed, revision, nil
}

// SwapMetadata implements Store. It returns when the file is safe on disk.
func (f *Folder) SwapMetadata(ctx context.Context, record shardmap.MetadataRecord) (revision int64, err error) {
	if err := record.Validate(); err != nil {
		return 0, err
	}
	err = f.file.Change(ctx, func(all map[string]shardmap.MetadataRecord) error {
		old, found := all[record.Database]
		switch {
		case old.Revision != record.Revision:
			return shardmap.ErrMetadataChanged
		case !found && len(all) >= shardmap.MetadataRecordsMax:
			return shardmap.ErrDatabases
		}
		for _, r := range all {
			revision = max(revision, r.Revision)
		}
		revision++
		if len(record.Text) == 0 {
			delete(all, record.Database)
			return nil
		}
		record.Revision = revision
		all[record.Database] = record
		return nil
	})
	return revision, err
}
