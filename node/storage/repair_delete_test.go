package storage

import (
	"context"
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// samples returns an entry that is not in the log: a value for each of the first series, a
// second apart.
func (l *labLog) samples(index uint64, at int64, values ...int64) *entry.Entry {
	var e series.BatchEncoder
	for i, value := range values {
		e.Append(e.Define(l.keys[i]), at+int64(i)*1000, value, 0)
	}
	return &entry.Entry{Kind: entry.Samples, Shard: l.shard, Term: 1, Index: index, Body: samplesBody(e.AppendTo(nil))}
}

// TestDeleteDuringRepair deletes, while a range is on its way, samples that only the
// other copy has, and flushes: nothing here has what the delete hides, and still it
// hides what comes.
func TestDeleteDuringRepair(t *testing.T) {
	logs := newLabLogs()
	good, bad := newLabNode(t, logs), newLabNode(t, logs)
	defer good.end()
	defer bad.end()
	log := logs[0]
	dayMs := log.nowMs - log.nowMs%segment.DayMs
	apply := func(n *labNode, e *entry.Entry) {
		t.Helper()
		if err := n.e.Apply(n.epoch, e); err != nil {
			t.Fatal(err)
		}
		s := n.e.shards[0]
		s.mu.Lock()
		err := s.mu.set.SealAll()
		s.mu.Unlock()
		if err = errors.Join(err, n.e.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	apply(good, log.samples(1, dayMs, 1))
	apply(bad, log.samples(1, dayMs, 1))
	apply(good, log.samples(1, dayMs+3600_000, 2)) // a sample that the other copy has lost
	remove := entry.Entry{Kind: entry.Delete, Shard: 0, Term: 1, Index: 2, Body: entry.DeleteBody([]uint32{0}, dayMs+3600_000, dayMs+3600_000)}
	source := &labSource{from: good, to: bad, after: func() {
		apply(bad, &remove)
		apply(bad, log.samples(3, dayMs+7200_000, 3))
	}}
	if _, err := bad.e.RepairRange(context.Background(), 0, dayMs, dayMs, source); err != nil {
		t.Fatal(err)
	}
	apply(good, &remove)
	apply(good, log.samples(3, dayMs+7200_000, 3))
	want, err := good.contents(0)
	if err != nil || len(want[string(log.keys[0])]) != 2 {
		t.Fatal(want, err)
	}
	for range 3 { // and still after what flushes and merges make of it
		got, err := bad.contents(0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := labDifference(want, got); diff != "series without samples" {
			t.Fatalf("what was deleted is back: %s", diff)
		}
		if err := bad.e.Flush(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := bad.e.Compact(context.Background(), log.nowMs+40*segment.DayMs); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLastAfterRepair repairs a copy whose newest samples are not what they should be:
// what the memory still knows of them is not answered any more.
func TestLastAfterRepair(t *testing.T) {
	logs := newLabLogs()
	good, bad := newLabNode(t, logs), newLabNode(t, logs)
	defer good.end()
	defer bad.end()
	log := logs[0]
	dayMs := log.nowMs - log.nowMs%segment.DayMs
	for _, n := range []*labNode{good, bad} {
		if err := n.e.Apply(n.epoch, log.samples(1, dayMs, 1, 2, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := bad.e.Apply(bad.epoch, log.samples(1, dayMs, 1, 7)); err != nil { // another value
		t.Fatal(err)
	}
	if err := bad.e.Apply(bad.epoch, log.samples(1, dayMs+3600_000, 1)); err != nil { // a sample that is nowhere else
		t.Fatal(err)
	}
	late := log.samples(2, dayMs-segment.DayMs, 4) // of the day before: the newest one stays
	source := &labSource{from: good, to: bad, after: func() {
		for _, n := range []*labNode{good, bad} {
			if err := n.e.Apply(n.epoch, late); err != nil {
				t.Fatal(err)
			}
		}
	}}
	if _, err := bad.e.RepairRange(context.Background(), 0, dayMs, dayMs, source); err != nil {
		t.Fatal(err)
	}
	want, err := good.contents(0)
	if err != nil || len(want) != 3 {
		t.Fatal(want, err)
	}
	bad.compareLast("after the repair", 0, want)
}
