package member

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// shardCopies asks other nodes about their copies of shards over the connections to them.
type shardCopies struct{ peers *rpc.Peers }

func (c shardCopies) conn(name string) (grpc.ClientConnInterface, error) {
	if conn := c.peers.Conn(name); conn != nil {
		return conn, nil
	}
	return nil, fmt.Errorf("%w: node %s is not known", series.ErrUnavailable, name)
}

// Digest implements repair.Copies.
func (c shardCopies) Digest(ctx context.Context, name string, shard uint16, fromMs, toMs int64) (d transfer.RangeDigest, err error) {
	conn, err := c.conn(name)
	if err != nil {
		return d, err
	}
	m, err := nodev1.NewNodeServiceClient(conn).Digest(ctx, &nodev1.DigestRequest{Shard: uint32(shard), FromMs: fromMs, ToMs: toMs})
	if err != nil {
		return d, wire.FromStatus(err)
	}
	d.Digest, err = transfer.ParseDigest(m.GetDigest())
	d.Since, d.Applied = m.GetUnchangedSinceIndex(), m.GetAppliedIndex()
	if d.Since == 0 {
		d.Since = d.Applied // it is of an older version
	}
	return d, err
}

// OpenRange implements repair.Copies.
func (c shardCopies) OpenRange(ctx context.Context, name string, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	conn, err := c.conn(name)
	if err != nil {
		return nil, err
	}
	return rpc.OpenRange(ctx, conn, shard, fromMs, toMs, indexMin)
}

// Repair implements repair.Copies.
func (c shardCopies) Repair(ctx context.Context, name string, shard uint16, fromMs, toMs int64) error {
	conn, err := c.conn(name)
	if err != nil {
		return err
	}
	if _, err = nodev1.NewNodeServiceClient(conn).RepairShard(ctx, &nodev1.RepairShardRequest{Shard: uint32(shard), FromMs: fromMs, ToMs: toMs}); err != nil {
		return wire.FromStatus(err)
	}
	return nil
}
