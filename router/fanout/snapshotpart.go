package fanout

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// holder returns the node that holds a part of a snapshot; nil: it is not of the cluster any more.
func (v *view) holder(p *nodev1.SnapshotPart) *node {
	if n := v.nodes[p.GetNode()]; n != nil && n.incarnation == p.GetIncarnation() {
		return n
	}
	return nil
}

// partOf returns the part of a snapshot that a call is for; nil: it is for what there is now.
func (s *Source) partOf(o *group) *nodev1.SnapshotPart { return s.partOfShard(o.reads[0].shard) }

func (s *Source) partOfShard(shard uint16) *nodev1.SnapshotPart {
	if s.parts == nil {
		return nil
	}
	return s.parts[shard]
}

// ofPart returns the context of a call for a part of a snapshot, which only the process that holds it may answer, and the
// part's name; nil: none is read.
func ofPart(ctx context.Context, p *nodev1.SnapshotPart) (of context.Context, name string) {
	if p == nil {
		return ctx, ""
	}
	return handshake.WithProcess(ctx, p.GetProcess()), p.GetName()
}

// lost reports whether a node that holds a part of a snapshot, and has failed to answer for a shard again, counts as gone.
func (c *Cluster) lost(n *node, r *shardRead, now time.Time) bool {
	return !r.since.IsZero() && now.Sub(r.since) >= snapshotLostAfter && c.moved(n, r.shard)
}
