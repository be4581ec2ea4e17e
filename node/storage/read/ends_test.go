package read

import (
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// TestEndsOfDenseFiles: ends are read of files that have them, where they are less than the samples.
func TestEndsOfDenseFiles(t *testing.T) {
	const days = 3
	file := func(samplesPerDay int64, dayRollups, hourEnds bool) *segment.Meta {
		return &segment.Meta{
			Rollups: true, DayDigests: true, DayRollups: dayRollups, HourEnds: hourEnds,
			Series: 2, Samples: 2 * days * samplesPerDay, MaxMs: days*segment.DayMs - 1,
		}
	}
	for _, c := range []struct {
		what          string
		meta          *segment.Meta
		byHour, byDay bool
	}{
		{"all", file(24*16, true, true), true, true},
		{"too few for hours", file(24*15, true, true), false, true},
		{"too few for days", file(15, true, true), false, false},
		{"of a partition below a day", file(24*16, false, true), true, false},
		{"from before ends of hours", file(24*16, true, false), false, true},
		{"from before ends", file(24*16, false, false), false, false},
	} {
		for widthMs, want := range map[int64]bool{segment.HourMs: c.byHour, segment.DayMs: c.byDay} {
			plan := rollupPlan{widthMs: segment.DayMs, endsOfMs: widthMs}
			if plan.servedBy(c.meta) != want {
				t.Errorf("%s, by %d ms: %v", c.what, widthMs, !want)
			}
		}
	}
}
