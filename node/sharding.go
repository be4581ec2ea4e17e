package node

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// ErrShards reports that a data folder was made for another number of shards, or with
// another shard key, than the cluster has: before the cluster was. The node cannot take
// part with it.
var ErrShards = errors.New("the data folder was made for other shards")

// adoptSharding takes the choice of shards from a map. Errors: ErrShards.
func (l *loop) adoptSharding(m *shardmap.Map) error {
	if len(m.Rows) != len(l.groups) {
		return fmt.Errorf("%w: it has %d shards, cluster %q has %d; start the node on an empty data folder", ErrShards, len(l.groups), m.Cluster, len(m.Rows))
	}
	key, err := series.ParseShardKey(m.Settings.ShardKey)
	if err == nil {
		err = l.engine.AdoptShardKey(key)
	}
	if err != nil {
		return fmt.Errorf("%w: cluster %q: %w; start the node on an empty data folder", ErrShards, m.Cluster, err)
	}
	return nil
}
