package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// admitHours reports whether a batch of hours may be proposed: all nodes of the map know what it is and have folders that tell of it, as
// for cuts, and its hours lie before cuts that are in force. Errors: series.ErrUnavailable where that may come to be so;
// series.ErrBatch where rules have no such cuts.
func (n *Node) admitHours(ctx context.Context, part *series.Part) error {
	if !n.peers.all(hoursUnderstood) {
		return fmt.Errorf("%w: hours with rollups are taken when all nodes are of this version", series.ErrUnavailable)
	}
	if err := n.engine.LetTakeHours(); err != nil {
		return fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	}
	if !n.peers.all(hoursKept) {
		return fmt.Errorf("%w: hours with rollups are taken when all nodes have heard of them, which takes a minute", series.ErrUnavailable)
	}
	err := n.engine.HoursTaken(part.Shard, part.Batch)
	if err == nil || !errors.Is(err, series.ErrBatch) {
		return err
	}
	// The rules may have a cut that is not in force yet, as in a new cluster.
	if proposed := n.proposeThin(ctx); proposed != nil {
		return fmt.Errorf("%w: the cuts of raw: %w", series.ErrUnavailable, proposed)
	}
	err = n.engine.HoursTaken(part.Shard, part.Batch)
	if cuts := planThin(n.rules().RawRules(), n.options.Clock()); errors.Is(err, series.ErrBatch) && cuts != nil && cuts.Most() > n.engine.ThinnedBefore(part.Shard) {
		return fmt.Errorf("%w: the cuts of raw are not in force yet", series.ErrUnavailable)
	}
	return err
}
