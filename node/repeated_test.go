package node

import (
	"context"
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestRepeatedWrites sends writes again, after others that overwrote them, after a kill
// and after a clean end: they are answered, and nothing changes. A write without an id
// is applied each time, and one that is too old to know is refused.
func TestRepeatedWrites(t *testing.T) {
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncAlways))
	key := testKey(1)
	write := func(id series.BatchID, v float64) error {
		w := &testWriter{node: n}
		w.add(key, 1_700_000_000_000, v)
		frame := series.Frame{ID: id, Points: 1}
		for shard := range w.encoders {
			if w.encoders[shard].Points() > 0 {
				frame.Parts = append(frame.Parts, series.Part{Shard: uint16(shard), Batch: w.encoders[shard].AppendTo(nil)})
			}
		}
		_, err := n.Write(context.Background(), &frame)
		return err
	}
	m := model{}
	must := func(id series.BatchID, v float64) {
		t.Helper()
		if err := write(id, v); err != nil {
			t.Fatal(err)
		}
		m.put(key, 1_700_000_000_000, v)
	}
	repeat := func(when string, id series.BatchID, v float64) {
		t.Helper()
		if err := write(id, v); err != nil {
			t.Fatal(err)
		}
		if diff := differences(m, contents(t, n)); len(diff) > 0 {
			t.Fatalf("repeated %s: %q", when, diff)
		}
	}
	first, second := series.BatchID{Session: 1, Counter: 1}, series.BatchID{Session: 1, Counter: 2}
	must(first, 1)
	must(second, 2)
	repeat("at once", first, 1)
	must(series.BatchID{}, 3)
	must(series.BatchID{}, 4)
	repeat("after others", second, 2)

	after := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	fs = after
	n = mustOpen(t, testOptions(fs, SyncAlways))
	repeat("after a kill", first, 1)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = mustOpen(t, testOptions(fs, SyncAlways))
	repeat("after a clean end", second, 2)
	for counter := uint64(3); counter < 300; counter++ {
		must(series.BatchID{Session: 1, Counter: counter}, float64(counter))
	}
	if err := write(first, 1); !errors.Is(err, series.ErrBatchOld) {
		t.Errorf("a counter far behind: %v", err)
	}
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Errorf("at the end: %q", diff)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRepeatedDeletes repeats a delete under its id after what it deleted was written
// anew, at once, after a kill and after a clean end: what was written in between stays. A
// delete without an id hides it.
func TestRepeatedDeletes(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncAlways))
	const at = 1_700_000_000_000
	key := testKey(1)
	selector := scan.Selector{MetricAny: true}
	m := model{}
	put := func(v float64) {
		t.Helper()
		w := &testWriter{node: n}
		w.add(key, at, v)
		if err := w.send(ctx); err != nil {
			t.Fatal(err)
		}
		m.put(key, at, v)
	}
	remove := func(when string, id series.BatchID) {
		t.Helper()
		outcomes, err := n.DeleteParts(ctx, id, &selector, at, at)
		if err != nil {
			t.Fatal(when, err)
		}
		for i := range outcomes {
			if outcomes[i].Err != nil {
				t.Fatal(when, outcomes[i].Err)
			}
		}
		if diff := differences(m, contents(t, n)); len(diff) > 0 {
			t.Fatalf("%s: %q", when, diff)
		}
	}
	id := series.BatchID{Session: 5, Counter: 1}
	put(1)
	m.remove(key, at, at)
	remove("first", id)
	put(2)
	remove("repeated at once", id)
	after := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	fs = after
	n = mustOpen(t, testOptions(fs, SyncAlways))
	remove("repeated after a kill", id)
	n = reopen(t, n, testOptions(fs, SyncAlways))
	remove("repeated after a clean end", id)
	m.remove(key, at, at)
	remove("another one", series.BatchID{Session: 5, Counter: 2})
	put(3)
	m.remove(key, at, at)
	remove("without an id", series.BatchID{})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
