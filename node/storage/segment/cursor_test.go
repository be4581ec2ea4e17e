package segment

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// TestCursorUsedAgain: a Cursor that goes from series to series, in any order and
// through several segments, returns what the model has.
func TestCursorUsedAgain(t *testing.T) {
	fs, dir := memFS(t)
	day := testPartition(SpanDay)
	var models []model
	var readers []*Reader
	for i := range 2 {
		m := walkModel(2, 5+300*i, 12, day, 1000)
		for k := range m { // leave some out, and let some fill pages of the index
			switch (k.id + uint32(i)) % 7 {
			case 3:
				delete(m, k)
			case 5:
				if k.id > 20 {
					break
				}
				for at := range int64(3000) {
					m.put(k, day.StartMs+at*1000, float64(at))
				}
			}
		}
		meta := m.write(t, Options{FS: fs, Dir: dir, Partition: day, BlockSamples: 2, SequenceLow: uint64(i), SequenceHigh: uint64(i)}, 5000)
		readers = append(readers, openSegment(t, fs, dir, &meta))
		models = append(models, m)
	}
	defer release(t, readers...)
	rapid.Check(t, func(t *rapid.T) {
		var c Cursor
		which, k := 0, seriesKey{}
		for range rapid.IntRange(1, 60).Draw(t, "finds") {
			switch rapid.IntRange(0, 9).Draw(t, "move") {
			case 0:
				which = rapid.IntRange(0, 1).Draw(t, "segment")
			case 1:
				k.shard = rapid.Uint16Range(0, 2).Draw(t, "shard")
			case 2:
				k.id = rapid.Uint32Range(0, 310).Draw(t, "id")
			case 3:
				k.id += rapid.Uint32Range(0, 40).Draw(t, "step")
			default:
				k.id++
			}
			from := day.StartMs + rapid.Int64Range(-1, 3000).Draw(t, "from")*1000
			to := from + rapid.SampledFrom([]int64{0, 999, 5000, 4_000_000}).Draw(t, "width")
			if err := readers[which].Find(&c, k.shard, k.id, from, to); err != nil {
				t.Fatal(err)
			}
			got := samples{}
			whole := true
			for c.Next() {
				if whole = rapid.IntRange(0, 300).Draw(t, "leave") != 0; !whole {
					break
				}
				var points codec.Points
				if err := c.Points(&codec.BlockReader{}, &points); err != nil {
					t.Fatal(err)
				}
				for i, at := range points.Times {
					if at >= from && at <= to {
						got.put(at, points.Values[i])
					}
				}
			}
			want := samples{}
			for at, v := range models[which][k] {
				if at >= from && at <= to {
					want[at] = v
				}
			}
			if c.Err() != nil || whole && !maps.Equal(got, want) {
				t.Fatalf("series %v of segment %d from %d to %d: %v, got %v, want %v",
					k, which, from, to, c.Err(), slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
		}
	})
}
