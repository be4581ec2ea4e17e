package node

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
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

// TestTickersAreThereWhenOpenReturns: whoever drives the ticks, as tests on a virtual clock do, can wait for each loop
// from the first tick on. A loop that asks for its ticks when it happens to run would miss hours of such a clock.
func TestTickersAreThereWhenOpenReturns(t *testing.T) {
	for mode, want := range map[SyncMode]int32{SyncAlways: 2, SyncInterval: 3} {
		for range 20 {
			var begun, ended atomic.Int32
			o := testOptions(vfs.NewMemFS(), mode)
			o.Ticker = func(time.Duration) (<-chan time.Time, func()) {
				begun.Add(1)
				return nil, func() { ended.Add(1) }
			}
			n := mustOpen(t, o)
			if got := begun.Load(); got != want {
				t.Errorf("%s: %d of %d loops have their ticks", mode, got, want)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			if ended.Load() != want {
				t.Errorf("%s: %d of %d loops have let go of their ticks", mode, ended.Load(), want)
			}
		}
	}
}
