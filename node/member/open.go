package member

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// DataDirError returns which flag named the folder that could not be opened, and
// what to do where that is known.
func DataDirError(dir string, err error) error {
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("--data-dir %s: another process uses this folder (%w); stop it, or choose another folder", dir, vfs.ErrLocked)
	}
	return fmt.Errorf("--data-dir %s: %w", dir, err)
}

// OpenAlone opens the data folder of a node that is in no cluster. A new folder gets a
// shard key; a used one keeps what it has.
func OpenAlone(o node.Options) (n *node.Node, err error) {
	if o.ShardKey, err = series.NewShardKey(); err != nil {
		return nil, err
	}
	return node.Open(o)
}
