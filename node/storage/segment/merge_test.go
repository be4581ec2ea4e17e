package segment

import (
	"context"
	"errors"
	"maps"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"pgregory.net/rapid"
)

// hiddenFrom is a tombstone: it hides a range of one series in the inputs up to
// a sequence.
type hiddenFrom struct {
	seriesKey
	TimeRange
	sequence uint64
}

func hide(all []hiddenFrom) func([]TimeRange, *Meta, uint16, uint32) []TimeRange {
	return func(dst []TimeRange, input *Meta, shard uint16, id uint32) []TimeRange {
		for _, h := range all {
			if h.seriesKey == (seriesKey{shard, id}) && input.SequenceHigh <= h.sequence {
				dst = append(dst, h.TimeRange)
			}
		}
		return dst
	}
}

// merged is what a merge should give: the inputs in order, tombstones applied to
// each before the next.
func merged(inputs []model, tombstones []hiddenFrom) model {
	want := model{}
	for i, in := range inputs {
		for k, s := range in {
			for at, v := range s {
				want.put(k, at, math.Float64frombits(v))
			}
		}
		for _, h := range tombstones {
			if h.sequence != uint64(i) {
				continue
			}
			for at := range want[h.seriesKey] {
				if at >= h.FromMs && at <= h.ToMs {
					delete(want[h.seriesKey], at)
				}
			}
		}
	}
	maps.DeleteFunc(want, func(_ seriesKey, s samples) bool { return len(s) == 0 })
	return want
}

// drawInputs writes some segments that overlap in series and time.
func drawInputs(t *rapid.T, fs vfs.FS, dir string) (readers []*Reader, models []model) {
	day := testPartition(SpanDay)
	for i := range rapid.IntRange(1, 6).Draw(t, "inputs") {
		partition := day
		if rapid.Bool().Draw(t, "narrow") {
			partition = PartitionOf(day.StartMs+rapid.Int64Range(0, 2).Draw(t, "part")*2*HourMs, SpanTwoHours)
		}
		m := drawModel(t, partition, 150)
		meta := m.write(t, Options{
			FS: fs, Dir: dir, Partition: partition, SequenceLow: uint64(i), SequenceHigh: uint64(i),
			BlockSamples: rapid.SampledFrom([]int{4, 16, 64}).Draw(t, "block"),
		}, 1000)
		readers = append(readers, openSegment(t, fs, dir, &meta))
		models = append(models, m)
	}
	return readers, models
}

func drawTombstones(t *rapid.T, models []model) (all []hiddenFrom) {
	for range rapid.IntRange(0, 3).Draw(t, "tombstones") {
		i := rapid.IntRange(0, len(models)-1).Draw(t, "of")
		keys := models[i].keys()
		k := rapid.SampledFrom(keys).Draw(t, "key")
		times := models[i][k].times()
		from := rapid.SampledFrom(times).Draw(t, "from")
		to := rapid.SampledFrom(times).Draw(t, "to")
		all = append(all, hiddenFrom{k, TimeRange{from, to}, uint64(rapid.IntRange(0, len(models)-1).Draw(t, "sequence"))})
	}
	return all
}

func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		readers, models := drawInputs(t, fs, dir)
		defer release(t, readers...)
		tombstones := drawTombstones(t, models)
		o := MergeOptions{
			Options: Options{
				FS: fs, Dir: dir, Partition: testPartition(SpanMonth), Level: 1,
				BlockSamples: rapid.SampledFrom([]int{4, 16, 100}).Draw(t, "block"), Rollups: rapid.Bool().Draw(t, "rollups"),
			},
			BytesMax: rapid.SampledFrom([]int64{0, 1}).Draw(t, "bytes"), Hidden: hide(tombstones),
		}
		metas, err := Merge(context.Background(), readers, o)
		if err != nil {
			t.Fatal(err)
		}
		want := merged(models, tombstones)
		checkMerged(t, fs, dir, metas, want, &o)
	})
}

func checkMerged(t fatal, fs vfs.FS, dir string, metas []Meta, want model, o *MergeOptions) {
	t.Helper()
	got := model{}
	for i := range metas {
		meta := &metas[i]
		if i > 0 && metas[i-1].ShardHigh >= meta.ShardLow {
			t.Fatalf("outputs share a shard: %+v", metas)
		}
		if o.BytesMax == 1 && meta.Shards != 1 {
			t.Fatalf("not split at a shard border: %+v", meta)
		}
		r := openSegment(t, fs, dir, meta)
		part, err := readModel(r)
		if err == nil {
			err = r.Verify(context.Background())
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, info := range r.Shards() {
			if info.Digest != want.digest(info.Shard) {
				t.Fatalf("digest of shard %d", info.Shard)
			}
		}
		for k, s := range part {
			if !o.Rollups {
				continue
			}
			rollups, err := r.Rollups(nil, k.shard, k.id, math.MinInt64, math.MaxInt64, HourMs)
			if err != nil {
				t.Fatalf("%v", err)
			}
			checkRollups(t, rollups, s, HourMs)
			if rollups, err = r.Rollups(nil, k.shard, k.id, math.MinInt64, math.MaxInt64, DayMs); err != nil {
				t.Fatalf("%v", err)
			}
			checkRollups(t, rollups, s, DayMs)
			checkEnds(t, r, rollups, s, DayMs)
		}
		maps.Copy(got, part)
		release(t, r)
	}
	equalModels(t, got, want)
}

// Blocks that nothing touches are copied, not encoded again.
func TestMergeCopiesBlocks(t *testing.T) {
	fs, dir := memFS(t)
	day := testPartition(SpanDay)
	var readers []*Reader
	want := model{}
	for i := range int64(3) {
		p := PartitionOf(day.StartMs+i*2*HourMs, SpanTwoHours)
		m := walkModel(2, 5, 128, p, 1000)
		meta := m.write(t, Options{FS: fs, Dir: dir, Partition: p, SequenceLow: uint64(9 - i), SequenceHigh: uint64(9 - i), BlockSamples: 64}, 1000)
		readers = append(readers, openSegment(t, fs, dir, &meta))
		for k, s := range m {
			for at, v := range s {
				want.put(k, at, math.Float64frombits(v))
			}
		}
	}
	defer release(t, readers...)
	o := MergeOptions{Options: Options{FS: fs, Dir: dir, Partition: day, Level: 1, BlockSamples: 64}}
	m := &merger{ctx: context.Background(), o: &o, inputs: make([]input, len(readers))}
	for i, r := range readers {
		m.inputs[i].start(r, 0, r.meta.Shards)
	}
	if err := m.run(); err != nil {
		t.Fatal(err)
	}
	for i := range m.inputs {
		if m.inputs[i].buffer.Len() > 0 {
			t.Fatalf("input %d was decoded", i)
		}
	}
	if err := m.finishOutput(); err != nil {
		t.Fatal(err)
	}
	checkMerged(t, fs, dir, m.outputs, want, &o)
}

func TestMergeRefuses(t *testing.T) {
	fs, dir := memFS(t)
	p := testPartition(SpanTwoHours)
	open := func(low, high uint64) *Reader {
		meta := walkModel(1, 1, 5, p, 1000).write(t, Options{FS: fs, Dir: dir, Partition: p, SequenceLow: low, SequenceHigh: high}, 10)
		return openSegment(t, fs, dir, &meta)
	}
	a, b, c := open(1, 4), open(5, 5), open(3, 3)
	defer release(t, a, b, c)
	o := MergeOptions{Options: Options{FS: fs, Dir: dir, Partition: p}}
	for _, inputs := range [][]*Reader{nil, {b, a}, {a, c}, {a, a}} {
		if _, err := Merge(context.Background(), inputs, o); !errors.Is(err, ErrOptions) {
			t.Fatal(err)
		}
	}
	o.Partition = Partition{p.StartMs, p.EndMs - 1}
	if _, err := Merge(context.Background(), []*Reader{a}, o); !errors.Is(err, ErrOptions) {
		t.Fatal(err)
	}
	o.Partition, o.Level = p, 0
	if _, err := Merge(context.Background(), []*Reader{a}, o); !errors.Is(err, ErrOptions) {
		t.Fatalf("over its own input: %v", err)
	}
	o.Level = 1
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before, _ := fs.List(dir)
	if _, err := Merge(ctx, []*Reader{a, b}, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if after, _ := fs.List(dir); len(after) != len(before) {
		t.Fatalf("left behind: %v, before %v", after, before)
	}
}

// Hours that one segment alone has, against a list of hours per segment.
func TestExactSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		day := testPartition(SpanDay)
		k := seriesKey{1, 1}
		var readers []*Reader
		var touched []map[int64]bool
		var written []samples
		for i := range rapid.IntRange(1, 4).Draw(t, "segments") {
			m := model{}
			from := rapid.Int64Range(0, 23).Draw(t, "from")
			for h := from; h < 24 && h < from+10; h += rapid.Int64Range(1, 4).Draw(t, "skip") {
				for range rapid.IntRange(1, 3).Draw(t, "samples") {
					m.put(k, day.StartMs+h*HourMs+rapid.Int64Range(0, HourMs-1).Draw(t, "at"), 1)
				}
			}
			rollups := rapid.Bool().Draw(t, "rollups")
			meta := m.write(t, Options{FS: fs, Dir: dir, Partition: day, SequenceLow: uint64(i), SequenceHigh: uint64(i), Rollups: rollups, BlockSamples: 1}, 10)
			readers, written = append(readers, openSegment(t, fs, dir, &meta)), append(written, m[k])
			hours := map[int64]bool{}
			for at := range m[k] {
				hours[floorTo(at, HourMs)] = true
			}
			touched = append(touched, hours)
		}
		defer release(t, readers...)
		fromMs := day.StartMs + rapid.Int64Range(0, DayMs).Draw(t, "fromMs")
		toMs := fromMs + rapid.Int64Range(0, DayMs).Draw(t, "toMs")
		var x ExactSpans
		cursors := make([]Cursor, len(readers))
		spans, err := x.Find(nil, readers, func(reader int) *Cursor { return &cursors[reader] }, 1, 1, fromMs, toMs, HourMs, func(m *Meta) bool { return m.Rollups })
		if err != nil {
			t.Fatal(err)
		}
		for hour := day.StartMs; hour < day.EndMs; hour += HourMs {
			want := -1
			for i := range touched {
				if touched[i][hour] {
					if want >= 0 {
						want = -2
					}
					if want == -1 {
						want = i
					}
				}
			}
			if want >= 0 && !readers[want].Meta().Rollups || hour < floorTo(fromMs, HourMs) || hour > toMs {
				want = -1
			}
			got := -1
			for _, s := range spans {
				if hour >= s.FromMs && hour < s.ToMs {
					if got != -1 {
						t.Fatalf("two spans for one hour: %+v", spans)
					}
					got = s.Reader
				}
			}
			if got != max(want, -1) {
				t.Fatalf("hour %d: reader %d, want %d of %+v", (hour-day.StartMs)/HourMs, got, want, spans)
			}
		}
		for _, s := range spans {
			count := int64(0)
			for at := range written[s.Reader] {
				if at >= s.FromMs && at < s.ToMs {
					count++
				}
			}
			if s.Samples != count && (s.Samples != SamplesUnknown || len(readers) == 1) {
				t.Fatalf("%d samples in %+v", count, s)
			}
		}
	})
}
