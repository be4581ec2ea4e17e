package segment

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// thinned is what is left of a model when samples before a time, by series, are thinned.
func (m model) thinned(before func(k seriesKey) int64) model {
	kept := model{}
	for k, s := range m {
		for at, bits := range s {
			later := false
			for other := range s {
				later = later || other > at && floorTo(other, HourMs) == floorTo(at, HourMs)
			}
			if at >= before(k) || !later {
				kept.put(k, at, math.Float64frombits(bits))
			}
		}
	}
	return kept
}

// drawDays is drawModel over the first four days of a partition, from a time on.
func drawDays(t *rapid.T, partition Partition, fromMs int64) model {
	m := drawModel(t, Partition{max(partition.StartMs, fromMs), partition.StartMs + 4*DayMs}, 60)
	if rapid.Bool().Draw(t, "more") { // of the series that others have, too
		for at := fromMs + rapid.Int64Range(0, DayMs).Draw(t, "start"); at < partition.StartMs+4*DayMs; at += rapid.Int64Range(1, DayMs/3).Draw(t, "gap") {
			if partition.Has(at) {
				m.put(seriesKey{1, 7}, at, genValue().Draw(t, "value"))
			}
		}
	}
	return m
}

// drawStones returns tombstones of sequence that hide whole hours before a time, and anything after it.
func drawStones(t *rapid.T, of model, beforeMs int64, sequence uint64) (all []hiddenFrom) {
	for _, k := range of.keys() {
		if rapid.IntRange(0, 3).Draw(t, "hidden") > 0 {
			continue
		}
		times := of[k].times()
		r := TimeRange{rapid.SampledFrom(times).Draw(t, "from"), rapid.SampledFrom(times).Draw(t, "to")}
		if r.FromMs < beforeMs {
			r.FromMs = floorTo(r.FromMs, HourMs)
		}
		if r.ToMs < beforeMs {
			r.ToMs = floorTo(r.ToMs, HourMs) + HourMs - 1
		}
		all = append(all, hiddenFrom{k, r, sequence})
	}
	return all
}

// A thinned file keeps the last sample of each hour and what all of them come to, whatever it is merged with later.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		month := testPartition(SpanMonth)
		var inputs []*Reader
		var parts []model
		cutMs, level, sequence := month.StartMs, uint8(0), uint64(0)
		for range rapid.IntRange(1, 4).Draw(t, "merges") {
			for range rapid.IntRange(0, 2).Draw(t, "inputs") {
				part := drawDays(t, month, cutMs)
				o := Options{FS: fs, Dir: dir, Partition: month, SequenceLow: sequence, SequenceHigh: sequence, BlockSamples: 16, Rollups: rapid.Bool().Draw(t, "rollups")}
				meta := part.write(t, o, 1000)
				inputs, parts, sequence = append(inputs, openSegment(t, fs, dir, &meta)), append(parts, part), sequence+1
			}
			if len(inputs) == 0 {
				continue
			}
			whole := merged(parts, nil)
			added := drawStones(t, whole, cutMs, sequence-1)
			whole = merged([]model{whole}, asOf(added, 0))
			cutMs = min(cutMs+rapid.Int64Range(0, 2).Draw(t, "days")*DayMs, month.StartMs+3*DayMs)
			before := func(k seriesKey) int64 {
				if k.id%3 == 0 {
					return math.MinInt64
				}
				return cutMs
			}
			level++
			metas, err := Merge(context.Background(), inputs, MergeOptions{
				Options:    Options{FS: fs, Dir: dir, Partition: month, Level: level, BlockSamples: rapid.SampledFrom([]int{4, 100}).Draw(t, "block"), Rollups: true},
				ThinBefore: func(shard uint16, id uint32) int64 { return before(seriesKey{shard, id}) },
				Hidden:     hide(added),
			})
			if err != nil {
				t.Fatal(err)
			}
			release(t, inputs...)
			inputs, parts = nil, nil
			for i := range metas {
				inputs = append(inputs, openSegment(t, fs, dir, &metas[i]))
			}
			if len(inputs) > 0 {
				parts = []model{whole}
			}
			checkThinned(t, inputs, whole, whole.thinned(before))
		}
		release(t, inputs...)
	})
}

// asOf returns tombstones with another sequence.
func asOf(stones []hiddenFrom, sequence uint64) (all []hiddenFrom) {
	for _, s := range stones {
		s.sequence = sequence
		all = append(all, s)
	}
	return all
}

// checkThinned compares thinned files with what was written, and with what is left of it.
func checkThinned(t fatal, readers []*Reader, whole, kept model) {
	t.Helper()
	got, err := readModel(readers...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	equalModels(t, got, kept)
	for _, r := range readers {
		if err := r.Verify(context.Background()); err != nil {
			t.Fatalf("%v", err)
		}
		if !r.Meta().Thinned {
			t.Fatalf("not thinned: %+v", r.Meta())
		}
		for _, info := range r.Shards() {
			if info.Digest != kept.digest(info.Shard) {
				t.Fatalf("digest of shard %d", info.Shard)
			}
		}
	}
	for k, s := range whole {
		for _, r := range readers {
			for _, width := range []int64{HourMs, DayMs} {
				rollups := rollupsWithEnds(t, r, k, width)
				checkRollups(t, rollups, s, width)
				checkFirstAndLast(t, rollups, s, width)
			}
		}
	}
}

// checkFirstAndLast is checkEnds but for when extremes were, which is not known of thinned hours.
func checkFirstAndLast(t fatal, got []Rollup, s samples, widthMs int64) {
	t.Helper()
	ends := map[int64]Ends{}
	for _, at := range s.times() {
		v, start := math.Float64frombits(s[at]), floorTo(at, widthMs)
		if math.IsNaN(v) {
			continue
		}
		e, known := ends[start]
		if !known {
			e.First, e.FirstMs = v, at
		}
		e.Last, e.LastMs = v, at
		ends[start] = e
	}
	for i := range got {
		r, want := &got[i], ends[got[i].StartMs]
		if r.FirstMs != want.FirstMs || r.LastMs != want.LastMs || math.Float64bits(r.First) != math.Float64bits(want.First) || math.Float64bits(r.Last) != math.Float64bits(want.Last) {
			t.Fatalf("ends of %d: %+v, want %+v", r.StartMs, r.Ends, want)
		}
		if r.MinMs != 0 && (r.MinMs < r.FirstMs || r.MaxMs > r.LastMs) {
			t.Fatalf("extremes of %d: %+v", r.StartMs, r.Ends)
		}
	}
}
