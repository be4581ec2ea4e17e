package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/storage/read"
)

// Snapshots are those of a node, with the kinds of errors that callers are told. A standalone server serves them as they are.
type Snapshots struct{ *node.Node }

// TakeSnapshot is that of the node, of all shards. Errors: wire.ErrRefused where none can be made.
func (s Snapshots) TakeSnapshot(ctx context.Context) (name string, err error) {
	return s.take(ctx, nil)
}

func (s Snapshots) take(ctx context.Context, confirmed func() []uint16) (name string, err error) {
	owner := cmp.Or(handshake.OwnerOf(ctx), processor.Of(ctx).Owner())
	name, err = s.Node.TakeSnapshot(ctx, owner, confirmed)
	if errors.Is(err, node.ErrNoSnapshots) {
		err = fmt.Errorf("%w: %w", wire.ErrRefused, err)
	}
	return name, err
}

// SnapshotOf returns what a snapshot has, until done is called. Errors: wire.ErrNotFound.
func (s Snapshots) SnapshotOf(name string) (source scan.Source, done func(), err error) {
	return s.open(name, nil)
}

func (s Snapshots) open(name string, shards []uint16) (source *read.Source, done func(), err error) {
	source, done, err = s.Node.SnapshotOf(name, shards)
	if errors.Is(err, node.ErrSnapshotEnded) || errors.Is(err, node.ErrNotInSnapshot) {
		err = fmt.Errorf("%w: %w", wire.ErrNotFound, err)
	}
	return source, done, err
}

// TakeSnapshot implements rpc.Node. That the node leads a shard, and up to which entry, is confirmed first, so that the
// snapshot, which is taken when that entry is applied, has all that was answered before the call.
func (s *Service) TakeSnapshot(ctx context.Context, shards []uint16) (name string, ends []rpc.ShardEnd, err error) {
	before := s.livesOf(shards)
	good, err := s.confirm(ctx, shards, rpc.Freshness{}, func(shard uint16, err error) error {
		ends = append(ends, rpc.ShardEnd{Shard: shard, Err: err})
		return nil
	})
	if err != nil || len(good) == 0 {
		return "", ends, err
	}
	name, err = Snapshots{s.node}.take(ctx, func() (confirmed []uint16) {
		for _, shard := range good {
			err := before.check(s, shard, nil)
			ends = append(ends, rpc.ShardEnd{Shard: shard, Err: err})
			if err == nil {
				confirmed = append(confirmed, shard)
			}
		}
		return confirmed
	})
	if err != nil {
		return "", nil, err
	}
	slices.SortFunc(ends, func(a, b rpc.ShardEnd) int { return cmp.Compare(a.Shard, b.Shard) })
	return name, ends, nil
}

// EndSnapshot implements rpc.Node.
func (s *Service) EndSnapshot(ctx context.Context, name string) error {
	return s.node.EndSnapshot(ctx, name)
}

// contents is what a read looks at: what there is now, or a snapshot.
type contents struct {
	*read.Source
	good   []uint16 // shards that may be read
	before lives    // nil: of a snapshot, which stays as it is
	done   func()
}

// contentsOf returns what a snapshot has of shards or, without a name, what there is now, once that is confirmed; it
// calls end for those that may not be read. done has to be called. Errors: wire.ErrNotFound, and those of end.
func (s *Service) contentsOf(ctx context.Context, snapshot string, shards []uint16, fresh rpc.Freshness, end func(shard uint16, err error) error) (c contents, err error) {
	if snapshot != "" {
		c.good = shards
		c.Source, c.done, err = Snapshots{s.node}.open(snapshot, shards)
		return c, err
	}
	c = contents{Source: s.node.Source(), before: s.livesOf(shards), done: func() {}}
	c.good, err = s.confirm(ctx, shards, fresh, end)
	return c, err
}
