package slab

import "testing"

// Slices do not overlap, have the length that was asked for and no room behind it, and what
// was held for them is told.
func TestTake(t *testing.T) {
	var s Slab[int]
	var all [][]int
	taken, held := 0, 0
	for i := range 3000 {
		n := i * 7 % 900
		if i%500 == 499 {
			n = 3 * elementsMax
		}
		slice, grown := s.Take(n)
		if len(slice) != n || cap(slice) != n {
			t.Fatalf("%d of %d elements, asked for %d", len(slice), cap(slice), n)
		}
		for j := range slice {
			slice[j] = i
		}
		all, taken, held = append(all, slice), taken+n, held+grown
	}
	for i, slice := range all {
		for _, v := range slice {
			if v != i {
				t.Fatalf("slice %d has what was put into slice %d", i, v)
			}
		}
	}
	if held < taken {
		t.Fatalf("%d elements are held for %d", held, taken)
	}
}
