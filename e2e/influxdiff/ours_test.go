package influxdiff

import (
	"net/http/httptest"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
	"github.com/tickmesh/tickmesh/router/query/influxql"
)

// startMemory serves the points from memory.
func startMemory(t *testing.T, points []point, _ []byte) string {
	t.Helper()
	m := scantest.NewMemory()
	for _, p := range points {
		for name, v := range p.fields {
			var tags []series.Tag
			if name != "value" {
				tags = append(tags, series.Tag{Name: []byte(series.FieldTagName), Value: []byte(name)})
			}
			for k, v := range p.tags {
				tags = append(tags, series.Tag{Name: []byte(k), Value: []byte(v)})
			}
			if err := m.Put(series.AppendKey(nil, []byte("d"), []byte(p.measurement), tags), series.Sample{TimeMs: p.timeMs, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := httptest.NewServer(access.Open(influxql.New(influxql.Options{Source: m})))
	t.Cleanup(s.Close)
	return s.URL
}

// startCluster starts a cluster of three nodes with two copies of each shard, and
// writes the points to its router.
func startCluster(t *testing.T, _ []point, lines []byte) string {
	t.Helper()
	cluster := harnesstest.Cluster(t, harness.ClusterOptions{Nodes: 3, Routers: 1, Shards: 8, Replication: 2})
	base := "http://" + cluster.Servers(harness.RoleRouter)[0].HTTPAddr()
	if status, body := ask(t, base, "CREATE DATABASE d", nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	write(t, base, lines)
	return base
}

// startServer starts a server, and writes the points to it as InfluxDB's
// clients do.
func startServer(t *testing.T, _ []point, lines []byte) string {
	t.Helper()
	base := "http://" + harnesstest.Standalone(t).HTTPAddr
	if status, body := ask(t, base, "CREATE DATABASE d", nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	write(t, base, lines)
	return base
}
