package cache

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	benchSeries = 2000
	benchStepMs = 10_000
	benchHours  = 24
)

// benchNode is a node on disk with a day of samples, flushed and merged.
func benchNode(b *testing.B) *node.Node {
	b.Helper()
	n, err := node.Open(node.Options{FS: vfs.OS(), DataDir: filepath.Join(b.TempDir(), "data"), Shards: 16, Sync: node.SyncOff})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	})
	for row := range int64(benchHours * 3_600_000 / benchStepMs) {
		benchWrite(b, n, labBaseMs+row*benchStepMs)
	}
	if err := n.CompactAll(context.Background()); err != nil {
		b.Fatal(err)
	}
	return n
}

// benchWrite writes a sample of each series.
func benchWrite(b *testing.B, n *node.Node, timeMs int64) {
	encoders := make([]series.BatchEncoder, n.Shards())
	for i := range benchSeries {
		key := series.AppendKey(nil, nil, []byte("cpu"), []series.Tag{
			{Name: []byte("host"), Value: fmt.Appendf(nil, "host-%05d", i)}, {Name: []byte("region"), Value: fmt.Appendf(nil, "eu-%d", i%20)},
		})
		e := &encoders[key.Shard(n.Shards())]
		e.Append(e.Define(key), timeMs, (timeMs/benchStepMs+int64(i))%97, 1)
	}
	frame := series.Frame{Points: benchSeries}
	for shard := range encoders {
		frame.Parts = append(frame.Parts, series.Part{Shard: uint16(shard), Batch: encoders[shard].AppendTo(nil)})
	}
	if _, err := n.Write(context.Background(), &frame); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDashboard draws 2,000 series by minute again and again, each time ten seconds
// later, with samples that have come meanwhile.
func BenchmarkDashboard(b *testing.B) {
	n := benchNode(b)
	nowMs := labBaseMs + benchHours*3_600_000
	for i := range 8 {
		hours, whole, size := []int64{6, 24}[i/4], i/2%2 == 1, int64(i%2*64<<20)
		b.Run(fmt.Sprintf("hours=%d/first-window-whole=%v/cache=%dMiB", hours, whole, size>>20), func(b *testing.B) {
			c := New(Options{Bytes: size, Clock: func() time.Time { return time.UnixMilli(nowMs) }})
			source := scan.Source(n)
			if size > 0 {
				source = c.Source(n)
			}
			windows := [2]int64{}
			draw := func() {
				fromMs := nowMs - hours*3_600_000
				if whole { // as Grafana asks Prometheus
					fromMs -= fromMs % 60_000
				}
				err := source.Scan(context.Background(), &scan.Request{
					Selector: scan.Selector{Metric: "cpu"}, FromMs: fromMs, ToMs: nowMs, Parallel: 2,
					Windows: &scan.Windows{WidthMs: 60_000, Aggregates: scan.AggregateSum | scan.AggregateCount},
				}, func(worker int, chunk *scan.Chunk) error {
					windows[worker] += int64(len(chunk.Times))
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			for range 3 { // it is kept from the second time on
				draw()
			}
			windows = [2]int64{}
			for b.Loop() {
				b.StopTimer()
				nowMs += benchStepMs
				benchWrite(b, n, nowMs)
				b.StartTimer()
				draw()
			}
			_, held := c.size()
			b.ReportMetric(float64(windows[0]+windows[1])/float64(b.N), "windows/op")
			b.ReportMetric(float64(held)/(1<<20), "MiB-held")
			b.ReportMetric(counted(c.metrics.hits)/float64(b.N), "hits/op")
		})
	}
}
