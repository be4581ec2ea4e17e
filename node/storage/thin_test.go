package storage

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
)

// windowed returns the samples of a series that windows should tell of: all of hours that neither the range nor a
// window cuts, and the last one of other hours before the cut.
func windowed(samples map[int64]uint64, w *scan.Windows, cutMs, thinMs, fromMs, toMs int64) (times []int64, values []float64) {
	byHours := w.WidthMs%segment.HourMs == 0 && w.OriginMs%segment.HourMs == 0 || w.WidthMs >= 2*segment.HourMs
	start := func(at int64) int64 { return floorOf(at-w.OriginMs, w.WidthMs) }
	last := map[int64]int64{}
	for at := range samples {
		if at >= cutMs {
			hour := floorOf(at, segment.HourMs)
			last[hour] = max(last[hour], at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(samples)) {
		hour := floorOf(at, segment.HourMs)
		end := hour + segment.HourMs - 1
		whole := byHours && hour >= max(fromMs, cutMs) && end <= toMs && start(hour) == start(end)
		if at < max(fromMs, cutMs) || at > toMs || at < thinMs && !whole && at != last[hour] {
			continue
		}
		times, values = append(times, at), append(values, math.Float64frombits(samples[at]))
	}
	return times, values
}

func floorOf(at, width int64) int64 { return int64(math.Floor(float64(at)/float64(width))) * width }

// compareWindows asks for windows of a shard of which hours are thinned, and compares every bit.
func (n *labNode) compareWindows(what string, shard int, m *slowShard) {
	n.t.Helper()
	const hourMs, dayMs = segment.HourMs, segment.DayMs
	rng := rand.New(rand.NewPCG(uint64(len(n.written)), uint64(shard)))
	now := n.logs[shard].dayMs()
	widths := []int64{hourMs, 3 * hourMs, dayMs, 2 * dayMs, 5*hourMs + 1, 90 * 60_000, 20 * 60_000, dayMs + 77}
	for range 3 {
		w := &scan.Windows{
			WidthMs: widths[rng.IntN(len(widths))], OriginMs: []int64{0, now, now + hourMs, now - 1800_000}[rng.IntN(4)],
			Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
		}
		fromMs, toMs := int64(scan.TimeMsMin), int64(scan.TimeMsMax)
		if rng.IntN(2) == 0 {
			fromMs = now - rng.Int64N(7*24)*hourMs - rng.Int64N(2)*rng.Int64N(hourMs)
			toMs = fromMs + rng.Int64N(3*24)*hourMs + rng.Int64N(2)*rng.Int64N(hourMs)
		}
		got := map[string]string{}
		err := n.e.Scan(context.Background(), &scan.Request{
			Selector: scan.Selector{MetricAny: true, Shards: []uint16{uint16(shard)}}, FromMs: fromMs, ToMs: toMs, Windows: w,
		}, func(_ int, c *scan.Chunk) error {
			got[string(c.Key)] += bitsOf(c)
			return nil
		})
		if err != nil {
			n.t.Fatal(what, err)
		}
		for key, samples := range m.samples {
			times, values := windowed(samples, w, m.cutOf(key), m.thinCutOf(key), fromMs, toMs)
			want := windowsByHours(w, times, values)
			if have, want := got[key], bitsOf(&want); have != want {
				n.t.Fatalf("%s: %+v of %x in [%d, %d], cut at %d:\n got %s\nwant %s", what, *w, key, fromMs, toMs, m.thinCutOf(key), have, want)
			}
		}
	}
}

// compareDigests asks for digests of a shard's days, recorded ones or not, and for what is hidden, and compares them with those of
// the samples that are visible by the definition: from the cut on all, before it the last one of each hour.
func (n *labNode) compareDigests(what string, shard int, m *slowShard) {
	n.t.Helper()
	rng := rand.New(rand.NewPCG(uint64(len(n.written)), uint64(shard)+77))
	now := n.logs[shard].dayMs()
	for range 3 {
		w := &scan.Windows{
			WidthMs: []int64{segment.DayMs, 2 * segment.DayMs}[rng.IntN(2)], OriginMs: []int64{0, now}[rng.IntN(2)],
			Aggregates: scan.AggregateDigest | scan.AggregateCount | scan.AggregateHidden, RecordedDigests: rng.IntN(3) > 0,
		}
		fromMs, toMs := int64(scan.TimeMsMin), int64(scan.TimeMsMax)
		if rng.IntN(2) == 0 {
			fromMs = now - rng.Int64N(7*24)*segment.HourMs - rng.Int64N(2)*rng.Int64N(segment.HourMs)
			toMs = fromMs + rng.Int64N(3*24)*segment.HourMs + rng.Int64N(2)*rng.Int64N(segment.HourMs)
		}
		got := map[string]string{}
		err := n.e.Scan(context.Background(), &scan.Request{
			Selector: scan.Selector{MetricAny: true, Shards: []uint16{uint16(shard)}}, FromMs: fromMs, ToMs: toMs, Windows: w,
		}, func(_ int, c *scan.Chunk) error {
			for i := range c.Times {
				got[string(c.Key)] += fmt.Sprintln(c.Times[i], c.Count[i], c.Digest[i], c.Hidden[i])
			}
			return nil
		})
		if err != nil {
			n.t.Fatal(what, err)
		}
		for key, samples := range m.samples {
			if want := visibleDigests(samples, w, m.cutOf(key), m.thinCutOf(key), fromMs, toMs); got[key] != want {
				n.t.Fatalf("%s: %+v of %x in [%d, %d], cut at %d and %d:\n got %s\nwant %s", what, *w, key, fromMs, toMs, m.cutOf(key), m.thinCutOf(key), got[key], want)
			}
		}
	}
}

func visibleDigests(samples map[int64]uint64, w *scan.Windows, cutMs, thinMs, fromMs, toMs int64) (text string) {
	fromMs = max(fromMs, cutMs)
	last, numbers := map[int64]int64{}, map[int64]int64{}
	isNumber := func(at int64) bool { return !math.IsNaN(math.Float64frombits(samples[at])) }
	for at := range samples {
		if hour := floorOf(at, segment.HourMs); at >= cutMs {
			last[hour] = max(last[hour], at)
			if isNumber(at) {
				numbers[hour]++
			}
		}
	}
	type window struct {
		count, hidden int64
		digest        uint64
	}
	windows := map[int64]*window{}
	for at, bits := range samples {
		hour := floorOf(at, segment.HourMs)
		if at < fromMs || at > toMs || at < thinMs && at != last[hour] {
			continue
		}
		start := w.OriginMs + floorOf(at-w.OriginMs, w.WidthMs)
		if windows[start] == nil {
			windows[start] = &window{}
		}
		of := windows[start]
		of.count++
		of.digest += scan.DigestSamples([]int64{at}, []float64{math.Float64frombits(bits)})
		if at < thinMs && hour >= fromMs && hour+segment.HourMs-1 <= toMs {
			of.hidden += numbers[hour]
			if isNumber(at) {
				of.hidden--
			}
		}
	}
	for _, start := range slices.Sorted(maps.Keys(windows)) {
		of := windows[start]
		text += fmt.Sprintln(start, of.count, of.digest, of.hidden)
	}
	return text
}

// TestThinnedShardsMove is TestShardsMove where of hours before cuts the last sample is kept. Whether a node has thinned its files
// already or not, samples and windows are the same.
func TestThinnedShardsMove(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			moveShards(t, seed, func(l *labLog) { l.thins = true })
		})
	}
}
