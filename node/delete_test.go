package node

import (
	"context"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestDeletesAreWorkedIn makes so many deletes that segments are rewritten for
// them, with backfill into what was deleted, and kills in between.
func TestDeletesAreWorkedIn(t *testing.T) {
	const nowMs = 1_700_000_000_000
	ctx := context.Background()
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncAlways))
	m := model{}
	fill := func(round int) {
		w := &testWriter{node: n}
		for i := range 20 {
			for j := range 50 {
				at, v := int64(nowMs+j*60_000), float64(round*1000+j)
				w.add(testKey(i), at, v)
				m.put(testKey(i), at, v)
			}
		}
		if err := w.send(ctx); err != nil {
			t.Fatal(err)
		}
	}
	fill(1)
	if err := n.CompactAll(ctx); err != nil {
		t.Fatal(err)
	}
	most := 0
	for i := range 400 {
		from := int64(nowMs + i%45*60_000)
		if _, err := n.Delete(ctx, &scan.Selector{MetricAny: true}, from, from+90_000); err != nil {
			t.Fatal(err)
		}
		for j := range 20 {
			m.remove(testKey(j), from, from+90_000)
		}
		if i%150 == 100 {
			fill(2 + i)
		}
		if i%190 == 120 {
			killed := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			fs = killed
			n = mustOpen(t, testOptions(fs, SyncAlways))
			if diff := differences(m, contents(t, n)); len(diff) > 0 {
				t.Fatalf("after a kill: %q", diff)
			}
		}
		most = max(most, n.engine.Tombstones())
	}
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Fatalf("%q", diff)
	}
	for range 3 {
		if err := n.CompactAll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Fatalf("after compaction: %q", diff)
	}
	if left := n.engine.Tombstones(); most <= 1024 || left > 1024 {
		t.Errorf("%d tombstones are left of %d", left, most)
	}
	n = reopen(t, n, testOptions(fs, SyncAlways))
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Fatalf("after a restart: %q", diff)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
