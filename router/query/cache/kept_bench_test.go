package cache

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// BenchmarkKeptOfMany reads five windows of 50,000 series that are kept, beside 30,000 that ended before.
func BenchmarkKeptOfMany(b *testing.B) {
	const live, ended, fromMs, toMs, width = 50_000, 30_000, 3_600_000, 3_900_000, 60_000
	request := scan.Request{
		Selector: scan.Selector{Metric: "m"}, FromMs: fromMs, ToMs: toMs - 1, Parallel: 1,
		Windows: &scan.Windows{WidthMs: width, Aggregates: scan.AggregateSum | scan.AggregateCount},
	}
	g := gridOf(request.Windows)
	e := &entry{grid: g, asked: request.Windows.Aggregates}
	e.mu.span = span{g.at(0), g.at(toMs)}
	for i := range live + ended {
		column := newColumn(e.asked, series.Ref{ID: series.ID(i)})
		var chunk scan.Chunk
		at := int64(fromMs)
		if i%8 < 3 {
			at = 0
		}
		for range 5 {
			chunk.Times, chunk.Sum, chunk.Count = append(chunk.Times, at), append(chunk.Sum, float64(i)), append(chunk.Count, 6)
			at += width
		}
		column.appendChunk(g, e.asked, &chunk, 0, 5)
		key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("device"), Value: fmt.Appendf(nil, "d_%d", i*7919%100_003)}})
		e.add(string(key), column)
	}
	q := &question{request: &request, grid: g, span: g.whole(request.FromMs, request.ToMs, math.MaxInt64)}
	for b.Loop() {
		windows := 0
		m := newMerger(q, e, e.view(), func(_ int, chunk *scan.Chunk) error {
			windows += len(chunk.Times)
			return nil
		})
		err := m.rest(context.Background())
		if err != nil || windows != 5*live {
			b.Fatal(windows, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/live, "ns/series")
}
