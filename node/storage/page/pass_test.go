package page

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSealThroughMissesNone: out-of-order pages that other seals move within their
// table while a pass is under way are sealed by it all the same. A page that it
// missed would be lost with the log files that the caller gives up then.
func TestSealThroughMissesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := NewSet(Options{Sealer: &fakeLog{}})
		series := rapid.Uint32Range(8, 200).Draw(t, "series")
		for id := range series {
			for _, timeMs := range []int64{2000, 1000} {
				if err := set.Append(id, timeMs, 1, 0, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		for calls := 0; ; calls++ {
			done, err := set.SealThrough(0, 1)
			if err != nil || calls > 10_000 {
				t.Fatal(calls, err)
			}
			if done {
				break
			}
			for range rapid.IntRange(0, 8).Draw(t, "between") {
				id := rapid.Uint32Range(0, series-1).Draw(t, "id")
				if rapid.Bool().Draw(t, "seal") {
					if err := set.SealSeries(id); err != nil {
						t.Fatal(err)
					}
				} else if err := set.Append(id, 500, 1, 0, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		for id := range series {
			if l := set.late.find(id); l != nil && !after(l.Tag, 0) {
				t.Fatalf("the late page of series %d was missed", id)
			}
			if h := set.known(id); !h.slot.empty() && !after(h.Tag, 0) {
				t.Fatalf("the page of series %d was missed", id)
			}
		}
	})
}
