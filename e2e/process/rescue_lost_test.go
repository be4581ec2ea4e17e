package process

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestRescueMapWithALostNode loses etcd and a node for good: the others give the map once
// somebody says which node is lost, and only that one may be missing.
func TestRescueMapWithALostNode(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for i := range 4 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	r := c.startRouter()
	c.awaitCopies(r)
	writePoints(t, r, 0, 20)
	c.nodes[3].signal(syscall.SIGKILL)
	c.nodes[3].wait()
	var addresses []string
	for _, n := range c.nodes[:3] {
		addresses = append(addresses, n.addr["rpc"])
	}
	const onRouter = "tickmesh_placement_store_available"
	c.stopEtcd()
	c.startEtcd("another")
	rolledBack(t, r, onRouter)
	arguments := []string{"rescue-map", "--write", "--nodes", strings.Join(addresses, ","), "--etcd-endpoints", c.address}
	for _, more := range [][]string{nil, {"--lost", "n1"}} {
		if code, _, stderr := run(t, nil, append(arguments, more...)...); code != 1 || !strings.Contains(stderr, "not all nodes have reported") {
			t.Errorf("%q: %d %s", more, code, stderr)
		}
	}
	if code, stdout, stderr := run(t, nil, append(arguments, "--lost", "n4")...); code != 0 || !strings.Contains(stdout, "The map is in etcd.") {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	trusts(t, r, onRouter)
	writePoints(t, r, 20, 20)
	checkPoints(t, r, 40)
}
