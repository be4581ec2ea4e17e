package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
)

// TestManagedCluster lets a manager say what is desired of the nodes: the command line
// may not, and names the command that may. A node takes its zone from a file that comes
// later.
func TestManagedCluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		c.startNode(id)
	}
	zone := filepath.Join(c.dir, "zone")
	late := startProcess(t, 0, c.nodeArguments("n4", "--zone-file", zone)...)
	late.waitLog("waiting for the zone to be written", func(map[string]any) bool { return true })
	if err := os.WriteFile(zone, []byte("shelf-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := c.startRouter()
	c.awaitCopies(r)
	status, err := connect(t, r).Status(t.Context(), true)
	if err != nil || len(status.Nodes) != 4 || status.Nodes[3].Zone != "shelf-2" {
		t.Fatalf("%v %+v", err, status)
	}

	store, err := etcdstore.Open(etcdstore.Options{Endpoints: []string{c.address}, Cluster: "tickmesh"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const manager = "TickMeshCluster/lab/demo"
	if err := store.SetManager(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"drain", "undrain"} {
		code, _, stderr := run(t, nil, verb, "n4", "--addr", r.addr["grpc"])
		if code != 1 || !strings.Contains(stderr, manager) || !strings.Contains(stderr, "kubectl tickmesh "+verb+" n4") {
			t.Errorf("%s: %d %s", verb, code, stderr)
		}
	}
	if code, stdout, stderr := run(t, nil, "drain", "n4", "--dry-run", "--addr", r.addr["grpc"]); code != 0 || !strings.Contains(stdout, "would be drained") {
		t.Errorf("a dry run: %d %s %s", code, stdout, stderr)
	}
	if err := store.SetManager(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	c.drain(r, "n4")
}
