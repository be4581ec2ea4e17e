package continuous

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

// Store keeps the records of queries by id. It is safe for concurrent use.
type Store interface {
	// Records returns what is known, from memory. It is shared and not to be changed.
	Records() map[string]string
	// Load returns what there is, also what this process has not been told of yet. It is shared and not to be changed.
	// Errors: those of shardmap.Store.Load.
	Load(ctx context.Context) (map[string]string, error)
	// Swap replaces a record; "" stands for none. What was swapped is in Records afterwards, unless a watch is slow.
	// Errors: those of shardmap.Store.SwapQuery.
	Swap(ctx context.Context, id, old, next string) error
}

// Cluster keeps records in the placement store of a cluster.
type Cluster struct {
	store  shardmap.Store
	mirror kept.Mirror[string]
}

// NewCluster makes a Cluster that is to be told of all views of the store by See.
func NewCluster(store shardmap.Store) *Cluster { return &Cluster{store: store} }

// See replaces what is known with the present values of the store.
func (c *Cluster) See(view shardmap.View) {
	if view.Queries != nil { // else they could not be read yet
		c.mirror.See(view.Queries)
	}
}

// Records implements Store.
func (c *Cluster) Records() map[string]string { return c.mirror.All() }

// Load implements Store.
func (c *Cluster) Load(ctx context.Context) (map[string]string, error) {
	view, err := c.store.Load(ctx)
	return view.Queries, err
}

// Swap implements Store.
func (c *Cluster) Swap(ctx context.Context, id, old, next string) error {
	if err := c.store.SwapQuery(ctx, id, old, next); err != nil {
		return err
	}
	c.mirror.Await(ctx, id, next)
	return nil
}

// FolderFile is the file of a Folder in a data folder: a JSON object with the format of the file, and records by id.
const FolderFile = "QUERIES"

// ErrFolder marks a file that cannot be read as records of continuous queries.
var ErrFolder = errors.New("not a file of continuous queries")

// folderFormat is the format of the file.
const folderFormat = 1

// Folder keeps records in a file of a data folder, for a server on its own.
type Folder struct {
	file *kept.Folder[string]
}

// folderFile is the text of the file.
type folderFile struct {
	Format  int                        `json:"format"`
	Queries map[string]json.RawMessage `json:"queries"`
}

// OpenFolder reads the file of a data folder; none is one without records. Errors: ErrFolder, and those of reading.
func OpenFolder(dir string) (*Folder, error) {
	file, err := kept.Open(filepath.Join(dir, FolderFile), kept.Codec[string]{Encode: encodeFolder, Decode: decodeFolder})
	if err != nil {
		return nil, err
	}
	return &Folder{file}, nil
}

func encodeFolder(records map[string]string) ([]byte, error) {
	f := folderFile{Format: folderFormat, Queries: map[string]json.RawMessage{}}
	for id, text := range records {
		f.Queries[id] = json.RawMessage(text)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // statements stay readable
	err := encoder.Encode(f)
	return text.Bytes(), err
}

func decodeFolder(text []byte) (map[string]string, error) {
	var f folderFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if f.Format != folderFormat || len(f.Queries) > shardmap.QueriesMax {
		return nil, fmt.Errorf("%w: format %d and %d queries, and this version reads format %d and at most %d", ErrFolder, f.Format, len(f.Queries), folderFormat, shardmap.QueriesMax)
	}
	records := map[string]string{}
	for id, raw := range f.Queries {
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFolder, err)
		}
		if err := shardmap.ValidateQuery(id, compact.String()); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFolder, err)
		}
		records[id] = compact.String()
	}
	return records, nil
}

// Records implements Store.
func (f *Folder) Records() map[string]string { return f.file.All() }

// Load implements Store.
func (f *Folder) Load(context.Context) (map[string]string, error) { return f.file.All(), nil }

// Swap implements Store. It returns when the file is safe on disk.
func (f *Folder) Swap(ctx context.Context, id, old, next string) error {
	if err := shardmap.ValidateQuery(id, next); err != nil {
		return err
	}
	return f.file.Change(ctx, func(all map[string]string) error {
		switch {
		case old == "" && len(all) >= shardmap.QueriesMax:
			return shardmap.ErrQueries
		case all[id] != old:
			return shardmap.ErrQueryChanged
		case next == "":
			delete(all, id)
		default:
			all[id] = next
		}
		return nil
	})
}
