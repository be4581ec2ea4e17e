package storage

import (
	"context"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// purgeLab has one dense segment, and then a delete of a series in it. The result compacts at a
// time until there is nothing to do.
func purgeLab(t *testing.T) (n *labNode, doneMs int64, compact func(nowMs int64)) {
	logs := newLabLogs()
	n = newLabNode(t, logs)
	n.hosts[0] = true
	logs[0].put(logs[0].keys, 1_700_000_000_000)
	n.apply(0, math.MaxInt)
	n.seal()
	compact = func(nowMs int64) {
		t.Helper()
		for did := true; did; {
			var err error
			if did, err = n.e.Compact(context.Background(), nowMs); err != nil {
				t.Fatal(err)
			}
		}
	}
	doneMs = 1_700_000_000_000 + 400*segment.DayMs
	compact(doneMs)
	logs[0].removeAll([]series.Key{logs[0].keys[2]})
	n.apply(0, math.MaxInt)
	n.seal()
	return n, doneMs, compact
}

// stored returns how many samples the segments have, deleted ones included.
func (n *labNode) stored() (samples int64) {
	for _, r := range n.e.files.Current().Segments {
		samples += r.Meta().Samples
	}
	return samples
}

// TestDeletedDataLeavesWithinADay: a single delete is merged into the segments though nothing else
// makes them be written again.
func TestDeletedDataLeavesWithinADay(t *testing.T) {
	n, nowMs, compact := purgeLab(t)
	defer n.end()
	all := n.stored()
	compact(nowMs + segment.HourMs)
	if n.stored() != all {
		t.Fatalf("%d of %d samples after an hour", n.stored(), all)
	}
	compact(nowMs + segment.HourMs - 100*segment.DayMs) // the clock is set back, and right again
	compact(nowMs + segment.HourMs)
	compact(nowMs + segment.DayMs)
	if n.stored() != all-1 {
		t.Errorf("%d of %d samples after a day", n.stored(), all)
	}
	n.check("after a day")
}

// TestPurgeDeleted: deleted data leaves the disk at once when that is asked for.
func TestPurgeDeleted(t *testing.T) {
	n, nowMs, compact := purgeLab(t)
	defer n.end()
	all := n.stored()
	if compact(nowMs); n.stored() != all {
		t.Fatalf("%d of %d samples before", n.stored(), all)
	}
	n.e.PurgeDeleted()
	compact(nowMs)
	if n.stored() != all-1 {
		t.Errorf("%d of %d samples", n.stored(), all)
	}
	n.check("purged")
}

// TestDeletesFreeAFullDisk: what is deleted leaves the disk though it has no room for anything else.
func TestDeletesFreeAFullDisk(t *testing.T) {
	n, nowMs, compact := purgeLab(t)
	defer n.end()
	free, err := n.fs.Free("data")
	if err != nil {
		t.Fatal(err)
	}
	n.fs.SetCapacity(1<<40 - free + 1<<20) // for no flush
	all := n.stored()
	n.e.PurgeDeleted()
	compact(nowMs)
	if n.stored() != all-1 {
		t.Errorf("%d of %d samples", n.stored(), all)
	}
	n.check("purged")
}

// TestPartitionsFollowRetention: what is kept for a month is in days, not in months.
func TestPartitionsFollowRetention(t *testing.T) {
	for keepDays, want := range map[int64]segment.Span{0: segment.SpanMonth, 30: segment.SpanDay, 7: segment.SpanTwoHours, 400: segment.SpanMonth} {
		logs := newLabLogs()
		n := newLabNode(t, logs)
		n.hosts[0] = true
		n.e.KeepFor(keepDays * segment.DayMs)
		const timeMs = int64(1_700_000_000_000)
		logs[0].put(logs[0].keys, timeMs)
		n.apply(0, math.MaxInt)
		n.seal()
		n.compactAll()
		for _, r := range n.e.files.Current().Segments {
			if m := r.Meta(); m.Partition != segment.PartitionOf(timeMs, want) {
				t.Errorf("kept for %d days in %s", keepDays, m.Name)
			}
		}
		n.end()
	}
}
