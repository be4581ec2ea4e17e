package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/transfer"
)

var _ transfer.Loop = groups{}

// installation is files that are on their way into a shard.
type installation struct {
	meta     replica.SnapshotMeta
	witness  bool          // it keeps no data: the meta is all it needs
	cancel   func()        // when the replica ends
	prepared chan struct{} // closed when the log says that files are swapped
	told     bool
}

func (i *installation) tellPrepared() {
	if !i.told {
		i.told = true
		close(i.prepared)
	}
}

// SnapshotMeta implements transfer.Loop.
func (g groups) SnapshotMeta(shard uint16, index uint64) (meta replica.SnapshotMeta, err error) {
	l := g.node.loop
	failed := l.queue.do(func() { meta, err = l.host.SnapshotMeta(shard, index) })
	return meta, errors.Join(err, failed)
}

// BeginSwap implements transfer.Loop.
func (g groups) BeginSwap(shard uint16, meta replica.SnapshotMeta, cancel func()) (witness bool, err error) {
	l := g.node.loop
	i := &installation{meta: meta, cancel: cancel, prepared: make(chan struct{})}
	failed := l.queue.do(func() { err = l.prepare(shard, i) })
	return i.witness, errors.Join(err, failed)
}

// AwaitSwap implements transfer.Loop.
func (g groups) AwaitSwap(ctx context.Context, shard uint16) error {
	l := g.node.loop
	var i *installation
	if err := g.insist(ctx, func() { i = l.installing[shard] }); err != nil {
		return err
	}
	select {
	case <-i.prepared:
		return l.drain()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// EndSwap implements transfer.Loop.
func (g groups) EndSwap(ctx context.Context, shard uint16, failed error) (err error) {
	l := g.node.loop
	unheard := g.insist(ctx, func() { err = l.installed(shard, failed) })
	return errors.Join(err, unheard)
}

// insist has the loop run a command, also when the disk is full for a while. An error says
// that it never will: the node closes, or its log is broken.
func (g groups) insist(ctx context.Context, run func()) error {
	for {
		err := g.node.loop.queue.do(run)
		if err == nil || ctx.Err() != nil || g.node.loop.refusals.broken.Load() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(spaceRetry):
		}
	}
}

// AwaitRemoved implements transfer.Loop.
func (g groups) AwaitRemoved(shard uint16) error {
	if err := g.node.loop.drain(); err != nil {
		return err
	}
	// Not run when the round that says so could not be written: the replica is there still.
	if err := g.node.loop.queue.do(func() {}); err != nil {
		return err
	}
	_, err := g.node.log.Sync()
	return err
}

// Dropped implements transfer.Loop.
func (g groups) Dropped(shard uint16) error {
	return g.node.loop.queue.do(func() { g.node.loop.cleaned(shard) })
}

// Left implements transfer.Loop.
func (g groups) Left(q *commit.Question) error {
	return g.node.loop.queue.do(func() { g.node.loop.left(q) })
}

// LogEnd implements transfer.Loop.
func (g groups) LogEnd() uint64 { return uint64(g.node.log.End()) }

// prepare begins an installation.
func (l *loop) prepare(shard uint16, i *installation) error {
	if l.installing[shard] != nil {
		return replica.ErrBusy
	}
	status, err := l.host.Status(shard)
	if err != nil {
		return err
	}
	// The library would keep such a log, and what it has beyond the files. Those entries
	// stand before the end of the log, from which on a start applies entries to new files.
	if i.meta.Index <= status.Last && l.places.term(shard, i.meta.Index) == i.meta.Term {
		return fmt.Errorf("%w: the log has entry %d already", replica.ErrSnapshot, i.meta.Index)
	}
	if err := l.host.PrepareSnapshot(shard, i.meta); err != nil {
		return err
	}
	i.witness = status.Role == shardmap.Witness
	l.installing[shard] = i
	return nil
}

// installed ends an installation, which failed says has failed.
func (l *loop) installed(shard uint16, failed error) error {
	i := l.installing[shard]
	delete(l.installing, shard)
	if l.cleaning[shard] {
		l.onRemoved(shard)
		return errors.Join(failed, errReplaced)
	}
	if failed != nil {
		l.host.AbortSnapshot(shard)
		return failed
	}
	if !i.witness {
		l.dispatched[shard] = i.meta.Index
		l.applied[shard].advance(i.meta.Index)
	}
	return l.host.InstallSnapshot(shard, i.meta)
}

// Transfer returns what moves the data of whole shards.
func (n *Node) Transfer() *transfer.Service { return n.transfer }
