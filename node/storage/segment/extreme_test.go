package segment

import (
	"context"
	"maps"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// genTime returns any time that a sample may have, those at the ends often.
func genTime() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(scan.TimeMsMin, scan.TimeMsMax),
		rapid.SampledFrom([]int64{
			scan.TimeMsMin, scan.TimeMsMin + 1, -1, 0, 1, -DayMs, -DayMs - 1, scan.TimeMsMax - 1, scan.TimeMsMax,
			-62_135_596_800_000, -62_135_596_800_001, // the year 1 begins
			253_402_300_799_999, 253_402_300_800_000, // the year 9999 ends
			math.MaxInt32 * 1000, (math.MaxInt32 + 1) * 1000,
		}),
	)
}

// TestPartitionsOfAnyTime: every time lies in its partitions, each of which lies in
// the next wider one.
func TestPartitionsOfAnyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := genTime().Draw(t, "time")
		inner := Partition{at, at + 1}
		for span := SpanTwoHours; span <= SpanMonth; span++ {
			p := PartitionOf(at, span)
			if !p.Covers(inner) || PartitionOf(p.StartMs, span) != p || PartitionOf(p.EndMs-1, span) != p || PartitionOf(p.EndMs, span).StartMs != p.EndMs {
				t.Fatalf("span %d of %d is %+v, which has %+v in it", span, at, p, inner)
			}
			inner = p
		}
	})
}

// TestSamplesOfAnyTime writes, merges and reads samples at the ends of time.
func TestSamplesOfAnyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		at := genTime().Draw(t, "time")
		month := PartitionOf(at, SpanMonth)
		want := model{}
		var readers []*Reader
		for i := range rapid.IntRange(1, 3).Draw(t, "inputs") {
			m := model{}
			partition := PartitionOf(at, rapid.SampledFrom([]Span{SpanTwoHours, SpanDay, SpanMonth}).Draw(t, "span"))
			for range rapid.IntRange(1, 40).Draw(t, "samples") {
				m.put(seriesKey{}, rapid.Int64Range(partition.StartMs, partition.EndMs-1).Draw(t, "at"), genValue().Draw(t, "value"))
			}
			m.put(seriesKey{}, at, float64(i))
			meta := m.write(t, Options{FS: fs, Dir: dir, Partition: partition, BlockSamples: 8, SequenceLow: uint64(i), SequenceHigh: uint64(i)}, 100)
			readers = append(readers, openSegment(t, fs, dir, &meta))
			if want[seriesKey{}] == nil {
				want[seriesKey{}] = samples{}
			}
			maps.Copy(want[seriesKey{}], m[seriesKey{}])
		}
		defer release(t, readers...)
		o := MergeOptions{Options: Options{FS: fs, Dir: dir, Partition: month, Level: 1, BlockSamples: 8, Rollups: true}}
		metas, err := Merge(context.Background(), readers, o)
		if err != nil || len(metas) != 1 {
			t.Fatal(metas, err)
		}
		checkMerged(t, fs, dir, metas, want, &o)
		checkOneTime(t, fs, dir, &metas[0], at, want)
	})
}

// checkOneTime looks for one sample, and for its day's rollup.
func checkOneTime(t *rapid.T, fs vfs.FS, dir string, meta *Meta, at int64, want model) {
	r := openSegment(t, fs, dir, meta)
	defer release(t, r)
	got, err := readSeries(r, seriesKey{}, at, at)
	if err != nil || len(got) != 1 || got[at] != want[seriesKey{}][at] {
		t.Fatalf("at %d: %v, %v", at, got, err)
	}
	day := floorTo(at, DayMs)
	rollups, err := r.Rollups(nil, 0, 0, day, day, DayMs)
	if err != nil || len(rollups) != 1 {
		t.Fatalf("the day %d: %v, %v", day, rollups, err)
	}
	checkDayDigests(t, r, want)
	var x ExactSpans
	var c Cursor
	spans, err := x.Find(nil, []*Reader{r}, func(int) *Cursor { return &c }, 0, 0, at, at, HourMs, func(m *Meta) bool { return m.Rollups })
	if err != nil || len(spans) != 1 || at < spans[0].FromMs || at >= spans[0].ToMs {
		t.Fatalf("exact at %d: %v, %v", at, spans, err)
	}
}

// Values that the codecs treat apart: payloads of NaN, signs of zero, denormals,
// decimals at and beyond the greatest mantissa.
func TestNumbersThroughMerges(t *testing.T) {
	numbers := []series.Number{
		{Mantissa: 0}, {Mantissa: 0, Scale: 15}, {Mantissa: series.MantissaMax}, {Mantissa: -series.MantissaMax, Scale: 15},
		{Mantissa: series.MantissaMax - 1, Scale: 7}, {Mantissa: 1, Scale: 15},
	}
	for _, bits := range []uint64{
		0x7ff0000000000001, 0x7ff8dead0000beef, 0xfff0000000000001, 0xffffffffffffffff, // NaN, quiet and signalling
		0x8000000000000000, 1, 0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000,
		0x7ff0000000000000, 0xfff0000000000000, 0x7fefffffffffffff, 0x4340000000000000, 0x4340000000000001,
	} {
		numbers = append(numbers, series.Number{Mantissa: int64(bits), Scale: series.ScaleFloat})
	}
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		dense := rapid.Bool().Draw(t, "dense")
		want := model{}
		for i, n := range rapid.SliceOfN(rapid.SampledFrom(numbers), 1, 300).Draw(t, "numbers") {
			want.put(seriesKey{}, dayStart+int64(i)*1000, n.Float64())
		}
		meta := want.write(t, Options{FS: fs, Dir: dir, Partition: testPartition(SpanDay), BlockSamples: rapid.IntRange(1, 64).Draw(t, "block")}, 1000)
		r := openSegment(t, fs, dir, &meta)
		defer release(t, r)
		o := MergeOptions{Options: Options{FS: fs, Dir: dir, Partition: testPartition(SpanMonth), Level: 1, BlockSamples: 128, Dense: dense}}
		metas, err := Merge(context.Background(), []*Reader{r}, o)
		if err != nil {
			t.Fatal(err)
		}
		checkMerged(t, fs, dir, metas, want, &o)
	})
}
