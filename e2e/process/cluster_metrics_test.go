package process

import (
	"strconv"
	"strings"
	"testing"
)

// figuresOf sums a metric over its labels; −1: it is not there.
func figuresOf(t *testing.T, s *testServer, name string) float64 {
	t.Helper()
	_, text := get(t, s.url("/metrics"))
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return -1
	}
	return sum
}

// Metrics tell who leads and what moves: in a cluster at rest each shard has one leader,
// two copies and a witness, and nothing is under way.
func TestGroupMetrics(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--nodes", "3", "--replication", "2", "--shards", "8")
	for name, want := range map[string]float64{
		"tickmesh_store_available": 1, "tickmesh_shards": 24, "tickmesh_shards_leading": 8, "tickmesh_shards_witness": 8,
		"tickmesh_shards_learning": 0, "tickmesh_shards_moving": 0, "tickmesh_shards_fetching": 0,
	} {
		waitFor(t, name, func() bool { return figuresOf(t, s, name) == want })
	}
	alone := startServer(t, t.TempDir(), "--shards", "8")
	for name, want := range map[string]float64{"tickmesh_shards": 8, "tickmesh_shards_leading": 8, "tickmesh_store_available": -1} {
		waitFor(t, name+" alone", func() bool { return figuresOf(t, alone, name) == want })
	}
	if size, used := figuresOf(t, alone, "tickmesh_disk_capacity_bytes"), figuresOf(t, alone, "tickmesh_disk_used_bytes"); used <= 0 || used > size {
		t.Errorf("%v of %v bytes of the disk are used", used, size)
	}
}
