package process

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// testCluster is etcd in this process, and nodes and routers in their own.
type testCluster struct {
	t       *testing.T
	dir     string
	etcd    *etcdserver.Server
	address string // of etcd
	nodes   []*testServer
	flags   []string // of nodes and routers
}

const testClusterShards = 8

// newTestCluster starts etcd only.
func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	free, err := harness.FreeAddresses(1) // etcd comes back there
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{t: t, dir: t.TempDir(), address: free[0]}
	c.startEtcd("etcd")
	c.flags = []string{"--etcd-endpoints", c.address, "--shards", fmt.Sprint(testClusterShards), "--replication", "2"}
	t.Cleanup(func() {
		if c.etcd != nil {
			_ = c.etcd.Close()
		}
	})
	return c
}

// startEtcd starts etcd over a folder, at the address that it had before.
func (c *testCluster) startEtcd(folder string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	var err error
	for { // the port may still be closing
		c.etcd, err = etcdserver.Start(ctx, etcdserver.Options{DataDir: filepath.Join(c.dir, folder), ClientAddress: c.address, NoSync: true})
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			c.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *testCluster) stopEtcd() {
	c.t.Helper()
	if err := c.etcd.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.etcd = nil
}

// nodeArguments are the command line of a node, whose folder has its name.
func (c *testCluster) nodeArguments(id string, flags ...string) []string {
	arguments := []string{
		"node", "--node-id", id, "--data-dir", filepath.Join(c.dir, id), "--rpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0",
	}
	return append(append(arguments, c.flags...), flags...)
}

func (c *testCluster) startNode(id string, flags ...string) *testServer {
	c.t.Helper()
	s := startProcess(c.t, 2, c.nodeArguments(id, flags...)...)
	c.nodes = append(c.nodes, s)
	return s
}

func (c *testCluster) startRouter(flags ...string) *testServer {
	c.t.Helper()
	arguments := append(append([]string{"router"}, anyPorts()...), "--initial-nodes", "4")
	return startProcess(c.t, 5, append(append(arguments, c.flags...), flags...)...)
}

// rpcAddresses are those of the nodes.
func (c *testCluster) rpcAddresses() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.addr["rpc"])
	}
	return strings.Join(all, ",")
}

// waitFor waits for a condition.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(waitMax); !holds(); {
		if time.Now().After(end) {
			t.Fatal("never:", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitCopies waits until each shard has a leader and two copies.
func (c *testCluster) awaitCopies(r *testServer) {
	c.t.Helper()
	cl := connect(c.t, r)
	waitFor(c.t, "two copies of each shard", func() bool {
		status, err := cl.Status(c.t.Context(), false)
		return err == nil && len(status.Problems) == 0 && len(status.Moves) == 0
	})
}

// writePoints writes the points with times from, from+1, … through a router.
func writePoints(t *testing.T, r *testServer, from, count int) {
	t.Helper()
	for i := range count {
		body := fmt.Sprintf("cpu,host=h%d value=%d %d", i%16, from+i, (1_700_000_000+from+i)*1_000_000_000)
		waitFor(t, "a write", func() bool {
			status, _ := post(t, r.url("/write"), body)
			return status == http.StatusNoContent
		})
	}
}

// checkPoints reads the points with values 0 to count-1.
func checkPoints(t *testing.T, r *testServer, count int) {
	t.Helper()
	got := contents(t, connect(t, r), "")
	if len(got) != count {
		t.Errorf("%d points, want %d", len(got), count)
	}
	for chunk, err := range connect(t, r).Query(t.Context(), client.Query{Selector: scan.Selector{Metric: "cpu"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}) {
		if err != nil {
			t.Fatal(err)
		}
		for i, ms := range chunk.TimesMs {
			if want := float64(ms/1000 - 1_700_000_000); chunk.Values[i] != want {
				t.Errorf("%s at %d is %v, want %v", chunk.Series, ms, chunk.Values[i], want)
			}
		}
	}
}

// rolledBack waits until a process says everywhere that it does not trust the store.
func rolledBack(t *testing.T, s *testServer, metric string) {
	t.Helper()
	s.waitLog("the placement store cannot be relied on", func(l map[string]any) bool {
		text, _ := l["error"].(string)
		return strings.Contains(text, "lost or rolled back")
	})
	waitFor(t, "details", func() bool {
		status, body := get(t, s.url("/readyz"))
		return status == http.StatusOK && strings.Contains(body, "lost or rolled back") && strings.Contains(body, "rescue-map")
	})
	waitFor(t, "a metric", func() bool {
		_, body := get(t, s.url("/metrics"))
		return strings.Contains(body, "\n"+metric+" 0\n")
	})
}

// trusts waits until a process trusts the store again.
func trusts(t *testing.T, s *testServer, metric string) {
	t.Helper()
	waitFor(t, metric, func() bool {
		_, body := get(t, s.url("/metrics"))
		return strings.Contains(body, "\n"+metric+" 1\n")
	})
	waitFor(t, "no details", func() bool {
		status, body := get(t, s.url("/readyz"))
		return status == http.StatusOK && body == "ready\n"
	})
}

// TestRescueMap loses etcd's data, and then sets etcd back. Each time the cluster serves
// on and says what is wrong, and rescue-map mends it, so that placement works again.
func TestRescueMap(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for i := range 4 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	r := c.startRouter()
	c.awaitCopies(r)
	writePoints(t, r, 0, 50)

	const onRouter, onNode = "tickmesh_placement_store_available", "tickmesh_store_available"
	rescue := func(folder string) {
		t.Helper()
		c.stopEtcd()
		c.startEtcd(folder)
		rolledBack(t, r, onRouter)
		for _, n := range c.nodes {
			rolledBack(t, n, onNode)
		}
		arguments := []string{"rescue-map", "--nodes", c.rpcAddresses(), "--etcd-endpoints", c.address}
		code, stdout, stderr := run(t, nil, arguments...)
		if code != 0 || !strings.Contains(stdout, "Only shown") || stderr != "" {
			t.Fatalf("%d %s %s", code, stdout, stderr)
		}
		rolledBack(t, r, onRouter)
		code, stdout, stderr = run(t, nil, append(arguments, "--write", "--output", "json")...)
		var said rescueAnswer
		if err := json.Unmarshal([]byte(stdout), &said); err != nil || code != 0 || !said.Written || len(said.Map.Rows) != testClusterShards || len(said.Absent) > 0 {
			t.Fatalf("%d %v %s %s", code, err, stdout, stderr)
		}
		for _, n := range c.nodes {
			trusts(t, n, onNode)
		}
		trusts(t, r, onRouter)
		if code, _, stderr := run(t, nil, append(arguments, "--write")...); code != 1 || !strings.Contains(stderr, "nothing to rescue") {
			t.Errorf("a second time: %d %s", code, stderr)
		}
	}

	rescue("empty")
	writePoints(t, r, 50, 50)
	checkPoints(t, r, 100)

	// Placement works: a node leaves. What etcd had before that is the old state.
	c.stopEtcd()
	copyFolder(t, filepath.Join(c.dir, "empty"), filepath.Join(c.dir, "old"))
	c.startEtcd("empty")
	for _, n := range c.nodes {
		trusts(t, n, onNode)
	}
	trusts(t, r, onRouter)
	c.drain(r, "n4")
	for _, s := range append([]*testServer{r}, c.nodes...) {
		s.forgetLog()
	}
	rescue("old")
	c.drain(r, "n4") // what etcd knew of drains is lost with it
	writePoints(t, r, 100, 20)
	checkPoints(t, r, 120)
	// A router that has seen no map follows the rescued one.
	second := c.startRouter()
	checkPoints(t, second, 120)
}

type rescueAnswer struct {
	Absent  []string
	Written bool
	Map     struct{ Rows []any }
}

// drain drains a node and waits until nothing is left on it.
func (c *testCluster) drain(r *testServer, node string) {
	c.t.Helper()
	waitFor(c.t, "a drain", func() bool {
		code, _, _ := run(c.t, nil, "drain", "--addr", r.addr["grpc"], node)
		return code == 0
	})
	cl := connect(c.t, r)
	waitFor(c.t, "an empty node", func() bool {
		status, err := cl.Status(c.t.Context(), true)
		if err != nil {
			return false
		}
		for _, n := range status.Nodes {
			if n.Node == node && n.FullReplicas+n.Learners+n.Witnesses == 0 {
				return true
			}
		}
		return false
	})
}

// copyFolder copies a folder that nobody writes to.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// forgetLog forgets what the server has logged, but where it listens.
func (s *testServer) forgetLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = slices.DeleteFunc(slices.Clone(s.log), func(line map[string]any) bool { return line["msg"] != "listening" })
}
