package node

import (
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Recovery describes what the start found.
type Recovery struct {
	Entries  int64
	Bytes    int64
	Duration time.Duration
}

// Recovery returns what the last start replayed.
func (n *Node) Recovery() Recovery { return n.recovery }

// replayHitEntries is how often the failpoint of the replay is passed.
const replayHitEntries = 64

// recover replays the log. All of it is read: what the engine has already may still
// be needed by other members of a group.
func (n *Node) recover() (*commit.Recovery, error) {
	start := n.options.Clock()
	r := commit.NewRecovery(n.engine, n.log, n.engine.Shards(), n.logger)
	records := 0
	err := n.log.Replay(0, func(at, _ wal.Position, record []byte) error {
		if err := r.Take(at, record); err != nil {
			return err
		}
		if records++; records%replayHitEntries == 0 {
			return n.options.Failpoints.Hit(FailRecovery)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("replay the log: %w", err)
	}
	n.recovery.Entries, n.recovery.Bytes = r.Replayed()
	n.recovery.Duration = n.options.Clock().Sub(start)
	return r, nil
}

// retireGaps makes sure that a log with gaps is never replayed again: with the
// ids that series get now, its entries would mean others.
func (n *Node) retireGaps() error {
	if !n.engine.DoubtsIDs() {
		return nil
	}
	if err := n.sealAll(); err != nil {
		return err
	}
	n.checkpoints.begin(n.log.End(), n.engine.AppliedIndexes(), 0)
	n.engine.TrustIDs()
	return nil
}
