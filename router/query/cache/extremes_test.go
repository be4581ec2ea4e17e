package cache

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// TestRangesBeyondTime: what lies beyond the ends of time is not kept as the window there.
func TestRangesBeyondTime(t *testing.T) {
	for end, beyond := range map[int64][2]int64{scan.TimeMsMin: {math.MinInt64, scan.TimeMsMin - 1}, scan.TimeMsMax: {scan.TimeMsMax + 1, math.MaxInt64}} {
		c, now := opened(Options{Bytes: 1 << 20, WindowsMin: 1})
		now.Store(math.MaxInt64 / 2)
		m := newChronicle()
		cached := c.Source(m)
		if err := m.Put(scantest.Key("", "m"), series.Sample{TimeMs: end, Value: 1}); err != nil {
			t.Fatal(err)
		}
		for _, within := range [][2]int64{beyond, beyond, beyond, {end, end}} {
			r := minutes(within[0], within[1])
			r.Windows.WidthMs = 1
			check(t, cached, m, r)
		}
	}
}

// TestExtremeRequests: ranges, windows and samples at the ends of time and beyond them.
func TestExtremeRequests(t *testing.T) {
	ends := []int64{
		math.MinInt64, math.MinInt64 + 1, scan.TimeMsMin - 1, scan.TimeMsMin, scan.TimeMsMin + 5, -1e15, -1, 0, 7, 1e12, 1e15,
		scan.TimeMsMax - 3, scan.TimeMsMax, scan.TimeMsMax + 1, math.MaxInt64 - 1, math.MaxInt64,
	}
	widths := []int64{1, 2, 1000, 60_000, 1e9, widthMsMax - 1, widthMsMax, widthMsMax + 1}
	ctx, hits := context.Background(), 0.0
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		end := func() int64 { return ends[random.IntN(len(ends))] }
		c, now := opened(Options{Bytes: 1 << 20, WindowsMin: 1})
		m := newChronicle()
		cached := c.Source(m)
		for i := range 40 {
			at := min(max(end(), scan.TimeMsMin), scan.TimeMsMax-10) + random.Int64N(10)
			if err := m.Put(scantest.Key("", "m", "n", fmt.Sprint(i%4)), series.Sample{TimeMs: at, Value: float64(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			r := minutes(end(), end())
			r.FromMs, r.ToMs = min(r.FromMs, r.ToMs), max(r.FromMs, r.ToMs)
			r.Windows.OriginMs, r.Windows.WidthMs = min(max(end(), scan.TimeMsMin), scan.TimeMsMax), widths[random.IntN(len(widths))]
			for range 4 {
				now.Store(end() / 2)
				got, err := scantest.Collect(ctx, cached, r)
				if err != nil {
					t.Fatal(err)
				}
				want, err := scantest.Collect(ctx, m.Memory, r)
				if err != nil {
					t.Fatal(err)
				}
				compareChunks(t, got, want)
			}
		}
		hits += counted(c.metrics.hits)
	}
	if hits < 300 {
		t.Errorf("%g hits: the test tests little", hits)
	}
}
