package fanout

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// BenchmarkWrite writes frames of 200 points in all shards of three nodes that
// answer at once, from as many goroutines as said. Nodes and router share the CPU.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{4, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			w := newWorld(b, 3, testShards)
			for _, n := range w.nodes {
				n.write = func(frame *series.Frame) []wire.PartOutcome {
					outcomes := make([]wire.PartOutcome, len(frame.Parts))
					for i := range outcomes {
						outcomes[i].Copies = 1
					}
					return outcomes
				}
			}
			c := w.open(Limits{})
			samples := map[string][]series.Sample{}
			for i := range 200 {
				samples[string(scantest.Key("", "m", "n", fmt.Sprint(i)))] = []series.Sample{{TimeMs: 1, Value: 1}}
			}
			if _, err := c.Write(context.Background(), frameOf(c, testShards, samples)); err != nil {
				b.Fatal(err)
			}
			frame := frameOf(c, testShards, samples)
			b.ReportAllocs()
			b.SetParallelism(max(1, writers/runtime.GOMAXPROCS(0)))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				own := *frame
				for pb.Next() {
					if _, err := c.Write(context.Background(), &own); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(200*b.N)/b.Elapsed().Seconds(), "points/s")
		})
	}
}
