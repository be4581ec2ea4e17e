package page

import (
	"testing"

	"pgregory.net/rapid"
)

// TestLateTable plays random operations on the table and on a map.
func TestLateTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table lateTable
		model := map[uint32]int64{}
		id := rapid.OneOf(rapid.Uint32Range(0, 60), rapid.Uint32Range(0, 1<<31-1))
		for i := range rapid.IntRange(0, 300).Draw(t, "operations") {
			id := id.Draw(t, "id")
			place := table.find(id)
			if want, ok := model[id]; ok != (place != nil) || ok && place.TimeMs != want {
				t.Fatalf("series %d: %v, want %v %v", id, place, want, ok)
			}
			if place == nil {
				table.insert(id).TimeMs = int64(i)
				model[id] = int64(i)
			} else {
				table.remove(place)
				delete(model, id)
			}
		}
		for id, want := range model {
			if place := table.find(id); place == nil || place.TimeMs != want || place.key != id+1 {
				t.Fatalf("series %d: %v, want %d", id, place, want)
			}
		}
		if table.count != len(model) {
			t.Fatalf("%d places, want %d", table.count, len(model))
		}
	})
}
