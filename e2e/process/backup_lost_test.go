package process

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// interruptedBucket returns a target that runs interrupt before it takes the second object of samples: a backup is in its midst then,
// and waits for it.
func interruptedBucket(t *testing.T, interrupt func()) backupTarget {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	bucket := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	var mu sync.Mutex
	objects := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/objects/") {
			mu.Lock()
			if objects++; objects == 2 {
				interrupt()
			}
			mu.Unlock()
		}
		bucket.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return backupTarget{
		name: "s3://backups/tick/mesh", flags: []string{"--s3-endpoint", server.URL, "--s3-region", "us-east-1"},
		environ: []string{"TICKMESH_S3_ACCESS_KEY_ID=id", "TICKMESH_S3_SECRET_ACCESS_KEY=key"},
	}
}

// TestBackupWithoutAProcess backs up a cluster of which a process ends, or stops, in the midst of the backup. It ends well: where a node
// that holds a part of the snapshot is lost, with a new snapshot, so that it has what was written after the first one, too; where a
// router comes back, with the one that it has. What is restored is what was acknowledged.
func TestBackupWithoutAProcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]lostProcess{
		"node":                 {signal: syscall.SIGKILL},
		"node that hangs":      {signal: syscall.SIGSTOP},
		"node that comes back": {signal: syscall.SIGKILL, comesBack: true},
		"router":               {signal: syscall.SIGKILL, comesBack: true, router: true},
	} {
		t.Run(name, test.run)
	}
}

type lostProcess struct {
	signal            syscall.Signal
	router, comesBack bool
}

func (l lostProcess) run(t *testing.T) {
	c := newTestCluster(t)
	for n := range 4 { // without one there is room for two copies and a witness
		c.startNode(fmt.Sprint("n", n))
	}
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	router, other := c.startRouter("--grpc-addr", free[0]), c.startRouter()
	c.awaitCopies(router)
	rng := rand.New(rand.NewPCG(12, 6))
	first, later := model{}, model{}
	first.put(t, connect(t, other), randomSamples(t, rng, "", 8))
	live, interrupted := c.nodes, make(chan struct{})
	target := interruptedBucket(t, func() {
		defer close(interrupted)
		if lost := router; l.router {
			l.lose(lost)
			c.startRouter("--grpc-addr", free[0])
		} else {
			at := slices.IndexFunc(c.nodes, func(n *testServer) bool { return figuresOf(t, n, "tickmesh_snapshots") > 0 })
			l.lose(c.nodes[at])
			live = slices.Concat(c.nodes[:at], c.nodes[at+1:])
			if l.comesBack {
				live = append(live, c.startNode(fmt.Sprint("n", at)))
			}
		}
		later.put(t, connect(t, other), randomSamples(t, rng, "later", 3))
	})
	_, stderr := target.run(t, "backup", "--addr", free[0], "--object-bytes", "1", "--name", "b")
	<-interrupted
	want, snapshotsLost := first.clone(), 0
	if !l.router {
		want["later"], snapshotsLost = later["later"], 1
	} else {
		want["later"] = nil
	}
	if strings.Count(stderr, "starts again") != snapshotsLost || strings.Contains(stderr, "without a snapshot") {
		t.Errorf("%d snapshots were lost, and the backup says %q", snapshotsLost, stderr)
	}
	restored := startServer(t, t.TempDir())
	target.run(t, "restore", "--addr", restored.addr["grpc"], "--name", "b")
	want.compare(t, connect(t, restored))
	for _, n := range live {
		if held := figuresOf(t, n, "tickmesh_snapshots"); held != 0 {
			t.Errorf("node %s holds %v snapshots after the backup", n.addr["rpc"], held)
		}
	}
}

func (l lostProcess) lose(s *testServer) {
	s.signal(l.signal)
	if l.signal == syscall.SIGKILL {
		s.wait()
	}
}
