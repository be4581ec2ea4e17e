package token

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/tickmesh/tickmesh/api/kept"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// FolderFile is the file of tokens in a data folder.
const FolderFile = "TOKENS"

// Folder keeps records in a file of a data folder, for a server on its own.
type Folder struct {
	file *kept.Folder[string]
}

// file is the text of a Folder: see FORMAT.md.
type file struct {
	Format int                        `json:"format"`
	Tokens map[string]json.RawMessage `json:"tokens"`
}

// OpenFolder reads the file of a data folder; none is one without tokens. Errors: ErrFormat,
// and those of reading.
func OpenFolder(dir string) (*Folder, error) {
	file, err := kept.Open(filepath.Join(dir, FolderFile), kept.Codec[string]{Encode: encodeFile, Decode: decodeFile})
	if err != nil {
		return nil, err
	}
	return &Folder{file}, nil
}

func encodeFile(records map[string]string) ([]byte, error) {
	f := file{Format: format, Tokens: map[string]json.RawMessage{}}
	for id, text := range records {
		f.Tokens[id] = json.RawMessage(text)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // records stay as they were written
	err := encoder.Encode(f)
	return text.Bytes(), err
}

// decodeFile reads a file of which each record can be read. Errors: ErrFormat.
func decodeFile(text []byte) (map[string]string, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if f.Format != format || len(f.Tokens) > shardmap.TokensMax {
		return nil, fmt.Errorf("%w: the file has format %d and %d tokens, this version reads format %d and at most %d", ErrFormat, f.Format, len(f.Tokens), format, shardmap.TokensMax)
	}
	records := map[string]string{}
	for id, raw := range f.Tokens {
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		records[id] = compact.String()
		if err := shardmap.ValidateToken(id, records[id]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if _, err := decode(id, records[id]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// Records implements Store.
func (f *Folder) Records() map[string]string { return f.file.All() }

// Load implements Store.
func (f *Folder) Load(_ context.Context, id string) (string, error) { return f.file.All()[id], nil }

// Swap implements Store. It returns when the file is safe on disk.
func (f *Folder) Swap(ctx context.Context, id, old, next string) error {
	if err := shardmap.ValidateToken(id, next); err != nil {
		return err
	}
	return f.file.Change(ctx, func(all map[string]string) error {
		switch {
		case all[id] != old:
			return shardmap.ErrTokenChanged
		case old == "" && len(all) >= shardmap.TokensMax:
			return shardmap.ErrTokens
		case next == "":
			delete(all, id)
		default:
			all[id] = next
		}
		return nil
	})
}

// SwapAll implements Store. It writes the file once.
func (f *Folder) SwapAll(ctx context.Context, swaps []shardmap.TokenSwap) error {
	if err := shardmap.ValidateTokenSwaps(swaps); err != nil {
		return err
	}
	return f.file.Change(ctx, func(all map[string]string) error {
		shardmap.ApplyTokenSwaps(all, swaps)
		return nil
	})
}

// Await implements Store: what was swapped is there.
func (f *Folder) Await(context.Context, string, string) {}

// Follow implements Store: nobody else changes the file.
func (f *Folder) Follow(func()) {}

// AwaySince implements Store: a file is always there.
func (f *Folder) AwaySince() int64 { return 0 }
