package compact

import (
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// TestTombstoneAges: a tombstone is due within a day of the look that found it first, and not
// before purgeAfterMs without a start or a clock that went back.
func TestTombstoneAges(t *testing.T) {
	var a tombstoneAges
	nowMs := int64(1_700_000_000_000)
	if due := a.due(5, nowMs); due != 5 {
		t.Fatalf("those of before a start are due up to %d", due)
	}
	made := map[uint64]int64{}
	last := uint64(5)
	for range 2000 {
		nowMs += segment.HourMs / 4
		last++
		made[last] = nowMs
		due := a.due(last, nowMs)
		for number, atMs := range made {
			if age := nowMs - atMs; number > due && age >= segment.DayMs || number <= due && age < purgeAfterMs {
				t.Fatalf("tombstone %d of %d ms is due: %v", number, age, number <= due)
			}
		}
		if len(a.seen) > 30 {
			t.Fatalf("%d looks are kept", len(a.seen))
		}
	}
}
