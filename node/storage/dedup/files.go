package dedup

import (
	"fmt"

	"github.com/tickmesh/tickmesh/node/storage/shardfile"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// fileKind returns the kind of the file of batch ids: the tables of all shards as they were at a checkpoint.
func fileKind() shardfile.Kind {
	return shardfile.Kind{Prefix: "batches-", Magic: "TMBATCH\x01", What: "batch ids"}
}

// decodeFile reads the tables of so many shards.
func decodeFile(b []byte, shards int) ([]Table, error) {
	forms, err := fileKind().Decode(b, shards)
	if err != nil {
		return nil, err
	}
	return decodeTables(forms)
}

func decodeTables(forms [][]byte) ([]Table, error) {
	tables := emptyTables(len(forms))
	for shard, form := range forms {
		if len(form) == 0 {
			continue
		}
		var err error
		if tables[shard], err = DecodeTable(form); err != nil {
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return tables, nil
}

func emptyTables(shards int) []Table {
	tables := make([]Table, shards)
	for i := range tables {
		tables[i] = NewTable()
	}
	return tables
}

// Form is the durable form of a shard's table.
type Form struct {
	Encoded []byte
	Entry   uint64 // the last entry that changed the table
}

// Files keeps the tables of all shards, as they were at a checkpoint, in a file that a
// manifest names. Its methods must not be called at the same time.
type Files struct{ *shardfile.Files }

// OpenFiles returns the files of a folder, of which a manifest names one, and removes all others.
func OpenFiles(fsys vfs.FS, dir, name string) (Files, error) {
	files, err := shardfile.Open(fsys, dir, fileKind(), name)
	return Files{files}, err
}

// Read returns the tables of so many shards. If the file is missing or damaged, they are empty, and
// damage is why: batches that are repeated now may be applied again, but what is stored
// can be read.
func (f Files) Read(shards int) (tables []Table, damage, err error) {
	forms, damage, err := f.Files.Read(shards)
	if err != nil {
		return nil, nil, err
	}
	if damage == nil {
		tables, damage = decodeTables(forms)
	}
	if damage != nil {
		return emptyTables(shards), fmt.Errorf("%s: repeated batches may be applied again: %w", f.Path(), damage), nil
	}
	return tables, nil, nil
}

// Stage writes tables, by shard, as shardfile.Files does.
func (f Files) Stage(forms []Form) (shardfile.Staged, error) {
	entries := make([]uint64, len(forms))
	for i := range forms {
		entries[i] = forms[i].Entry
	}
	return f.Files.Stage(entries, func(shard int) []byte { return forms[shard].Encoded })
}
