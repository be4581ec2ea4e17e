package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// damageStates destroys the records of groups' states in the log.
func damageStates(t *testing.T, n *Node, fs vfs.FS) (count int) {
	t.Helper()
	type place struct{ at wal.Position }
	var places []place
	err := n.log.Replay(0, func(at, _ wal.Position, record []byte) error {
		if e, err := entry.Parse(record); err == nil && e.Kind == entry.GroupState {
			places = append(places, place{at})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		for _, name := range filesBelow(t, fs, "data/log") {
			var base uint64
			if _, err := fmt.Sscanf(name, "data/log/wal-%x.log", &base); err != nil {
				continue
			}
			f, err := fs.OpenReadWrite(name)
			if err != nil {
				t.Fatal(err)
			}
			const inRecord = 20 // behind its header
			at := int64(uint64(p.at)-base) + inRecord
			if size, err := f.Size(); err == nil && uint64(p.at) >= base && at < size {
				if _, err := f.WriteAt([]byte{0xff, 0xff}, at); err != nil {
					t.Fatal(err)
				}
				count++
			}
			f.Close()
		}
	}
	return count
}

// TestLostStatesLoseNoData destroys all that the log says of groups: a node on its own
// goes on with its data all the same.
func TestLostStatesLoseNoData(t *testing.T) {
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncAlways))
	for i := range 30 {
		put(t, n, testKey(i%12), int64(1_700_000_000_000+i), float64(i))
	}
	if err := n.CompactAll(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		put(t, n, testKey(i%12), int64(1_700_000_001_000+i), float64(i))
	}
	want := contents(t, n)
	killed := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
	count := damageStates(t, n, killed)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if count == 0 {
		t.Fatal("the log has no state")
	}
	n = mustOpen(t, testOptions(killed, SyncAlways))
	if diff := differences(want, contents(t, n)); len(diff) > 0 {
		t.Errorf("lost: %q", diff)
	}
	put(t, n, testKey(1), 1_700_000_002_000, 1)
	n = reopen(t, n, testOptions(killed, SyncAlways))
	if v := len(contents(t, n)[string(testKey(1))]); v != len(want[string(testKey(1))])+1 {
		t.Errorf("%d samples of a series", v)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWitnessAppliesNothing starts a witness whose log begins in the middle: it neither
// applies entries nor takes those before them for lost.
func TestWitnessAppliesNothing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.mode = SyncAlways
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	for round := range 3 {
		c.writeSome(want, &at, 30)
		for range 2 {
			for _, name := range []string{"a", "b", "c"} {
				if err := c.reach("", name).sealEverything(); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.await("the witness to forget what all have", func() bool {
			groups, err := c.reach("", "c").Groups()
			if err != nil {
				return false
			}
			for _, name := range []string{"a", "b"} {
				_ = c.reach("", name).checkpoint()
			}
			for i := range groups {
				if groups[i].Truncated.Index == 0 {
					return false
				}
			}
			return true
		})
		if err := c.reach("", "c").checkpoint(); err != nil {
			t.Fatal(err)
		}
		c.kill("c")
		w := c.open("c")
		if s := w.engine.Stats(); s.Samples > 0 || s.Corruptions > 0 {
			t.Fatalf("round %d: the witness applied %d samples and found %d things damaged", round, s.Samples, s.Corruptions)
		}
	}
	c.mustHave(want)
}

// TestReadsGoOnAfterAStall waits for an entry that stalled, which nothing follows.
func TestReadsGoOnAfterAStall(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.open("a")
	points, err := failpoint.Parse(storage.FailSeriesCreate+"=error@1", Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	c.failpoints = map[string]*failpoint.Set{"b": points}
	c.open("b")
	c.create(roles2(), "b", "a")
	key := testKey(1)
	shard := key.Shard(testShards)
	c.await("b to lead", func() bool {
		_ = c.reach("", "a").TransferLeader(shard, "b")
		groups, err := c.reach("", "b").Groups()
		return err == nil && groups[shard].Leads
	})
	b := c.reach("", "b")
	w := &testWriter{node: b}
	w.add(key, 1_700_000_000_000, 1)
	if err := w.send(context.Background()); !errors.Is(err, series.ErrReadOnly) {
		t.Fatalf("%v; want the error of a stall", err)
	}
	c.await("storage to go on", func() bool { return b.Health() == nil })
	if err := b.Confirm(t.Context(), []uint16{shard}, 0)[0]; err != nil {
		t.Fatal(err)
	}
}
