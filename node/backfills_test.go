package node

import (
	"context"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestBackfillsDoNotPileUp: what is filled in again and again, of a time that is shorter than the widest
// partitions are made for, has as many segments after many times as after a few.
func TestBackfillsDoNotPileUp(t *testing.T) {
	const nowMs, keepDays = int64(1_700_000_000_000), 60
	clock := newClock(nowMs)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Retention = clock.now, keepDays*24*time.Hour
	n := mustOpen(t, o)
	defer n.Close()
	ctx := context.Background()
	fill := func(stepMs int64) {
		w := &testWriter{node: n}
		for at := nowMs - (keepDays-1)*dayMs; at < nowMs; at += stepMs {
			w.add(testKey(1), at, float64(at%977))
		}
		if err := w.send(ctx); err != nil {
			t.Fatal(err)
		}
		if err := n.CompactAll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.engine.SpanMax(); got != segment.SpanDay {
		t.Errorf("after the start partitions may have a span of %v", got) // and retention may flush before anything else
	}
	few := 0
	for round := range 30 {
		fill(3600_000)
		fill(5 * dayMs) // of some days only
		if round == 4 {
			few = n.engine.Stats().Segments
		}
	}
	if many := n.engine.Stats().Segments; many > few+few/2 {
		t.Errorf("%d segments after 5 times, %d after 30", few, many)
	}
}
