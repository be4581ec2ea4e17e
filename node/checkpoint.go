package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// checkpointer remembers where epochs began. A checkpoint names the start of the
// present epoch and begins the next: hot pages live for at least one epoch, so
// that those of busy series fill before a checkpoint would seal them.
type checkpointer struct {
	sync.Mutex              // one checkpoint at a time
	position   wal.Position // where the present epoch began
	applied    []uint64
	epoch      uint16

	reached atomic.Uint64 // the position, for who does not wait for a checkpoint
}

// begin starts an epoch.
func (c *checkpointer) begin(position wal.Position, applied []uint64, epoch uint16) {
	c.position, c.applied, c.epoch = position, applied, epoch
	c.reached.Store(uint64(position))
}

// checkpoint publishes the start of the present epoch and begins the next one. One
// that fails begins none: epochs are few, and a full disk may last for long.
func (n *Node) checkpoint() error {
	c := &n.checkpoints
	c.Lock()
	defer c.Unlock()
	if n.replaysMuch(c) {
		position, applied, epoch, err := n.loop.nextEpoch()
		if err != nil {
			return err
		}
		c.begin(position, applied, epoch)
	}
	err := n.engine.Checkpoint(storage.Checkpoint{
		Position: uint64(c.position), Applied: c.applied, SealThrough: c.epoch - 1,
	})
	if err == nil {
		err = n.trim(c.position)
	}
	if err != nil {
		return err
	}
	position, applied, epoch, err := n.loop.nextEpoch()
	if err == nil {
		c.begin(position, applied, epoch)
	}
	return err
}

// replaysMuch reports whether the first checkpoint since a start has to be one of now. It would win nothing
// otherwise, as the present epoch began with the start; so a node that is killed more often than it makes two
// checkpoints would replay more each time. Two epochs of the log are what any start may meet.
func (n *Node) replaysMuch(c *checkpointer) bool {
	if n.loop.refusals.full.Load() != nil {
		return false // no epoch is begun for a checkpoint that fails
	}
	began := int64(c.position)
	return began == int64(n.engine.LogPosition()) && (int64(n.log.End())-began)/2 >= n.options.CheckpointBytes
}

// sealEverything makes a checkpoint of the present end of the log.
func (n *Node) sealEverything() error {
	c := &n.checkpoints
	c.Lock()
	defer c.Unlock()
	position, applied, epoch, err := n.loop.nextEpoch()
	if err == nil {
		err = n.engine.Checkpoint(storage.Checkpoint{Position: uint64(position), Applied: applied, SealThrough: epoch - 1})
	}
	if err != nil {
		return err
	}
	c.begin(position, applied, epoch)
	return n.trim(position)
}

// trim deletes the log before a checkpoint, but for what other members of groups
// still need.
func (n *Node) trim(checkpoint wal.Position) error {
	force := int64(n.log.End()-n.log.First()) > n.options.LogBytesMax
	// What the engine has, and not what the checkpoint was to have: shards may have other
	// replicas since.
	if err := n.loop.queue.do(func() { n.loop.machine.Durable(n.engine.DurableIndexes(), force) }); err != nil {
		return err
	}
	// A second command: what the first one made the host say is in the log then.
	lowWater := checkpoint
	if err := n.loop.queue.do(func() { lowWater = min(lowWater, n.loop.machine.LowWater()) }); err != nil {
		return err
	}
	// And a third: groups that had ended by then are said to have ended.
	if err := n.loop.queue.do(func() {}); err != nil {
		return err
	}
	// Entries go whose absence only those states explain.
	if _, err := n.log.Sync(); err != nil {
		return err
	}
	return n.log.TrimBefore(lowWater)
}

// finalCheckpoint seals everything, so that the next start replays nothing.
func (n *Node) finalCheckpoint() error {
	if err := n.engine.Resume(); err != nil {
		return err
	}
	return n.sealAll()
}

// sealAll makes a checkpoint at the end of the log. The loop must not run.
func (n *Node) sealAll() error {
	if n.loop.broken != nil {
		return n.loop.broken
	}
	applied := n.engine.AppliedIndexes()
	position := n.loop.machine.EndOf(applied)
	n.loop.machine.Durable(applied, false)
	states, err := n.loop.logStates()
	if err == nil {
		_, err = n.log.Sync()
	}
	if err != nil {
		return err
	}
	position = min(position, states)
	err = n.engine.Checkpoint(storage.Checkpoint{Position: uint64(position), Applied: applied, SealAll: true})
	if err != nil {
		return err
	}
	return n.log.TrimBefore(min(position, n.loop.machine.LowWater()))
}

// nextEpoch starts a new epoch and waits until every entry of the older ones is
// applied. Entries after those applied are at or after the position it returns, and so
// are the states of all groups.
func (l *loop) nextEpoch() (position wal.Position, applied []uint64, epoch uint16, err error) {
	err = l.queue.do(func() { position, applied, epoch = l.machine.BeginEpoch() })
	if err == nil {
		err = l.drain()
	}
	return position, applied, epoch, err
}

// drainLook is how often drain looks whether the loop waits for room on the disk.
const drainLook = 50 * time.Millisecond

// drain waits until every round that was written before it is applied: it has
// gathered all rounds once. While the disk is full it gives up.
func (l *loop) drain() error {
	l.draining.Lock()
	defer l.draining.Unlock()
	held := make([]*round, 0, roundsInFlight)
	defer func() {
		for _, r := range held {
			l.free <- r
		}
	}()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for len(held) < roundsInFlight {
		select {
		case r := <-l.free:
			held = append(held, r)
		case <-look.C:
			if err := l.refusals.full.Load(); err != nil {
				return *err
			}
		}
	}
	return nil
}

// logStates logs the states of all groups and returns their position. The loop must not run.
func (l *loop) logStates() (wal.Position, error) {
	if l.broken != nil {
		return 0, l.broken
	}
	var buffer wal.Buffer
	if err := l.machine.AppendStates(&buffer); err != nil || buffer.Records() == 0 {
		return l.log.End(), err
	}
	start, _, err := l.log.Write(&buffer)
	return start, err
}
