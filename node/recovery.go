package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Recovery says what the start found.
type Recovery struct {
	Entries  int64
	Bytes    int64
	Duration time.Duration
}

// Recovery says what the last start replayed.
func (n *Node) Recovery() Recovery { return n.recovery }

// replayHitEntries is how often the failpoint of the replay is passed.
const replayHitEntries = 64

// recover replays the log.
func (n *Node) recover() error {
	start := n.options.Clock()
	err := n.log.Replay(n.checkpoints.position, func(at, _ wal.Position, record []byte) error {
		n.recovery.Entries++
		n.recovery.Bytes += int64(len(record))
		if err := n.replayEntry(at, record); err != nil {
			return err
		}
		if n.recovery.Entries%replayHitEntries == 0 {
			return n.options.Failpoints.Hit(FailRecovery)
		}
		return nil
	})
	if err == nil {
		err = n.settleDoubts()
	}
	if err != nil {
		return fmt.Errorf("replay the log: %w", err)
	}
	n.recovery.Duration = n.options.Clock().Sub(start)
	return nil
}

// replayEntry applies a record. What cannot be an entry is passed over; but an
// entry that does not fit on the disk ends the start, as reads without it would
// lack what was acknowledged.
func (n *Node) replayEntry(at wal.Position, record []byte) error {
	entry, err := storage.ParseEntry(record)
	if err == nil && entry.Kind != storage.EntryGroupState {
		err = n.Engine.Replay(uint64(at), &entry)
	}
	if errors.Is(err, storage.ErrStalled) {
		return n.makeRoom(err)
	}
	if err != nil {
		n.logger.Error("an entry of the log cannot be applied and is passed over", "error", err)
	}
	return nil
}

// makeRoom flushes the page log, whose generations may have run out, and goes on.
// A log with gaps must not be flushed in the middle: see Engine.Replay.
func (n *Node) makeRoom(cause error) error {
	if n.DoubtsIDs() {
		return cause
	}
	if err := n.Engine.Flush(); err != nil {
		return errors.Join(cause, err)
	}
	return n.Resume()
}

// settleDoubts makes sure that a log with gaps is never replayed again: with the
// ids that series get now, its entries would mean others.
func (n *Node) settleDoubts() error {
	if !n.DoubtsIDs() {
		return nil
	}
	if err := n.sealAll(); err != nil {
		return err
	}
	n.checkpoints.begin(n.log.End(), n.AppliedIndexes(), 0)
	n.TrustIDs()
	return nil
}
