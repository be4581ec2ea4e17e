package ephemeral

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
)

// TestEtcdIsClosed asks the etcd of a cluster in one process with and without its certificates.
func TestEtcdIsClosed(t *testing.T) {
	t.Parallel()
	const cluster = "alone"
	dir := t.TempDir()
	ca, err := New(cluster, filepath.Join(dir, "tls"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Options{
		DataDir: filepath.Join(dir, "etcd"), ClientAddress: host + ":0", NoSync: true, ClientTLS: ca.EtcdFiles(), PeerTLS: ca.EtcdFiles(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	router, err := ca.Credentials(certificate.RoleRouter, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secure credentials.TransportCredentials
		want   bool
	}{
		"its own": {router.Client, true}, "plain": {nil, false}, "anybody": {credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}), false},
	} {
		store, err := etcdstore.Open(etcdstore.Options{Endpoints: []string{etcd.Endpoint()}, Cluster: cluster, Credentials: test.secure})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err = store.SetDesired(ctx, "n1", shardmap.Draining)
		cancel()
		if (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
