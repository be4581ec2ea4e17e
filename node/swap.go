package node

import (
	"context"
	"errors"
	"time"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/transfer"
)

var _ transfer.Loop = groups{}

// swapWait is who waits for the swap of a shard's files.
type swapWait struct {
	cancel   func()        // when the replica ends
	prepared chan struct{} // closed when the log says that files are swapped
	told     bool
}

func (w *swapWait) tellPrepared() {
	if !w.told {
		w.told = true
		close(w.prepared)
	}
}

// SnapshotMeta implements transfer.Loop.
func (g groups) SnapshotMeta(shard uint16, index uint64) (meta replica.SnapshotMeta, err error) {
	l := g.node.loop
	failed := l.queue.do(func() { meta, err = l.machine.Host().SnapshotMeta(shard, index) })
	return meta, errors.Join(err, failed)
}

// BeginSwap implements transfer.Loop.
func (g groups) BeginSwap(shard uint16, meta replica.SnapshotMeta, cancel func()) (witness bool, err error) {
	l := g.node.loop
	failed := l.queue.do(func() {
		if witness, err = l.machine.BeginSwap(shard, meta); err == nil {
			l.waiting[shard] = &swapWait{cancel: cancel, prepared: make(chan struct{})}
		}
	})
	return witness, errors.Join(err, failed)
}

// AwaitSwap implements transfer.Loop.
func (g groups) AwaitSwap(ctx context.Context, shard uint16) error {
	l := g.node.loop
	var w *swapWait
	if err := g.insist(ctx, func() { w = l.waiting[shard] }); err != nil {
		return err
	}
	select {
	case <-w.prepared:
		return l.drain()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// EndSwap implements transfer.Loop.
func (g groups) EndSwap(ctx context.Context, shard uint16, failed error) (err error) {
	l := g.node.loop
	unheard := g.insist(ctx, func() {
		delete(l.waiting, shard)
		var applied uint64
		if applied, err = l.machine.EndSwap(shard, failed); applied > 0 {
			l.applied[shard].advance(applied)
		}
	})
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
	return g.node.loop.queue.do(func() {
		g.node.loop.applied[shard].reset(0)
		g.node.loop.machine.Dropped(shard)
	})
}

// Left implements transfer.Loop.
func (g groups) Left(q *commit.Question) error {
	return g.node.loop.queue.do(func() { g.node.loop.machine.Left(q) })
}

// LogEnd implements transfer.Loop.
func (g groups) LogEnd() uint64 { return uint64(g.node.log.End()) }

// Transfer returns what moves the data of whole shards.
func (n *Node) Transfer() *transfer.Service { return n.transfer }
