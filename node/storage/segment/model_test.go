package segment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"pgregory.net/rapid"
)

// The model: what segments should hold, as plain maps.
type (
	seriesKey struct {
		shard uint16
		id    uint32
	}
	samples map[int64]uint64 // time → float64 bits
	model   map[seriesKey]samples
)

func (m model) keys() []seriesKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.id, b.id))
	})
}

func (m model) put(k seriesKey, timeMs int64, v float64) {
	if m[k] == nil {
		m[k] = samples{}
	}
	m[k][timeMs] = math.Float64bits(v)
}

func (s samples) put(timeMs int64, v float64) { s[timeMs] = math.Float64bits(v) }

func (s samples) times() []int64 { return slices.Sorted(maps.Keys(s)) }

// columns returns the samples in [from, to], sorted.
func (s samples) columns(from, to int64) *codec.Columns {
	c := &codec.Columns{}
	for _, t := range s.times() {
		if t >= from && t <= to {
			c.Append(t, series.DecimalOf(math.Float64frombits(s[t]), 0))
		}
	}
	return c
}

func (m model) samples() (n int64) {
	for _, s := range m {
		n += int64(len(s))
	}
	return n
}

func (m model) digest(shard uint16) (sum uint64) {
	for k, s := range m {
		if k.shard == shard {
			for t, v := range s {
				sum += sampleHash(k.id, t, math.Float64frombits(v))
			}
		}
	}
	return sum
}

// fatal is what both testing.TB and *rapid.T have.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// write makes a segment of the model, adding at most chunk samples at once.
func (m model) write(t fatal, o Options, chunk int) Meta {
	t.Helper()
	w, err := Create(o)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	for _, k := range m.keys() {
		c := m[k].columns(math.MinInt64, math.MaxInt64)
		for from := 0; from < c.Len(); from += chunk {
			part := columnsBetween(c, from, min(from+chunk, c.Len()))
			if err := w.Add(k.shard, k.id, &part); err != nil {
				t.Fatalf("add: %v", err)
			}
		}
	}
	meta, err := w.Finish()
	if err != nil {
		t.Fatalf("finish: %v", err)
	}
	return meta
}

func openSegment(t fatal, fs vfs.FS, dir string, meta *Meta) *Reader {
	t.Helper()
	r, err := Open(fs, path.Join(dir, meta.Name))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return r
}

// readSeries returns the samples of a series in a range of time.
func readSeries(r *Reader, k seriesKey, from, to int64) (samples, error) {
	var c Cursor
	if err := r.Find(&c, k.shard, k.id, from, to); err != nil {
		return nil, err
	}
	got := samples{}
	last := int64(math.MinInt64)
	for c.Next() {
		var p codec.Points
		var columns codec.Columns
		if err := c.Points(&codec.BlockReader{}, &p); err != nil {
			return nil, err
		}
		if err := c.Columns(&codec.BlockReader{}, &columns); err != nil {
			return nil, err
		}
		b := c.Block()
		if n := columns.Len(); n != b.Samples || columns.Times[0] != b.MinMs || columns.Times[n-1] != b.MaxMs || b.MaxMs < from || b.MinMs > to {
			return nil, fmt.Errorf("block %+v does not fit its %d samples and the range %d to %d", b, n, from, to)
		}
		for i, t := range columns.Times {
			if t <= last {
				return nil, fmt.Errorf("sample %d of a block: time %d after %d", i, t, last)
			}
			last = t
			if t < from || t > to {
				continue
			}
			v := math.Float64bits(series.Float64(columns.Mantissas[i], columns.Scales[i]))
			if p.Len() == 0 || p.Times[0] != t || math.Float64bits(p.Values[0]) != v {
				return nil, fmt.Errorf("sample %d of a block, of time %d, has another value as a point, or none", i, t)
			}
			p.Times, p.Values = p.Times[1:], p.Values[1:]
			got[t] = v
		}
		if p.Len() > 0 {
			return nil, fmt.Errorf("%d points beyond the range %d to %d", p.Len(), from, to)
		}
	}
	return got, c.Err()
}

// readModel reads all segments, later ones over earlier ones.
func readModel(readers ...*Reader) (model, error) {
	got := model{}
	for _, r := range readers {
		err := r.EachSeriesAll(func(info SeriesInfo) error {
			k := seriesKey{info.Shard, info.ID}
			s, err := readSeries(r, k, math.MinInt64, math.MaxInt64)
			if err != nil {
				return err
			}
			times := s.times()
			if int64(len(s)) != info.Samples || times[0] != info.MinMs || times[len(times)-1] != info.MaxMs {
				return fmt.Errorf("%+v does not fit %d samples", info, len(s))
			}
			if got[k] == nil {
				got[k] = samples{}
			}
			maps.Copy(got[k], s)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func equalModels(t fatal, got, want model) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d series instead of %d", len(got), len(want))
	}
	for k, s := range want {
		if !maps.Equal(got[k], s) {
			t.Fatalf("series %v: got %v, want %v", k, got[k], s)
		}
	}
}

func release(t fatal, readers ...*Reader) {
	t.Helper()
	for _, r := range readers {
		if err := r.Release(); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
}

// Generators.

func genValue() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-100000, 100000), func(n int) float64 { return float64(n) / 100 }),
		rapid.Map(rapid.IntRange(0, 9), func(n int) float64 { return float64(n) }),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.Float64frombits(0x7ff8dead0000beef), 5e-324, math.MaxFloat64, 1 << 53}),
		rapid.Map(rapid.Uint64(), math.Float64frombits),
	)
}

// drawModel makes a few series with samples in the partition; some have many.
func drawModel(t *rapid.T, partition Partition, samplesMax int) model {
	m := model{}
	for range rapid.IntRange(1, 8).Draw(t, "series") {
		k := seriesKey{
			uint16(rapid.SampledFrom([]int{0, 1, 2, 70, 65535}).Draw(t, "shard")),
			rapid.OneOf(rapid.Uint32Range(0, 40), rapid.SampledFrom([]uint32{1 << 20, math.MaxUint32})).Draw(t, "id"),
		}
		stepMs := rapid.SampledFrom([]int64{1, 7, 1000, 10000, 60000, 17 * 60000}).Draw(t, "step")
		at := partition.StartMs + rapid.Int64Range(0, partition.EndMs-partition.StartMs-1).Draw(t, "start")
		values := genValue()
		for range rapid.IntRange(1, samplesMax).Draw(t, "samples") {
			if at >= partition.EndMs {
				break
			}
			m.put(k, at, values.Draw(t, "value"))
			at += stepMs * rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 90}).Draw(t, "gap")
		}
	}
	return m
}

const dayStart = int64(1_750_032_000_000) // 2025-06-16, UTC

func testPartition(span Span) Partition { return PartitionOf(dayStart, span) }

// walkModel is the same realistic data every time: series with a value of two
// decimals every stepMs.
func walkModel(shards, series, samplesEach int, partition Partition, stepMs int64) model {
	m := model{}
	state := uint64(1)
	for shard := range shards {
		for id := range series {
			k := seriesKey{uint16(shard), uint32(id)}
			v := 100 * (id + 1)
			for i := range samplesEach {
				state = state*6364136223846793005 + 1442695040888963407
				v += int(state>>33)%21 - 10
				m.put(k, partition.StartMs+int64(i)*stepMs, float64(v)/100)
			}
		}
	}
	return m
}

func memFS(t testing.TB) (*vfs.MemFS, string) {
	fs := vfs.NewMemFS()
	if err := fs.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	return fs, "/data"
}
