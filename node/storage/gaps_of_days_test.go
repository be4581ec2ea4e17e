package storage

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// TestDayDigestsOfDaysWithoutSamples: a block may reach over days on which its series has no sample. Their digests are recorded by none, which
// is no damage, and the other days need no sample.
func TestDayDigestsOfDaysWithoutSamples(t *testing.T) {
	l := newRollupLab(t, 7)
	const days = 4
	for day := range int64(days) { // every other day
		l.write(0, rollupStartMs+2*day*segment.DayMs, segment.HourMs, 24)
	}
	l.settle()
	l.compact(60)
	before := l.e.Stats()
	request := func(recorded bool) *scan.Request {
		return &scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: &scan.Windows{
			WidthMs: segment.DayMs, Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: recorded,
		}}
	}
	key := benchKey(0)
	got := digestsOf(l.scanned(request(true))[string(key)])
	after := l.e.Stats()
	digests := after.ScannedRollups - before.ScannedRollups
	if samples := after.ScannedSamples - before.ScannedSamples - digests; samples != 0 || digests != days || after.Corruptions != 0 {
		t.Errorf("%d samples and %d digests were read, and %d damages reported", samples, digests, after.Corruptions)
	}
	if want := digestsOf(l.scanned(request(false))[string(key)]); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
