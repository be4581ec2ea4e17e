package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tickmesh/tickmesh/api/durable"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// mapFileName is the file of the data folder that has the newest map seen.
const mapFileName = "MAP"

// ReadMap returns the newest map that was seen by the node of a data folder; nil: none.
// Errors: shardmap.ErrMap, shardmap.ErrFormat, and those of the file system.
func ReadMap(dataDir string) (*shardmap.Map, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, mapFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the shard map: %w", err)
	}
	m, err := shardmap.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dataDir, mapFileName), err)
	}
	return &m, nil
}

// writeMap replaces the file in one step, durably: a node that has acted on a map
// must refuse older ones after a power cut, too.
func writeMap(dataDir string, m *shardmap.Map) error {
	text, err := m.Encode()
	if err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(dataDir, mapFileName), text); err != nil {
		return fmt.Errorf("write the shard map: %w", err)
	}
	return nil
}
