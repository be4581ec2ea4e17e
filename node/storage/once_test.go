package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
)

// TestStalledEntryKeepsItsBatches lets an entry stall at each series that it makes.
// When it is applied again, what it had remembered of itself does not stop it; and
// what repeats it afterwards is known.
func TestStalledEntryKeepsItsBatches(t *testing.T) {
	log := newLabLog(0)
	body := entry.AppendTime(nil, 0)
	for i := range 4 {
		var e series.BatchEncoder
		e.Append(e.Define(log.keys[i]), log.nowMs, int64(i), 0)
		e.Append(e.Define(log.keys[i+4]), log.nowMs, int64(i), 0)
		batch := e.AppendTo(nil)
		body = append(entry.AppendBatchHeader(body, series.BatchID{Session: 5, Counter: uint64(i)}, len(batch)), batch...)
	}
	for nth := 1; nth <= 9; nth++ { // the ninth is never passed
		n := newLabNode(t, []*labLog{log, newLabLog(1), newLabLog(2)})
		points, err := failpoint.Parse(fmt.Sprintf("%s=error@%d", FailSeriesCreate, nth), Failpoints())
		if err != nil {
			t.Fatal(err)
		}
		n.e.hit = points.Hit
		entry := entry.Entry{Kind: entry.Samples, Index: 1, Body: body}
		if err := n.e.Apply(0, &entry); errors.Is(err, ErrStalled) != (nth <= 8) || err != nil && nth > 8 {
			t.Fatalf("series %d: %v", nth, err)
		}
		if _, err := n.e.ExportShard(0); errors.Is(err, ErrStalled) != (nth <= 8) {
			t.Fatalf("export while an entry stalls: %v", err)
		}
		if err := n.e.Resume(); err != nil {
			t.Fatal(err)
		}
		entry.Index++
		if err := n.e.Apply(0, &entry); err != nil {
			t.Fatal(err)
		}
		got, err := n.contents(0)
		if err != nil || len(got) != 8 {
			t.Fatalf("stalled at series %d: %d series of 8, %v", nth, len(got), err)
		}
		if repeated := n.e.Stats().BatchesRepeated; repeated != 4 {
			t.Fatalf("stalled at series %d: %d of 4 batches were repeated", nth, repeated)
		}
		n.end()
	}
}

// TestRefusedBatches reports what is wrong with each batch of an entry; what was refused
// is refused again.
func TestRefusedBatches(t *testing.T) {
	n := newLabNode(t, newLabLogs())
	defer n.end()
	apply := func(index uint64, ids []series.BatchID, batch []byte) error {
		body := entry.AppendTime(nil, 0)
		for _, id := range ids {
			body = append(entry.AppendBatchHeader(body, id, len(batch)), batch...)
		}
		return n.e.Apply(0, &entry.Entry{Kind: entry.Samples, Index: index, Body: body})
	}
	fine := (&series.BatchEncoder{}).AppendTo(nil)
	if err := apply(1, []series.BatchID{{Session: 1, Counter: 1000}}, fine); err != nil {
		t.Fatal(err)
	}
	var refused *entry.BatchError
	err := apply(2, []series.BatchID{{Session: 1, Counter: 999}, {Session: 1, Counter: 1000 - dedup.Window}, {Session: 1, Counter: 1}}, fine)
	if !errors.As(err, &refused) || !slices.Equal(refused.Batches, []int{1, 2}) || !errors.Is(err, series.ErrBatchOld) {
		t.Errorf("counters that are too old: %v", err)
	}
	for index := uint64(3); index < 5; index++ {
		err = apply(index, []series.BatchID{{Session: 2, Counter: 1}}, []byte{0xff})
		if !errors.As(err, &refused) || !errors.Is(err, series.ErrBatch) {
			t.Errorf("what is no batch: %v", err)
		}
	}
	if err = apply(5, []series.BatchID{{Session: 2, Counter: 1}}, fine); err != nil {
		t.Error(err)
	}
}
