package node

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// BenchmarkWrite takes batches of known series through log and hot pages.
func BenchmarkWrite(b *testing.B) {
	const points = 200
	o := testOptions(vfs.OS(), SyncOff)
	o.DataDir, o.LogFileBytes, o.ExtentBytes, o.GenerationBytesMax, o.PersistSeriesMin = filepath.Join(b.TempDir(), "data"), 64<<20, 0, 0, 0
	o.CheckpointBytes = 64 << 20
	n, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	var define series.BatchEncoder
	for i := range points {
		define.Append(define.Define(testKey(i)), 1_700_000_000_000, 1, 0)
	}
	ctx := context.Background()
	if _, err := n.Write(ctx, &series.Frame{Parts: []series.Part{{Batch: define.AppendTo(nil)}}, Points: points}); err != nil {
		b.Fatal(err)
	}
	var clock atomic.Int64
	clock.Store(1_700_000_000_000)
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var e series.BatchEncoder
		var batch []byte
		for pb.Next() {
			at := clock.Add(10_000)
			e.Reset()
			for i := range points {
				e.Append(series.ID(i), at, int64(100+i*7+int(at/10_000)%13), 1)
			}
			batch = e.AppendTo(batch[:0])
			frame := series.Frame{Parts: []series.Part{{Batch: batch}}, Points: points}
			if _, err := n.Write(ctx, &frame); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)*points/b.Elapsed().Seconds()/1e6, "Mpoints/s")
}
