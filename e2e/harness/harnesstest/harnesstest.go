// Package harnesstest starts servers for the length of one test: it builds the program with its
// invariants checked, waits until it serves, and fails a test whose server does not end as it
// should, with the last of its log.
package harnesstest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

const (
	endMax       = time.Minute // that a server may take to end
	logTailBytes = 4096
)

// Build returns the path of the program with its invariants checked.
func Build(t testing.TB) string {
	t.Helper()
	binary, err := harness.Build(t.Context(), t.TempDir(), "-tags=invariants")
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Standalone starts a server of one process, with further flags.
func Standalone(t testing.TB, flags ...string) *harness.Standalone {
	t.Helper()
	addresses, err := harness.NewStandaloneAddresses()
	if err != nil {
		t.Fatal(err)
	}
	server, err := harness.StartStandalone(t.Context(), harness.StandaloneOptions{
		Binary: Build(t), DataDir: filepath.Join(t.TempDir(), "data"), Extra: flags,
	}, addresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Terminate(endMax); err != nil {
			t.Errorf("the server did not end cleanly: %v\n%s", err, server.LogTail(logTailBytes))
		}
	})
	return server
}

// Cluster starts a cluster of processes, and waits until it serves. The programs and, if it is empty, the
// folder of options are set here.
func Cluster(t testing.TB, options harness.ClusterOptions) *harness.Cluster {
	t.Helper()
	etcd, err := harness.BuildEtcd(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	options.Binary, options.EtcdBinary = Build(t), etcd
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "cluster")
	}
	cluster, err := harness.StartCluster(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	if err := cluster.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cluster
}
