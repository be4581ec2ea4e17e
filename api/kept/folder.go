package kept

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"github.com/tickmesh/tickmesh/api/durable"
)

// Codec writes and reads the text of a file.
type Codec[V any] struct {
	Encode func(map[string]V) ([]byte, error)
	Decode func([]byte) (map[string]V, error)
}

// Folder keeps values in a file that is its owner's alone. It is safe for concurrent use.
type Folder[V any] struct {
	path  string
	codec Codec[V]

	writing chan struct{} // holds one value while somebody writes
	mu      struct {
		sync.Mutex
		all map[string]V // replaced, never changed in place
	}
}

// Open reads a file; where there is none, no value is kept yet. Errors: those of reading and
// of Codec.Decode.
func Open[V any](path string, codec Codec[V]) (*Folder[V], error) {
	f := &Folder[V]{path: path, codec: codec, writing: make(chan struct{}, 1)}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.mu.all = map[string]V{}
		return f, nil
	case err != nil:
		return nil, err
	}
	if f.mu.all, err = codec.Decode(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// All returns the values by name, from memory. They are shared and not to be changed.
func (f *Folder[V]) All() map[string]V {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.all
}

// Change has a copy of the values changed, and returns when that is safe on disk. Changes come
// one after the other; one that has not begun when ctx ends is left out. Errors: those of ctx and
// change, and those of writing; then nothing has changed.
func (f *Folder[V]) Change(ctx context.Context, change func(all map[string]V) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case f.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.writing }()
	next := maps.Clone(f.All())
	if err := change(next); err != nil {
		return err
	}
	if err := f.write(next); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.all = next
	return nil
}

func (f *Folder[V]) write(all map[string]V) error {
	text, err := f.codec.Encode(all)
	if err != nil {
		return err
	}
	return durable.Replace(f.path, append(text, '\n'))
}
