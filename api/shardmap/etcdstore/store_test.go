package etcdstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
	"github.com/tickmesh/tickmesh/api/shardmap/storetest"
)

const (
	testLeaseTTL       = 10 * time.Second // longer than a busy machine lets a test wait
	testRequestTimeout = 10 * time.Second
	testProbeInterval  = 500 * time.Millisecond
)

// backend is an etcd server, shared or not, and the proxies to it.
type backend struct {
	cluster string
	folder  string
	mu      sync.Mutex
	server  *etcdserver.Server
	proxies map[shardmap.Store]*proxy
}

func startServer(t testing.TB, folder string) *etcdserver.Server {
	server, err := etcdserver.Start(context.Background(), etcdserver.Options{DataDir: folder, ClientAddress: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func (b *backend) Open(t testing.TB, seen shardmap.Seen) shardmap.Store {
	p := newProxy(t, b.server.Endpoint())
	t.Cleanup(p.close)
	store, err := Open(Options{
		Endpoints: []string{p.address()}, Cluster: b.cluster, Seen: seen,
		LeaseTTL: testLeaseTTL, RequestTimeout: testRequestTimeout, ProbeInterval: testProbeInterval,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.proxies[store] = p
	b.mu.Unlock()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func (b *backend) SetReachable(store shardmap.Store, reachable bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.proxies[store].setReachable(reachable)
}

func (b *backend) Drop(store shardmap.Store) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.proxies[store].drop()
}

func (b *backend) ExpireLeases() {} // they end by themselves

func (b *backend) Cluster() string { return b.cluster }

func (b *backend) Compact(t testing.TB) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{b.server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, err := client.Get(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	// Others compact too: one that comes too late has nothing to do.
	if _, err := client.Compact(context.Background(), got.Header.Revision); err != nil {
		t.Log(err)
	}
}

func (b *backend) Restart(t testing.TB) { b.restart(t, func() {}) }

// restart does something to the folder while the server is down.
func (b *backend) restart(t testing.TB, do func()) {
	if err := b.server.Close(); err != nil {
		t.Fatal(err)
	}
	do()
	b.server = startServer(t, b.folder)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.proxies {
		p.aim(b.server.Endpoint())
	}
}

func (b *backend) Snapshot(t testing.TB) func(testing.TB) {
	copied := filepath.Join(t.TempDir(), "snapshot")
	b.restart(t, func() { copyFolder(t, copied, b.folder) })
	return func(t testing.TB) {
		b.restart(t, func() {
			if err := os.RemoveAll(b.folder); err != nil {
				t.Fatal(err)
			}
			copyFolder(t, b.folder, copied)
		})
	}
}

func copyFolder(t testing.TB, to, from string) {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	shared := startServer(t, t.TempDir())
	t.Cleanup(func() { shared.Close() })
	var clusters atomic.Int64
	storetest.Run(t, func(t testing.TB, own bool) storetest.Backend {
		b := &backend{cluster: fmt.Sprintf("contract-%d", clusters.Add(1)), server: shared, proxies: map[shardmap.Store]*proxy{}}
		if own {
			b.folder = filepath.Join(t.TempDir(), "etcd")
			b.server = startServer(t, b.folder)
			t.Cleanup(func() { b.server.Close() })
		}
		return b
	})
}
