package manifest

import (
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
	"pgregory.net/rapid"
)

// TestTombstonesAgreeWithAList keeps tombstones in a plain list.
func TestTombstonesAgreeWithAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ts Tombstones
		var list []Tombstone
		for n := range rapid.IntRange(0, 30).Draw(t, "count") {
			ids := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Uint32Range(0, 5), 1, 4).Draw(t, "ids"))))
			s := Tombstone{
				Shard: rapid.Uint16Range(0, 4).Draw(t, "shard"), IDs: ids, FromMs: rapid.Int64Range(-9, 9).Draw(t, "from"), ToMs: 5,
				Generation: rapid.Uint32Range(1, 6).Draw(t, "generation"), Sequence: rapid.Uint64Range(1, 6).Draw(t, "sequence"), Offset: rapid.Uint32Range(0, 9).Draw(t, "offset"),
				Number: uint64(n + 1), Entry: rapid.Uint64Range(1, 12).Draw(t, "entry"),
			}
			before := slices.Clone(ts)
			next := ts.with(s)
			if !slices.EqualFunc(ts, before, func(a, b Tombstone) bool { return a.Number == b.Number }) {
				t.Fatal("a version was changed")
			}
			ts = next
			list = slices.DeleteFunc(list, func(o Tombstone) bool { return o.Shard == s.Shard && o.Entry == s.Entry && o.FromMs == s.FromMs })
			list = append(list, s)
		}
		checkSelection(t, ts, list)
		checkNeeded(t, ts, list)
	})
}

func checkSelection(t *rapid.T, ts Tombstones, list []Tombstone) {
	for shard := range uint16(6) {
		for id := range uint32(7) {
			var want, got []uint64
			for _, s := range list {
				if s.Shard == shard && slices.Contains(s.IDs, id) {
					want = append(want, s.Number)
				}
			}
			of := ts.Of(shard, id)
			for _, s := range of {
				got = append(got, s.Number)
			}
			if !slices.Equal(want, got) {
				t.Fatalf("series %d of shard %d: %v, want %v", id, shard, got, want)
			}
			for generation := range uint32(8) {
				inPage, inSegment := 0, 0
				for _, s := range of {
					if generation < s.Generation || generation == s.Generation && 4 < s.Offset {
						inPage++
					}
					if uint64(generation) < s.Sequence {
						inSegment++
					}
				}
				if len(HiddenInPage(of, generation, 4)) != inPage || len(HiddenInSegment(of, uint64(generation))) != inSegment {
					t.Fatalf("generation %d of %+v", generation, of)
				}
			}
		}
	}
}

func checkNeeded(t *rapid.T, ts Tombstones, list []Tombstone) {
	purged := map[string]uint64{}
	var segments []segment.Meta
	for _, name := range []string{"a", "b", "c"} {
		m := segment.Meta{Name: name, SequenceLow: rapid.Uint64Range(1, 6).Draw(t, "low")}
		m.MinMs = rapid.Int64Range(-10, 10).Draw(t, "min")
		m.MaxMs = m.MinMs + rapid.Int64Range(0, 5).Draw(t, "length")
		m.ShardHigh = rapid.Uint16Range(0, 4).Draw(t, "high")
		segments = append(segments, m)
		purged[name] = rapid.Uint64Range(0, 30).Draw(t, "purged")
	}
	oldest := rapid.Uint32Range(1, 8).Draw(t, "oldest")
	kept := map[uint64]bool{}
	coming := awaited{
		comes: rapid.Bool().Draw(t, "repair"), shard: rapid.Uint16Range(0, 4).Draw(t, "shard"), after: rapid.Uint64Range(0, 30).Draw(t, "after"),
	}
	for _, s := range ts.needed(segments, purged, oldest, coming) {
		kept[s.Number] = true
	}
	for _, s := range list {
		want := s.Generation >= oldest || coming.comes && s.Shard == coming.shard && s.Number > coming.after
		for _, m := range segments {
			overlaps := m.MinMs <= s.ToMs && s.FromMs <= m.MaxMs && s.Shard <= m.ShardHigh
			want = want || overlaps && m.SequenceLow < s.Sequence && s.Number > purged[m.Name]
		}
		if kept[s.Number] != want {
			t.Fatalf("%+v is kept: %v", s, kept[s.Number])
		}
	}
}
