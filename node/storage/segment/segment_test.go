package segment

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		partition := testPartition(rapid.SampledFrom([]Span{SpanTwoHours, SpanDay, SpanMonth}).Draw(t, "span"))
		want := drawModel(t, partition, 300)
		o := Options{
			FS: fs, Dir: dir, Partition: partition, Level: 3, SequenceLow: 7, SequenceHigh: 9,
			BlockSamples: rapid.SampledFrom([]int{0, 1, 2, 5, 64}).Draw(t, "block"),
			Dense:        rapid.Bool().Draw(t, "dense"), Rollups: rapid.Bool().Draw(t, "rollups"),
		}
		meta := want.write(t, o, rapid.SampledFrom([]int{1, 3, 64, 1000}).Draw(t, "chunk"))
		r := openSegment(t, fs, dir, &meta)
		defer release(t, r)
		if *r.Meta() != meta {
			t.Fatalf("meta %+v of the file, %+v of the writer", r.Meta(), meta)
		}
		got, err := readModel(r)
		if err != nil {
			t.Fatal(err)
		}
		equalModels(t, got, want)
		if err := r.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		checkInfos(t, r, want)
		checkRanges(t, r, want)
	})
}

// checkInfos compares the sums that a segment has with the model's.
func checkInfos(t fatal, r *Reader, want model) {
	t.Helper()
	infos := r.Shards()
	var series, total int64
	for _, info := range infos {
		if info.Digest != want.digest(info.Shard) {
			t.Fatalf("digest of shard %d", info.Shard)
		}
		series += info.Series
		total += info.Samples
	}
	if series != int64(len(want)) || total != want.samples() || r.Meta().Samples != total || r.Meta().Series != series {
		t.Fatalf("%d series and %d samples, want %d and %d", series, total, len(want), want.samples())
	}
}

// checkRanges asks for random ranges of series, also of ones that are not there.
func checkRanges(t *rapid.T, r *Reader, want model) {
	keys := append(want.keys(), seriesKey{3, 3}, seriesKey{0, 41})
	for range 10 {
		k := rapid.SampledFrom(keys).Draw(t, "key")
		width := r.Meta().EndMs - r.Meta().StartMs
		from := r.Meta().StartMs + rapid.Int64Range(-width/8, width).Draw(t, "from")
		to := from + rapid.Int64Range(-1, width/2).Draw(t, "width")
		got, err := readSeries(r, k, from, to)
		if err != nil {
			t.Fatal(err)
		}
		if c := want[k].columns(from, to); !slices.Equal(got.times(), c.Times) {
			t.Fatalf("series %v from %d to %d: %v instead of %v", k, from, to, got.times(), c.Times)
		}
	}
}

// One series with more blocks than an index entry, and than a page, takes; many
// small ones around it.
func TestLongSeriesAmongManySmall(t *testing.T) {
	fs, dir := memFS(t)
	partition := testPartition(SpanMonth)
	want := model{}
	for id := range uint32(3000) {
		want.put(seriesKey{1, id * 3}, partition.StartMs+int64(id), float64(id))
	}
	long := seriesKey{1, 3001}
	for i := range int64(20000) {
		want.put(long, partition.StartMs+i*100_003, float64(i)/10)
	}
	want.put(seriesKey{2, 0}, partition.EndMs-1, 1)
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: partition, BlockSamples: 3, Rollups: true}, 1<<20)
	r := openSegment(t, fs, dir, &meta)
	defer release(t, r)
	got, err := readModel(r)
	if err != nil {
		t.Fatal(err)
	}
	equalModels(t, got, want)
	if err := r.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := int64(0); i < 20000; i += 777 {
		at := partition.StartMs + i*100_003
		s, err := readSeries(r, long, at, at)
		if err != nil || len(s) != 1 {
			t.Fatalf("sample %d: %v, %v", i, s, err)
		}
	}
	var c Cursor
	if err := r.Find(&c, 1, 3002, math.MinInt64, math.MaxInt64); err != nil || c.Next() {
		t.Fatalf("a series that is not there: %v", err)
	}
	rollups, err := r.Rollups(nil, 1, 3001, math.MinInt64, math.MaxInt64, HourMs)
	if err != nil {
		t.Fatal(err)
	}
	checkRollups(t, rollups, want[long], HourMs)
}

func TestOrderIsRefused(t *testing.T) {
	fs, dir := memFS(t)
	p := testPartition(SpanTwoHours)
	w, err := Create(Options{FS: fs, Dir: dir, Partition: p})
	if err != nil {
		t.Fatal(err)
	}
	at := func(times ...int64) *codec.Columns {
		c := &codec.Columns{Times: times, Mantissas: make([]int64, len(times)), Scales: make([]uint8, len(times))}
		for i := range c.Times {
			c.Times[i] += p.StartMs
		}
		return c
	}
	if err := w.Add(5, 5, at(5, 6)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		shard uint16
		id    uint32
		c     *codec.Columns
	}{
		{4, 9, at(9)}, {5, 4, at(9)}, {5, 5, at(6)}, {5, 5, at(8, 8)}, {5, 6, at(9, 8)},
		{5, 6, at(-1)}, {5, 6, at(2 * HourMs)}, {6, 0, &codec.Columns{Times: []int64{p.StartMs}}},
	} {
		if err := w.Add(bad.shard, bad.id, bad.c); !errors.Is(err, ErrOrder) {
			t.Fatalf("%+v: %v", bad, err)
		}
	}
	if err := w.Add(5, 5, at(7)); err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	meta, err := w.Finish()
	if err != nil || meta.Samples != 3 {
		t.Fatalf("%+v, %v", meta, err)
	}
	if err := w.Add(9, 9, at(9)); err == nil {
		t.Fatal("a finished writer takes samples")
	}
}

// TestYields: who writes or merges a segment yields after each block, whether blocks are encoded or copied.
func TestYields(t *testing.T) {
	fs, dir := memFS(t)
	partition := testPartition(SpanTwoHours)
	yields := 0
	o := Options{FS: fs, Dir: dir, Partition: partition, BlockSamples: 2, Yield: func() { yields++ }}
	var inputs []*Reader
	for sequence := range uint64(2) {
		want := model{}
		for i := range int64(8) {
			want.put(seriesKey{1, uint32(sequence)}, partition.StartMs+i, float64(i))
		}
		o.SequenceLow, o.SequenceHigh, yields = sequence, sequence, 0
		meta := want.write(t, o, 1<<20)
		if yields != 4 {
			t.Errorf("%d yields of 4 blocks", yields)
		}
		r := openSegment(t, fs, dir, &meta)
		defer release(t, r)
		inputs = append(inputs, r)
	}
	o.Level, yields = 1, 0
	if _, err := Merge(t.Context(), inputs, MergeOptions{Options: o}); err != nil || yields != 8 {
		t.Errorf("%d yields of 8 blocks, %v", yields, err)
	}
}

func TestEmptyAndAborted(t *testing.T) {
	mem, dir := memFS(t)
	o := Options{FS: mem, Dir: dir, Partition: testPartition(SpanTwoHours)}
	w, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !errors.Is(err, ErrEmpty) {
		t.Fatal(err)
	}
	w, err = Create(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if names, err := mem.List(dir); err != nil || len(names) != 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, bad := range []Options{
		{Partition: Partition{5, 5}},
		{Partition: o.Partition, BlockSamples: codec.BlockSamplesMax + 1},
		{Partition: o.Partition, SequenceLow: 2, SequenceHigh: 1},
	} {
		bad.FS, bad.Dir = mem, dir
		if _, err := Create(bad); !errors.Is(err, ErrOptions) {
			t.Fatalf("%+v: %v", bad, err)
		}
	}
}

func TestReferencesAndDrop(t *testing.T) {
	mem, dir := memFS(t)
	m := walkModel(1, 1, 10, testPartition(SpanTwoHours), 1000)
	meta := m.write(t, Options{FS: mem, Dir: dir, Partition: testPartition(SpanTwoHours)}, 10)
	r := openSegment(t, mem, dir, &meta)
	if !r.Acquire() {
		t.Fatal("no reference")
	}
	r.Drop()
	release(t, r)
	if _, err := readModel(r); err != nil {
		t.Fatalf("while a reader holds it: %v", err)
	}
	release(t, r)
	if r.Acquire() {
		t.Fatal("a reference after the last")
	}
	if _, err := mem.Stat(path.Join(dir, meta.Name)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the dropped file: %v", err)
	}
}

func TestExportShard(t *testing.T) {
	mem, dir := memFS(t)
	want := walkModel(3, 20, 100, testPartition(SpanDay), 1000)
	meta := want.write(t, Options{FS: mem, Dir: dir, Partition: testPartition(SpanDay), BlockSamples: 16, Rollups: true}, 33)
	r := openSegment(t, mem, dir, &meta)
	defer release(t, r)
	var out bytes.Buffer
	part, err := r.ExportShard(context.Background(), &out, 1)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, mem, path.Join(dir, "part.seg"), out.Bytes())
	part.Name = "part.seg"
	p := openSegment(t, mem, dir, &part)
	defer release(t, p)
	if *p.Meta() != part {
		t.Fatalf("%+v, %+v", p.Meta(), part)
	}
	if err := p.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(want, func(k seriesKey, _ samples) bool { return k.shard != 1 })
	got, err := readModel(p)
	if err != nil {
		t.Fatal(err)
	}
	equalModels(t, got, want)
	if _, err := r.ExportShard(context.Background(), &out, 9); !errors.Is(err, ErrEmpty) {
		t.Fatal(err)
	}
	file, err := r.ShardFile(1)
	if err != nil {
		t.Fatal(err)
	}
	whole := out.Bytes()
	for range 200 {
		from := rand.IntN(len(whole))
		b := make([]byte, 1+rand.IntN(len(whole)))
		n, err := file.ReadAt(b, int64(from))
		if want := min(len(b), len(whole)-from); n != want || (err != nil) != (n < len(b)) || !bytes.Equal(b[:n], whole[from:from+n]) {
			t.Fatalf("%d bytes from %d on: %d, %v", len(b), from, n, err)
		}
	}
}

func TestRenumber(t *testing.T) {
	mem, dir := memFS(t)
	want := walkModel(3, 20, 100, testPartition(SpanDay), 1000)
	meta := want.write(t, Options{FS: mem, Dir: dir, Partition: testPartition(SpanDay), SequenceLow: 3, SequenceHigh: 9}, 33)
	const sequence = 1<<40 + 7
	got, err := Renumber(mem, path.Join(dir, meta.Name), sequence)
	if err != nil {
		t.Fatal(err)
	}
	meta.SequenceLow, meta.SequenceHigh = sequence, sequence
	if name := FileName(&meta); got.Name != name {
		t.Errorf("it should have the name %s, not %s", got.Name, name)
	}
	if err := mem.Rename(path.Join(dir, meta.Name), path.Join(dir, got.Name)); err != nil {
		t.Fatal(err)
	}
	meta.Name = got.Name
	r := openSegment(t, mem, dir, &got)
	defer release(t, r)
	if got != meta || *r.Meta() != meta {
		t.Errorf("%+v, %+v, want %+v", got, r.Meta(), meta)
	}
	if err := r.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	writeFile(t, mem, path.Join(dir, "short"), []byte("short"))
	writeFile(t, mem, path.Join(dir, "other"), bytes.Repeat([]byte{7}, 1000))
	for _, name := range []string{"short", "other"} {
		var corrupt *CorruptError
		if _, err := Renumber(mem, path.Join(dir, name), 1); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPartitionOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(math.MinInt64/4, math.MaxInt64/4).Draw(t, "time")
		wider := Partition{math.MinInt64, math.MaxInt64}
		for _, span := range []Span{SpanMonth, SpanDay, SpanTwoHours} {
			p := PartitionOf(at, span)
			if !p.Has(at) || !wider.Covers(p) || PartitionOf(p.StartMs, span) != p || PartitionOf(p.EndMs-1, span) != p || PartitionOf(p.EndMs, span) == p {
				t.Fatalf("%d: %+v within %+v", at, p, wider)
			}
			wider = p
		}
	})
}
