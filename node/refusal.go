package node

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// refusals are the reasons why a node takes no writes. All wrap series.ErrReadOnly.
type refusals struct {
	// broken: a write or sync of the log failed. What the log's file has after that
	// is not known, so this lasts until the next start.
	broken atomic.Pointer[error]
	// stalled: what is in the log cannot be applied, or not be checkpointed. It
	// passes: see Node.heal.
	stalled atomic.Pointer[error]
	// full: there was no room for a file of the log. Every write tries again.
	full atomic.Pointer[error]
}

// ofWrites reports why writes are refused without trying.
func (r *refusals) ofWrites() error {
	if err := r.broken.Load(); err != nil {
		return *err
	}
	if err := r.stalled.Load(); err != nil {
		return *err
	}
	return nil
}

// any reports why writes are refused, or were when one was last tried.
func (r *refusals) any() error {
	if err := r.ofWrites(); err != nil {
		return err
	}
	if err := r.full.Load(); err != nil {
		return *err
	}
	return nil
}

// stall refuses writes until the engine has caught up.
func (r *refusals) stall(err error) {
	err = fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	r.stalled.CompareAndSwap(nil, &err)
}

// logFailed keeps what a failure of the log means for later writes, and returns the
// answer to those that met it.
func (l *loop) logFailed(err error) error {
	var space *wal.SpaceError
	switch {
	case errors.Is(err, wal.ErrTooLarge):
		return fmt.Errorf("%w: %w", series.ErrBatch, err)
	case errors.As(err, &space):
		err = fmt.Errorf("%w: %w", series.ErrReadOnly, err)
		if l.refusals.full.Swap(&err) == nil {
			l.logger.Error("there is no room for the log; writes go on when there is", "error", err)
		}
	default:
		err = fmt.Errorf("%w: %w", series.ErrReadOnly, err)
		if l.refusals.broken.CompareAndSwap(nil, &err) {
			l.logger.Error("the log takes no more writes; restart the node when the disk is well", "error", err)
			l.onBroken()
		}
	}
	return err
}

// logTook notes that the log has taken a write.
func (l *loop) logTook() {
	if l.refusals.full.Load() != nil {
		l.refusals.full.Store(nil)
		l.logger.Info("there is room for the log again")
	}
}

// Health reports why the node does not take writes, if so. Errors: series.ErrReadOnly.
func (n *Node) Health() error { return n.loop.refusals.any() }
