package storage

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// fillGeneration appends full pages of random walks, a sample each second, as
// series that fill their pages at different moments do. The series begin on so many days.
func fillGeneration(b *testing.B, e *Engine, seriesCount, days int, bytes int64) (samples int64) {
	type state struct {
		previous pagelog.Ref
		head     codec.PageHead
		page     [codec.PageBytesMax]byte
		timeMs   int64
		value    int64
	}
	random := rand.New(rand.NewPCG(1, 2))
	states := make([]state, seriesCount)
	for i := range states {
		s := &states[i]
		s.timeMs, s.value = 1_750_000_000_000-int64(i%days)*24*3600_000, random.Int64N(1000)
		s.head.Begin(s.page[:], s.timeMs, s.value, 2)
		key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("n"), Value: fmt.Append(nil, i)}})
		if _, err := e.index.Create(uint16(i%e.Shards()), series.ID(i/e.Shards()), key, index.DayOf(s.timeMs)); err != nil {
			b.Fatal(err)
		}
	}
	for written := int64(0); written < bytes; {
		for i := range states {
			s := &states[i]
			for range 1 + random.IntN(20) {
				s.timeMs += 1000
				s.value += random.Int64N(2000) - 1000
				if s.head.Append(s.page[:], s.timeMs, s.value) {
					samples++
					continue
				}
				payload := s.head.AppendPayload(nil, s.page[:])
				ref, err := e.appendPage(uint16(i%e.Shards()), uint32(i/e.Shards()), s.previous, payload)
				if err != nil {
					b.Fatal(err)
				}
				s.previous = ref
				written += int64(len(payload)) + 16
				clear(s.page[:])
				s.head.Begin(s.page[:], s.timeMs, s.value, 2)
			}
		}
	}
	return samples
}

// BenchmarkFlush sorts one generation into segments.
func BenchmarkFlush(b *testing.B) {
	for _, c := range []struct {
		series   int
		megabyte int64
		days     int
	}{{2_000, 16, 1}, {2_000, 120, 1}, {100_000, 120, 1}, {1, 16, 1}, {2_000, 16, 2_000}} {
		b.Run(fmt.Sprintf("series=%d/MiB=%d/days=%d", c.series, c.megabyte, c.days), func(b *testing.B) {
			var samples int64
			for range b.N {
				b.StopTimer()
				e, err := Open(Options{
					FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), SyncLog: func() error { return nil },
					GenerationBytesMax: max(16<<20, (c.megabyte+15)&^15<<20),
				})
				if err != nil {
					b.Fatal(err)
				}
				samples += fillGeneration(b, e, c.series, c.days, (c.megabyte-1)<<20)
				b.StartTimer()
				if err := e.Flush(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(samples)/b.Elapsed().Seconds()/1e6, "Msamples/s")
		})
	}
}
