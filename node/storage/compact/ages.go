package compact

import "github.com/tickmesh/tickmesh/node/storage/segment"

// What a delete hides is to leave the disk within a day: its tombstone is due so long after it
// was first seen. That is looked at once an hour.
const (
	purgeAfterMs = 22 * segment.HourMs
	purgeLookMs  = segment.HourMs
)

// tombstoneAges describes which tombstones are due. They have no times, so it notes which ones there
// were when.
type tombstoneAges struct {
	seen []tombstonesSeen // growing, as many as looks in purgeAfterMs at most
}

// tombstonesSeen records that there were tombstones up to a number at a time.
type tombstonesSeen struct {
	last uint64
	atMs int64
}

// due returns the number up to which tombstones are due; last is that of the latest. Those that
// there are at the first look are, as their age is unknown.
func (a *tombstoneAges) due(last uint64, nowMs int64) uint64 {
	n := len(a.seen)
	switch {
	case n == 0:
		a.seen = append(a.seen, tombstonesSeen{last, nowMs - purgeAfterMs})
	case nowMs < a.seen[n-1].atMs: // the clock went back
		a.seen = append(a.seen[:0], tombstonesSeen{a.seen[0].last, nowMs - purgeAfterMs}, tombstonesSeen{last, nowMs})
	case nowMs-a.seen[n-1].atMs >= purgeLookMs && last > a.seen[n-1].last:
		a.seen = append(a.seen, tombstonesSeen{last, nowMs})
	}
	for len(a.seen) > 1 && nowMs-a.seen[1].atMs >= purgeAfterMs {
		a.seen = a.seen[1:]
	}
	return a.seen[0].last
}
