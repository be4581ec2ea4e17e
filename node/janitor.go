package node

import (
	"context"
	"errors"
	"time"
)

// ErrForeign: the data folder was written by another node.
var ErrForeign = errors.New("the data folder belongs to another node")

// janitor drops the data of removed replicas.
type janitor struct{ wants chan uint16 }

// want notes a shard whose replica was removed. Each shard waits at most once: it gets
// no new replica before its data is gone.
func (j *janitor) want(shard uint16) { j.wants <- shard }

const sweepRetryDelay = time.Second

// sweep drops the data of one shard after the other until the node closes. What is
// left then is dropped by the next start.
func (n *Node) sweep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case shard := <-n.janitor.wants:
			for n.dropRemoved(shard) != nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(sweepRetryDelay):
				}
			}
		}
	}
}

func (n *Node) dropRemoved(shard uint16) error {
	err := n.loop.drain() // nothing of the shard is on its way to the engine then
	if err == nil {
		// Not run when the round that says so could not be written: the replica is there still.
		err = n.loop.queue.do(func() {})
	}
	if err == nil {
		_, err = n.log.Sync() // a start must not find the replica without its data
	}
	if err == nil {
		err = n.dropShard(shard)
	}
	if err != nil {
		n.logger.Error("the data of a removed replica could not be dropped; trying again", "shard", shard, "error", err)
		return err
	}
	return n.loop.queue.do(func() { n.loop.cleaned(shard) })
}

func (n *Node) dropShard(shard uint16) error {
	return n.engine.DropShard(shard, uint64(n.log.End()))
}
