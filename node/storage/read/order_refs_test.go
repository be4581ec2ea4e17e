package read

import (
	"cmp"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"pgregory.net/rapid"
)

// TestSortRefs compares with a plain sort, for few and many refs, in and out of the
// order of their ids.
func TestSortRefs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{1, 3, 128, 1 << 16}).Draw(t, "shards")
		inOrder := rapid.Bool().Draw(t, "in order")
		next := map[uint16]series.ID{}
		var refs []series.Ref
		for i := range rapid.IntRange(0, 400).Draw(t, "refs") {
			shard := uint16(rapid.IntRange(0, min(shards, 7)-1).Draw(t, "shard") * (shards - 1) / max(1, min(shards, 7)-1))
			id := next[shard]
			next[shard]++
			if !inOrder {
				id ^= 5
			}
			refs = append(refs, series.Ref{Hint: uint32(i), Shard: shard, ID: id})
		}
		want := slices.Clone(refs)
		slices.SortStableFunc(want, func(a, b series.Ref) int {
			return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.ID, b.ID))
		})
		if got := sortRefs(refs, shards); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
