package memstore

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/storetest"
)

type backend struct{ server *Server }

func (b backend) Open(t testing.TB, seen shardmap.Seen) shardmap.Store {
	store := b.server.Open(seen)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func (b backend) SetReachable(store shardmap.Store, reachable bool) {
	store.(*Store).SetReachable(reachable)
}
func (b backend) Drop(shardmap.Store) {}
func (b backend) ExpireLeases()       { b.server.ExpireLeases() }
func (b backend) Compact(testing.TB)  {}
func (b backend) Restart(testing.TB)  {}
func (b backend) Cluster() string     { return "contract" }
func (b backend) Snapshot(testing.TB) func(testing.TB) {
	snapshot := b.server.Snapshot()
	return func(testing.TB) { b.server.Restore(snapshot) }
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(testing.TB, bool) storetest.Backend { return backend{NewServer()} })
}
