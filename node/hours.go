package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// admitHours reports whether a batch of hours may be proposed: all nodes of the map know what it is and have folders that tell of it, as
// for cuts, and its hours lie before cuts that are in force. Errors: series.ErrUnavailable where that may come to be so;
// series.ErrBatch where rules have no such cuts.
func (n *Node) admitHours(ctx context.Context, part *series.Part) error {
	taken := n.engine.HoursTaken(part.Shard, part.Batch)
	if taken != nil && !errors.Is(taken, series.ErrBatch) {
		return taken
	}
	cuts := planThin(n.rules().RawRules(), n.options.Clock())
	if taken != nil && (cuts == nil || cuts.Most() == retention.NoCut) {
		return taken // and the folder stays as programs of before read it
	}
	if !n.peers.all(hoursUnderstood) {
		return fmt.Errorf("%w: hours with rollups are taken when all nodes are of this version", series.ErrUnavailable)
	}
	if err := n.engine.LetTakeHours(); err != nil {
		return fmt.Errorf("%w: %w", series.ErrReadOnly, err)
	}
	if !n.peers.all(hoursKept) {
		return fmt.Errorf("%w: hours with rollups are taken when all nodes have heard of them, which takes a minute", series.ErrUnavailable)
	}
	if taken == nil {
		return nil
	}
	// The rules may have a cut that is not in force yet, as in a new cluster.
	if proposed := n.proposeThin(ctx); proposed != nil {
		return fmt.Errorf("%w: the cuts of raw: %w", series.ErrUnavailable, proposed)
	}
	taken = n.engine.HoursTaken(part.Shard, part.Batch)
	if errors.Is(taken, series.ErrBatch) && cuts.Most() > n.engine.ThinnedBefore(part.Shard) {
		return fmt.Errorf("%w: the cuts of raw are not in force yet", series.ErrUnavailable)
	}
	return taken
}
