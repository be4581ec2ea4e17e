package process

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// BenchmarkSnapshots takes snapshots of 128 shards of a server, and of a cluster of three nodes with two copies, all in one process,
// while they have as many samples as is said and 10,000 new ones each time. server-ms/op is the processor time of that process, slowest-ms
// the longest call. The end of a snapshot is not within the time.
//
// On two cores of an AMD EPYC with much other work (a load of 28), 27 November 2026, with -benchtime 10x, once: a server 123 ms for 1 M
// samples (18 ms of processor time, slowest 260 ms) and 305 ms for 10 M (48 ms, 1,986 ms); nodes=3 1,482 ms for 1 M (270 ms, 11,877 ms) and
// 1,277 ms for 10 M (339 ms, 11,649 ms). The calls of more than 11 s are not explained: with -benchtime 12x some minutes later nodes=3
// took 118 ms for 1 M (61 ms, 311 ms).
func BenchmarkSnapshots(b *testing.B) {
	const series = 10_000
	for _, cluster := range []struct {
		name  string
		flags []string
	}{{"server", nil}, {"nodes=3", []string{"--nodes", "3", "--replication", "2"}}} {
		for _, samples := range []int{1_000_000, 10_000_000} {
			b.Run(fmt.Sprintf("%s/samples=%d", cluster.name, samples), func(b *testing.B) {
				server, c := startBenchServer(b, cluster.flags...)
				list := make([]client.Sample, series)
				for i := range list {
					s, err := client.NewSeries("m", client.Tag{Name: "n", Value: fmt.Sprint(i)})
					if err != nil {
						b.Fatal(err)
					}
					list[i].Series = s
				}
				timeMs := int64(1_750_000_000_000)
				round := func() {
					timeMs += 10_000
					for i := range list {
						list[i].TimeMs, list[i].Value = timeMs, float64(timeMs/10_000*int64(i)%977)/10
					}
					if err := c.Write(b.Context(), list...); err != nil {
						b.Fatal(err)
					}
				}
				for range samples / series {
					round()
				}
				measureSnapshots(b, server, c, round)
			})
		}
	}
}

func startBenchServer(b *testing.B, flags ...string) (*harness.Standalone, *client.Client) {
	b.Helper()
	addresses, err := harness.NewStandaloneAddresses()
	if err != nil {
		b.Fatal(err)
	}
	free, err := harness.FreeAddresses(1)
	if err != nil {
		b.Fatal(err)
	}
	server, err := harness.StartStandalone(b.Context(), harness.StandaloneOptions{
		Binary: binary, DataDir: filepath.Join(b.TempDir(), "data"), Extra: append([]string{"--grpc-addr", free[0], "--shards", "128"}, flags...),
	}, addresses)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Kill)
	c, err := client.New(client.Options{Endpoints: free})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return server, c
}

func measureSnapshots(b *testing.B, server *harness.Standalone, c *client.Client, beside func()) {
	b.Helper()
	var spent, slowest time.Duration
	cpu := func() time.Duration {
		usage, err := server.Usage()
		if err != nil {
			b.Fatal(err)
		}
		return usage.CPU
	}
	for b.Loop() {
		b.StopTimer()
		beside()
		before, start := cpu(), time.Now()
		b.StartTimer()
		name, err := c.TakeSnapshot(b.Context(), []string{""})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		slowest = max(slowest, time.Since(start))
		spent += cpu() - before
		if err := c.EndSnapshot(b.Context(), name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "server-ms/op")
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
}
