package process

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNodeRefusals starts nodes and routers that must not run, and looks for the reason.
func TestNodeRefusals(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for i := range 3 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	r := c.startRouter("--initial-nodes", "3")
	c.awaitCopies(r)
	used := filepath.Join(c.dir, "n1")
	changed := func(flag, value string) []string {
		return append(c.nodeArguments("n9"), "--"+flag, value)
	}
	router := func(flag, value string) []string {
		return append(append(append([]string{"router"}, anyPorts()...), c.flags...), "--"+flag, value)
	}
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{c.nodeArguments("n1"), "--data-dir " + used + ": another process uses this folder (locked by another process); stop it, or choose another folder"},
		{changed("shards", "16"), `--shards 16: cluster "tickmesh" has 8 shards, which cannot be changed; leave the flag out`},
		{changed("replication", "3"), `--replication 3: cluster "tickmesh" was made with 2; leave the flag out`},
		{router("shards", "16"), `--shards 16: cluster "tickmesh" has 8 shards, which cannot be changed; leave the flag out`},
		{router("replication", "3"), `--replication 3: cluster "tickmesh" was made with 2; leave the flag out`},
		{append(c.nodeArguments("n1"), "--data-dir", filepath.Join(c.dir, "foreign")), "another process is registered under this node id"},
		{changed("node-id", "N 9"), `--node-id: invalid value "N 9": expected up to 63 small letters`},
		{changed("etcd-endpoints", "nowhere"), `--etcd-endpoints: invalid value "nowhere": expected host:port`},
		{changed("rpc-tls-cert", "x"), "--rpc-tls-cert and --rpc-tls-key together"},
		{changed("etcd-tls-ca", "nothing.pem"), "nothing.pem: no such file"},
	} {
		code, _, stderr := run(t, nil, test.arguments...)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: code %d, %q, want %q", test.arguments, code, stderr, test.want)
		}
	}
	// A folder belongs to its node and its cluster.
	n3 := c.nodes[2]
	n3.signal(syscall.SIGTERM)
	n3.wait()
	folder := filepath.Join(c.dir, "n3")
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{append(c.nodeArguments("n4"), "--data-dir", folder), `the data folder is of node "n3", this is "n4"`},
		{append(c.nodeArguments("n3"), "--cluster", "another"), `of cluster "tickmesh", not "another"`},
	} {
		code, _, stderr := run(t, nil, test.arguments...)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: code %d, %q, want %q", test.arguments, code, stderr, test.want)
		}
	}
	again := startProcess(t, 2, c.nodeArguments("n3")...)
	c.awaitCopies(r)
	waitFor(t, "the node to be ready", func() bool { // leaders may be spread evenly just now
		status, body := get(t, again.url("/readyz"))
		return status == http.StatusOK && body == "ready\n"
	})
}

// TestNodeHandsOver stops a node that leads: it ends well, nobody's write fails, and
// nothing of it is left to lead.
func TestNodeHandsOver(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for i := range 3 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	r := c.startRouter("--initial-nodes", "3")
	c.awaitCopies(r)
	writePoints(t, r, 0, 20)
	cl := connect(t, r)
	leads := func() map[string]int {
		status, err := cl.Status(t.Context(), false)
		if err != nil {
			return nil
		}
		by := map[string]int{}
		for _, s := range status.ShardStatuses {
			by[s.Leader]++
		}
		return by
	}
	waitFor(t, "a leader on n1", func() bool { return leads()["n1"] > 0 })
	c.nodes[0].signal(syscall.SIGTERM)
	for i := range 30 { // while it goes
		status, body := post(t, r.url("/write"), fmt.Sprintf("cpu,host=h%d value=%d %d", i%16, 20+i, (1_700_000_020+i)*1_000_000_000))
		if status != http.StatusNoContent {
			t.Errorf("write %d: %d %s", i, status, body)
		}
	}
	if state := c.nodes[0].wait(); state.ExitCode() != 0 {
		t.Errorf("it ends with %v", state)
	}
	c.nodes[0].checkLog(t, "INFO", "stopping: other nodes take over what this one leads")
	waitFor(t, "leaders elsewhere", func() bool {
		by := leads()
		return by != nil && by["n1"] == 0 && by[""] == 0 && by["n2"]+by["n3"] == testClusterShards
	})
	checkPoints(t, r, 50)
	r.signal(os.Interrupt)
	if state := r.wait(); state.ExitCode() != 0 {
		t.Errorf("the router ends with %v", state)
	}
}

// TestLocalClusterEnds runs a cluster in one process twice in the same folder; it ends
// without a word of trouble.
func TestLocalClusterEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for turn := range 2 {
		ports := 1 + 5 // the nodes', of which one is remembered, and the router's
		s := startProcess(t, ports, append([]string{"standalone", "--data-dir", dir, "--nodes", "3", "--replication", "2", "--shards", "8"}, anyPorts()...)...)
		if turn == 0 {
			writePoints(t, s, 0, 5)
		}
		waitFor(t, "all points", func() bool {
			_, body := get(t, s.url("/api/query?start=1699999999&end=1700000004&m=count:cpu"))
			return strings.Contains(body, `"1700000004"`)
		})
		s.signal(syscall.SIGTERM)
		if state := s.wait(); state.ExitCode() != 0 {
			t.Errorf("it ends with %v", state)
		}
		s.mu.Lock()
		for _, l := range s.log {
			if l["level"] == "ERROR" {
				t.Errorf("an error: %v", l)
			}
		}
		s.mu.Unlock()
	}
	code, _, stderr := run(t, nil, append([]string{"standalone", "--data-dir", dir}, anyPorts()...)...)
	if code != 1 || !strings.Contains(stderr, "start it with --nodes") {
		t.Errorf("%d %s", code, stderr)
	}
}
