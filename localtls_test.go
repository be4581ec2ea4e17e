package main

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
	"github.com/tickmesh/tickmesh/node/member"
)

// TestLocalEtcdIsClosed asks the etcd of a cluster in one process with and without its
// certificates.
func TestLocalEtcdIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed, err := newClosedDoors(filepath.Join(dir, member.LocalTLSDir), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Options{
		DataDir: filepath.Join(dir, "etcd"), ClientAddress: localAddress, NoSync: true, ClientTLS: closed.etcd, PeerTLS: closed.etcd,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	router, err := closed.process(certificate.RoleRouter, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secure credentials.TransportCredentials
		want   bool
	}{
		"its own": {router.Client, true}, "plain": {nil, false}, "anybody": {credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}), false},
	} {
		store, err := etcdstore.Open(etcdstore.Options{Endpoints: []string{etcd.Endpoint()}, Cluster: member.StandaloneName, Credentials: test.secure})
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
