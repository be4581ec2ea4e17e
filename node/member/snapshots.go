package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
)

// Snapshots are those of a standalone server's node, with the kinds of errors that clients are told.
type Snapshots struct{ *node.Node }

// TakeSnapshot is that of the node. Errors: wire.ErrRefused where none can be made.
func (s Snapshots) TakeSnapshot(ctx context.Context) (name string, err error) {
	name, err = s.Node.TakeSnapshot(ctx)
	if errors.Is(err, node.ErrNoSnapshots) {
		err = fmt.Errorf("%w: %w", wire.ErrRefused, err)
	}
	return name, err
}

// SnapshotOf returns what a snapshot has, until done is called. Errors: wire.ErrNotFound.
func (s Snapshots) SnapshotOf(name string) (source scan.Source, done func(), err error) {
	source, done, err = s.Node.SnapshotOf(name)
	if errors.Is(err, node.ErrSnapshotEnded) {
		err = fmt.Errorf("%w: %w", wire.ErrNotFound, err)
	}
	return source, done, err
}
