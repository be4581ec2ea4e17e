package opentsdb

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/router/query/admission"
)

// TestUnion compares the times of members with a set, and parts of them with each other.
func TestUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sorted := rapid.Custom(func(t *rapid.T) []int64 {
			times := rapid.SliceOfNDistinct(rapid.Int64Range(0, 12), 0, 12, rapid.ID).Draw(t, "times")
			slices.Sort(times)
			return times
		})
		var members []column
		set := map[int64]bool{}
		for range rapid.IntRange(1, 9).Draw(t, "members") {
			times := sorted.Draw(t, "member")
			if len(members) > 0 && rapid.Bool().Draw(t, "like the one before") {
				times = members[len(members)-1].times
			}
			members = append(members, column{times: times})
			for _, at := range times {
				set[at] = true
			}
		}
		ctx := t.Context()
		m := merger{ctx: ctx, entry: admission.Of(ctx)}
		times, _, err := m.union(members)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(times) || len(times) != len(set) {
			t.Fatalf("%v of %v", times, set)
		}
		for _, at := range times {
			if !set[at] {
				t.Fatalf("%d is no time of a member", at)
			}
		}
		for i := range members {
			for j := range members {
				a, b := members[i].times, members[j].times
				all := !slices.ContainsFunc(b, func(at int64) bool { return !slices.Contains(a, at) })
				if hasTimes(a, b) != all {
					t.Fatalf("%v has %v: %v", a, b, !all)
				}
			}
		}
	})
}
