package segment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// shape returns samples of one of four realistic kinds: a random walk with two
// decimals, an integer counter, a sine with two decimals, a step that rarely
// changes; every ten seconds.
func shape(dst *codec.Columns, id uint32, startMs int64, n int) {
	const stepMs = 10_000
	random := rand.New(rand.NewPCG(uint64(id), uint64(startMs)))
	dst.Reset()
	walk, counter := int64(10_000), int64(id)*1000
	phase := int64(random.IntN(stepMs))
	for i := range n {
		at := startMs + phase + int64(i)*stepMs
		var m int64
		scale := uint8(2)
		switch id % 4 {
		case 0:
			walk += int64(random.IntN(41)) - 20
			m = walk
		case 1:
			counter += int64(random.IntN(100))
			m, scale = counter, 0
		case 2:
			m = int64(math.Round(5000 * math.Sin(float64(at)/3.6e6)))
		case 3:
			m, scale = at/(20*HourMs), 0
		}
		dst.Times = append(dst.Times, at)
		dst.Mantissas = append(dst.Mantissas, m)
		dst.Scales = append(dst.Scales, scale)
	}
}

// benchFile writes a segment of realistic series to a temporary folder.
func benchFile(b *testing.B, o Options, shards, seriesEach, samplesEach int) (Options, Meta) {
	b.Helper()
	o.FS = vfs.OS()
	if o.Dir == "" {
		o.Dir = b.TempDir()
	}
	w, err := Create(o)
	if err != nil {
		b.Fatal(err)
	}
	var c codec.Columns
	for shard := range shards {
		for id := range seriesEach {
			if id < 64 || samplesEach > 16 {
				shape(&c, uint32(id), o.StartMs, samplesEach)
			}
			if err := w.Add(uint16(shard), uint32(id), &c); err != nil {
				b.Fatal(err)
			}
		}
	}
	meta, err := w.Finish()
	if err != nil {
		b.Fatal(err)
	}
	return o, meta
}

func benchOpen(b *testing.B, o Options, meta Meta) *Reader {
	b.Helper()
	r, err := Open(o.FS, path.Join(o.Dir, meta.Name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Release() })
	return r
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"plain", Options{Partition: testPartition(SpanDay)}},
		{"rollups", Options{Partition: testPartition(SpanDay), Rollups: true}},
		{"dense", Options{Partition: testPartition(SpanDay), Rollups: true, Dense: true, BlockSamples: DenseBlockSamples}},
	} {
		b.Run(c.name, func(b *testing.B) {
			const series, each = 512, 8640
			columns := make([]codec.Columns, 16)
			for i := range columns {
				shape(&columns[i], uint32(i), c.o.StartMs, each-1)
			}
			o := c.o
			o.FS, o.Dir = vfs.OS(), b.TempDir()
			var meta Meta
			for b.Loop() {
				w, err := Create(o)
				if err != nil {
					b.Fatal(err)
				}
				for id := range series {
					if err := w.Add(0, uint32(id), &columns[id%16]); err != nil {
						b.Fatal(err)
					}
				}
				if meta, err = w.Finish(); err != nil {
					b.Fatal(err)
				}
			}
			reportSamples(b, meta.Samples)
			b.ReportMetric(float64(meta.Bytes)/float64(meta.Samples), "B/sample")
		})
	}
}

func reportSamples(b *testing.B, each int64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(each), "ns/sample")
}

func BenchmarkMerge(b *testing.B) {
	day := testPartition(SpanDay)
	for _, c := range []struct {
		name         string
		each         int
		blockSamples int
		rollups      bool
	}{
		{"reencode", 720, codec.BlockSamples, false},
		{"reencode+rollups", 720, codec.BlockSamples, true},
		{"copy", 720, 720, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := Options{Dir: b.TempDir(), FS: vfs.OS(), BlockSamples: c.blockSamples}
			var readers []*Reader
			var samples int64
			for i := range int64(12) {
				o.Partition = PartitionOf(day.StartMs+i*2*HourMs, SpanTwoHours)
				o.SequenceLow, o.SequenceHigh = uint64(i), uint64(i)
				_, meta := benchFile(b, o, 4, 128, c.each-1)
				readers = append(readers, benchOpen(b, o, meta))
				samples += meta.Samples
			}
			o.Partition, o.Rollups, o.Level = day, c.rollups, 1
			if c.name == "copy" {
				o.BlockSamples = c.each - 1
			}
			for b.Loop() {
				if _, err := Merge(context.Background(), readers, MergeOptions{Options: o}); err != nil {
					b.Fatal(err)
				}
			}
			reportSamples(b, samples)
		})
	}
}

// BenchmarkOpen opens a segment of a million series.
func BenchmarkOpen(b *testing.B) {
	o, meta := benchFile(b, Options{Partition: testPartition(SpanTwoHours)}, 64, 1<<20/64, 6)
	for b.Loop() {
		r, err := Open(o.FS, path.Join(o.Dir, meta.Name))
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Release(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(meta.Series), "series")
}

// BenchmarkFind looks up series of a million at random.
func BenchmarkFind(b *testing.B) {
	o, meta := benchFile(b, Options{Partition: testPartition(SpanTwoHours)}, 64, 1<<20/64, 6)
	r := benchOpen(b, o, meta)
	random := rand.New(rand.NewPCG(1, 1))
	var c Cursor
	for b.Loop() {
		n := random.Uint32N(1 << 20)
		if err := r.Find(&c, uint16(n%64), n/64, o.StartMs, o.EndMs); err != nil {
			b.Fatal(err)
		}
		if !c.Next() {
			b.Fatal("not found")
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for _, dense := range []bool{false, true} {
		b.Run(fmt.Sprintf("dense=%v", dense), func(b *testing.B) {
			o := Options{Partition: testPartition(SpanDay), Dense: dense}
			if dense {
				o.BlockSamples = DenseBlockSamples
			}
			o, meta := benchFile(b, o, 4, 64, 8639)
			r := benchOpen(b, o, meta)
			var c Cursor
			var decoder codec.BlockReader
			var points codec.Points
			for b.Loop() {
				for shard := range uint16(4) {
					for id := range uint32(64) {
						if err := r.Find(&c, shard, id, o.StartMs, o.EndMs); err != nil {
							b.Fatal(err)
						}
						for c.Next() {
							points.Reset()
							if err := c.Points(&decoder, &points); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
			}
			reportSamples(b, meta.Samples)
		})
	}
}

func BenchmarkRollups(b *testing.B) {
	o, meta := benchFile(b, Options{Partition: testPartition(SpanMonth), Rollups: true}, 1, 16, 30*8640-1)
	r := benchOpen(b, o, meta)
	var got []Rollup
	var err error
	n := 0
	for b.Loop() {
		n++
		if got, err = r.Rollups(got[:0], 0, uint32(n%16), o.StartMs, o.EndMs, HourMs); err != nil || len(got) < 700 {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(got)), "ns/hour")
	b.ReportMetric(float64(rollupBytes(b, r))/16/float64(len(got)), "B/hour")
}

// rollupBytes returns the size of all rollup pages.
func rollupBytes(b *testing.B, r *Reader) (bytes int64) {
	err := r.mapping.Guard(func(mapped []byte) error {
		s, _, err := r.section(mapped, 0)
		for n := range s.pages(pageRollup).len() {
			bytes += int64(s.pages(pageRollup).at(n).length)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}

// TestIndexSize holds the index to 4 % of the data at twenty blocks each.
func TestIndexSize(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(Options{FS: vfs.OS(), Dir: dir, Partition: testPartition(SpanMonth)})
	if err != nil {
		t.Fatal(err)
	}
	var c codec.Columns
	for id := range uint32(60) {
		shape(&c, id, w.meta.StartMs, 20*codec.BlockSamples)
		if err := w.Add(0, id, &c); err != nil {
			t.Fatal(err)
		}
	}
	meta, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := openSegment(t, vfs.OS(), dir, &meta)
	defer release(t, r)
	var walk walker
	walk.start(r, 0, 1)
	blocks := int64(0)
	for walk.next() == nil && !walk.done {
		blocks += int64(walk.block().length)
	}
	share := float64(meta.Bytes-blocks) / float64(meta.Bytes)
	t.Logf("%.3f B/sample, %.2f %% of it index", float64(meta.Bytes)/float64(meta.Samples), share*100)
	if share > 0.04 {
		t.Errorf("%.2f %% is index", share*100)
	}
}
