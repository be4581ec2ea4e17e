package repair

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

const oldMs = int64(1_700_000_000_000) // long closed

var errOutOfReach = errors.New("the node is out of reach")

// TestRangesByMonth: the parts of a range follow one another, and each lies in one month.
func TestRangesByMonth(t *testing.T) {
	for _, r := range [][2]int64{{0, 0}, {-1, 0}, {-40 * segment.DayMs, -9 * segment.DayMs}, {oldMs, oldMs + 31*segment.DayMs}, {scan.TimeMsMin, scan.TimeMsMin + segment.DayMs}} {
		at := r[0]
		for _, part := range byMonth(3, r[0], r[1]) {
			if month := segment.PartitionOf(at, segment.SpanMonth); part.shard != 3 || part.fromMs != at || !month.Has(part.toMs) {
				t.Fatalf("%v of %v", part, r)
			}
			at = part.toMs + 1
		}
		if at != r[1]+1 {
			t.Fatalf("the parts of %v end before %d", r, at)
		}
	}
}

// TestShardIsHandedOverOnce: two nodes with the same damage do not hand a shard to one
// another again and again.
func TestShardIsHandedOverOnce(t *testing.T) {
	var r repairer
	r.init()
	now, target := time.Unix(1_700_000_000, 0), shardRange{1, 0, 1}
	damages := []manifest.Damage{{Shard: 1, FromMs: 0, ToMs: 1}}
	if !r.handsOver(target, now) {
		t.Error("not the first time")
	}
	for range 5 {
		r.ended(target, errOutOfReach, now)
		now = now.Add(repairDelayMax)
		if due := r.due(damages, now); !slices.Equal(due, []shardRange{target}) {
			t.Fatal("due is", due)
		}
		if r.handsOver(target, now) {
			t.Error("again, though no other copy gave the range")
		}
	}
	if now = now.Add(handOverAgain); !r.handsOver(target, now) {
		t.Error("not after a while")
	}
	r.ended(target, nil, now)
	if !r.handsOver(target, now) {
		t.Error("not for another damage of the range")
	}
}

// TestSuspectsThatAreGone: what cannot be mended here any more does not wait for it.
func TestSuspectsThatAreGone(t *testing.T) {
	for _, gone := range []error{errNotFull, errNoCopy, replica.ErrNoGroup} {
		var r repairer
		r.init()
		target := shardRange{1, 0, 1}
		r.mu.suspects[target] = true
		r.ended(target, errOutOfReach, time.Now())
		if r.due(nil, time.Now()); r.pending.Load() != 1 {
			t.Errorf("%d wait after %v", r.pending.Load(), errOutOfReach)
		}
		r.ended(target, errors.Join(gone), time.Now())
		if r.due(nil, time.Now()); r.pending.Load() != 0 || len(r.mu.tries) != 0 {
			t.Errorf("%d wait after %v", r.pending.Load(), gone)
		}
	}
}

// TestConflictsAreForgotten: what is not compared here any more is not told of.
func TestConflictsAreForgotten(t *testing.T) {
	var c checker
	day := func(n int64) shardRange { return shardRange{2, n * segment.DayMs, (n+1)*segment.DayMs - 1} }
	other := shardRange{3, 0, 1}
	for _, target := range []shardRange{day(1), day(2), other} {
		c.note(target, "they differ")
	}
	c.keep(2, []segment.TimeRange{{FromMs: day(2).fromMs, ToMs: day(2).toMs}, {FromMs: day(1).fromMs, ToMs: day(4).toMs}})
	if len(c.problems()) != 2 || c.conflicts.Load() != 2 {
		t.Errorf("%d are told, %q", c.conflicts.Load(), c.problems())
	}
	c.keep(2, nil)
	if len(c.problems()) != 1 || c.conflicts.Load() != 1 {
		t.Errorf("%d are told, %q", c.conflicts.Load(), c.problems())
	}
}
