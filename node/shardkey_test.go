package node

import (
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestShardKeyOfAFolder holds a folder to the key that it was made with: also to none.
func TestShardKeyOfAFolder(t *testing.T) {
	for _, first := range []series.ShardKey{{}, {1}} {
		o := testOptions(vfs.NewMemFS(), SyncOff)
		o.ShardKey = first
		n := mustOpen(t, o)
		o.ShardKey = series.ShardKey{2}
		n = reopen(t, n, o)
		if got := n.Sharding(); got != (series.Sharding{Shards: testShards, Key: first}) {
			t.Errorf("sharding %+v, want key %q", got, first)
		}
		settings := shardmap.Settings{Shards: testShards, Replication: 1, ShardKey: (series.ShardKey{3}).String()}
		m := n.aloneMap()
		m.Settings, m.Format, m.Epoch = settings, settings.Format(), 2
		if err := n.AdoptMap(m); first != (series.ShardKey{}) && !errors.Is(err, ErrShards) {
			t.Errorf("a map with another key: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}
