package node

import (
	"testing"
	"time"
)

func TestCompactionWaitsForQuiet(t *testing.T) {
	var f flushedSegments
	last := time.Unix(1_750_000_000, 0)
	at := func(d time.Duration) time.Time { return last.Add(d) }
	check := func(after time.Duration, want bool) {
		t.Helper()
		if got := f.compactionDue(at(after), last); got != want {
			t.Fatalf("after %s: %v", after, got)
		}
	}
	check(time.Second, false) // nothing is new
	f.add(1, at(2*time.Second))
	check(3*time.Second, false)
	check(4*time.Second, true)
	check(5*time.Second, false) // seen
	for range compactionFlushes {
		check(6*time.Second, false)
		f.add(1, at(6*time.Second))
	}
	check(6*time.Second+100*time.Millisecond, true)
	f.add(1, at(20*time.Second))
	check(10*time.Second, true) // the clock went back
	check(compactionInterval, true)
}
