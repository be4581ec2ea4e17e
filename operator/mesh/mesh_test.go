package mesh_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
	"github.com/tickmesh/tickmesh/api/shardmap/storetest"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/mesh/meshtest"
)

// twins returns both kinds of Mesh, each with a store to look behind it.
func twins(t *testing.T) map[string]struct {
	mesh  mesh.Mesh
	store shardmap.Store
} {
	t.Helper()
	server, err := etcdserver.Start(t.Context(), etcdserver.Options{DataDir: t.TempDir(), ClientAddress: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	target := mesh.Target{Cluster: "demo", Etcd: "http://" + server.Endpoint(), Router: "127.0.0.1:1"}
	real, err := mesh.Connect(target)
	if err != nil {
		t.Fatal(err)
	}
	store, err := etcdstore.Open(etcdstore.Options{Endpoints: []string{server.Endpoint()}, Cluster: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	memory := meshtest.NewCluster()
	fake, err := memory.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(real.Close(), fake.Close(), store.Close()) })
	type twin = struct {
		mesh  mesh.Mesh
		store shardmap.Store
	}
	return map[string]twin{"etcd": {real, store}, "memory": {fake, memory.Store.Open(shardmap.Seen{})}}
}

// Both twins do the same.
func TestMesh(t *testing.T) {
	for name, twin := range twins(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			m := storetest.Map("demo", 3)
			must(t, twin.store.CompareAndSwap(ctx, 0, m))
			must(t, twin.mesh.SetManager(ctx, "TickMeshCluster/ns/demo"))
			must(t, twin.mesh.SetDesired(ctx, "a", shardmap.Draining))
			info := shardmap.NodeInfo{ID: "a", Incarnation: storetest.Hex(1), RPCAddress: "a:1", ClusterID: m.ID, Epoch: 3}
			registration, err := twin.store.Register(ctx, info)
			must(t, err)
			view, err := twin.mesh.View(ctx)
			must(t, err)
			if view.Manager != "TickMeshCluster/ns/demo" || view.Desired["a"] != shardmap.Draining || view.Map.Epoch != 3 || view.Nodes["a"].RPCAddress != "a:1" {
				t.Fatalf("%+v", view)
			}
			if err := twin.mesh.Retire(ctx, "a", storetest.Hex(1)); !errors.Is(err, shardmap.ErrNodeHeld) {
				t.Fatalf("a data folder in use is retired: %v", err)
			}

			// A node that knows more than the store says that the store was set back.
			info.Epoch = 4
			must(t, registration.Update(ctx, info))
			if view, err = twin.mesh.View(ctx); !errors.Is(err, shardmap.ErrRolledBack) || !errors.Is(view.Err, shardmap.ErrRolledBack) {
				t.Fatalf("%v, %v", err, view.Err)
			}
			must(t, registration.Close(ctx))
			must(t, twin.mesh.Retire(ctx, "a", storetest.Hex(1)))
			must(t, twin.mesh.SetDesired(ctx, "a", ""))
			view, err = twin.mesh.View(ctx)
			must(t, err)
			if len(view.Desired) != 0 || !view.Incarnations["a"][0].Retired {
				t.Fatalf("%+v", view)
			}
			if _, err := twin.mesh.Status(ctx); !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("status without a router: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A pool opens a mesh once, and anew when it is to be reached in another way.
func TestPool(t *testing.T) {
	cluster := meshtest.NewCluster()
	opened := 0
	pool := mesh.NewPool(func(target mesh.Target) (mesh.Mesh, error) {
		opened++
		return cluster.Open(target)
	})
	get := func(key string, target mesh.Target) mesh.Mesh {
		m, err := pool.Get(key, target)
		must(t, err)
		return m
	}
	first := get("a", mesh.Target{Etcd: "x"})
	if get("a", mesh.Target{Etcd: "x"}) != first || opened != 1 {
		t.Fatal("it was opened again")
	}
	get("b", mesh.Target{Etcd: "x"})
	second := get("a", mesh.Target{Etcd: "x", EtcdTLS: mesh.TLS{Cert: "renewed"}})
	if second == first || opened != 3 {
		t.Fatal("it was not opened anew")
	}
	if _, err := first.View(t.Context()); !errors.Is(err, shardmap.ErrClosed) {
		t.Fatalf("the old one is open: %v", err)
	}
	must(t, pool.Drop("a"))
	must(t, pool.Drop("a"))
	if _, err := second.View(t.Context()); !errors.Is(err, shardmap.ErrClosed) {
		t.Fatalf("it is open: %v", err)
	}
	must(t, pool.Close())
}

// Certificates that are none are refused.
func TestTLS(t *testing.T) {
	for _, bad := range []mesh.TLS{{CABundle: "nothing"}, {Cert: "x", Key: "y"}} {
		if _, err := bad.Config(); !errors.Is(err, mesh.ErrTLS) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if config, err := (mesh.TLS{}).Config(); config != nil || err != nil {
		t.Errorf("%v, %v", config, err)
	}
}
