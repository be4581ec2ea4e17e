package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// awaitForgotten waits until a node has forgotten so many series since it was started. Its clock is one that tests set.
func awaitForgotten(t *testing.T, n *Node, clock *fakeClock, count int64) {
	t.Helper()
	for deadline := time.Now().Add(awaitMax); n.engine.Stats().SeriesForgotten < count; time.Sleep(5 * time.Millisecond) {
		if clock.ms.Add(int64(forgetWalkPause / time.Millisecond)); time.Now().After(deadline) {
			t.Fatalf("%d series are forgotten, not %d", n.engine.Stats().SeriesForgotten, count)
		}
	}
}

func deleteAll(t *testing.T, n *Node) {
	t.Helper()
	if _, err := n.Delete(context.Background(), &scan.Selector{MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
}

// TestForgetsOnlyWhenAsked: without ForgetSeries nothing is forgotten, and the folder stays one that an earlier version opens.
// What is there to forget is forgotten after a start with it.
func TestForgetsOnlyWhenAsked(t *testing.T) {
	clock := newClock(1_700_000_000_000)
	options := testOptions(vfs.NewMemFS(), SyncAlways)
	options.Clock, options.ForgetSeries = clock.now, false
	n := mustOpen(t, options)
	const count = 40
	for i := range count {
		put(t, n, testKey(i), clock.ms.Load(), float64(i))
	}
	deleteAll(t, n)
	if err := n.engine.Flush(); err != nil { // what waits in the page log is not looked at
		t.Fatal(err)
	}
	for range 3 {
		clock.ms.Add(int64(forgetWalkPause / time.Millisecond))
		time.Sleep(2 * maintainInterval)
	}
	if n.engine.LetsForget() || n.engine.Stats().SeriesForgotten > 0 {
		t.Fatal("series are forgotten that nobody wanted to be")
	}
	options.ForgetSeries = true
	n = reopen(t, n, options)
	awaitForgotten(t, n, clock, count)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForgetsDeleted: series whose samples are deleted are forgotten. Who names one by its id is told to send the key,
// which gets another id, and the folder says by its format that an older program cannot read it.
func TestForgetsDeleted(t *testing.T) {
	clock := newClock(1_700_000_000_000)
	options := testOptions(vfs.NewMemFS(), SyncAlways)
	options.Clock = clock.now
	n := mustOpen(t, options)
	const count = 40
	now := clock.ms.Load()
	for i := range count {
		put(t, n, testKey(i), now, float64(i))
	}
	if n.engine.LetsForget() {
		t.Fatal("the folder tells that it may have forgotten series, and there is nothing to forget")
	}
	key := testKey(3)
	before, _, err := n.LookupSeries(key)
	if err != nil {
		t.Fatal(err)
	}
	deleteAll(t, n)
	if err := n.engine.Flush(); err != nil { // what waits in the page log is not looked at
		t.Fatal(err)
	}
	awaitForgotten(t, n, clock, count)
	if !n.engine.LetsForget() {
		t.Fatal("the folder does not tell that it has forgotten series")
	}
	if _, known, err := n.LookupSeries(key); known || err != nil {
		t.Fatal("it is still known", err)
	}
	generation := n.Generation()
	var e series.BatchEncoder
	e.Append(before.ID, now, 5, 0)
	id := series.BatchID{Session: 7, Counter: 1}
	frame := &series.Frame{ID: id, Points: 1, Parts: []series.Part{{Shard: before.Shard, Batch: e.AppendTo(nil)}}}
	if _, err := n.Write(context.Background(), frame); !errors.Is(err, series.ErrEra) {
		t.Fatalf("a write by an id that is forgotten: %v", err)
	}
	if n.Generation() <= generation {
		t.Fatal("the generation of ids has not grown")
	}
	e.Reset()
	e.Append(e.Define(key), now, 5, 0)
	frame.Parts[0].Batch = e.AppendTo(nil)
	for range 2 { // the same write in other words, and once more
		if _, err := n.Write(context.Background(), frame); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		after, known, err := n.LookupSeries(key)
		if err != nil || !known || after.ID == before.ID {
			t.Fatalf("%+v (%v), %v after %+v", after, known, err, before)
		}
		m := model{}
		m.put(key, now, 5)
		mustAgree(t, n, m)
	}
	check()
	var log bytes.Buffer // of the replay, which meets the write that was refused
	options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n = crash(t, n, &options, 1, 100)
	if told := log.String(); strings.Contains(told, "level=ERROR") || !strings.Contains(told, "that was refused is passed over again") {
		t.Errorf("a replay of a write that was refused when it came says:\n%s", told)
	}
	options.Logger = nil
	check()
	if err := n.checkpoint(); err != nil {
		t.Fatal(err)
	}
	n = crash(t, n, &options, 1, 100)
	check()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// crash takes the power from a node, or kills it at 100 percent, and starts it again.
func crash(t *testing.T, n *Node, o *Options, seed uint64, percent int) *Node {
	t.Helper()
	after := o.FS.(*vfs.MemFS).CrashClone(vfs.CrashOptions{Seed: seed, BlockPercent: percent, NamePercent: percent})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	o.FS = after
	return mustOpen(t, *o)
}

func mustAgree(t *testing.T, n *Node, m model) {
	t.Helper()
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Fatalf("%q", diff)
	}
}

// TestForgettingAgreesWithModel has series forgotten that a cut or deletes have emptied, while the same ones are written
// again, with kills and power cuts between.
func TestForgettingAgreesWithModel(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 41))
			clock := newClock(1_700_000_000_000)
			options := testOptions(vfs.NewMemFS(), SyncAlways)
			options.Clock = clock.now
			n := mustOpen(t, options)
			m, forgotten := model{}, int64(0)
			for range 150 {
				now := clock.ms.Add(rng.Int64N(dayMs / 2))
				switch rng.IntN(10) {
				case 0:
					deleteAll(t, n)
					clear(m)
				case 1:
					cutMs := retentionCut(clock.now(), 5*24*time.Hour)
					if err := n.cut(context.Background(), &retentionPlan{wholeMs: cutMs}); err != nil {
						t.Fatal(err)
					}
					m.before(cutMs)
					if err := n.engine.Retain(); err != nil {
						t.Fatal(err)
					}
				case 2:
					if err := n.engine.Flush(); err != nil {
						t.Fatal(err)
					}
				case 3:
					if err := n.checkpoint(); err != nil {
						t.Fatal(err)
					}
				case 4:
					forgotten += n.engine.Stats().SeriesForgotten
					n = crash(t, n, &options, rng.Uint64(), rng.IntN(3)*50)
				default:
					w := &testWriter{node: n}
					for range 1 + rng.IntN(20) {
						key, at, v := testKey(rng.IntN(30)), now-rng.Int64N(60_000), float64(rng.IntN(1000))
						w.add(key, at, v)
						m.put(key, at, v)
					}
					if err := w.send(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
				if rng.IntN(4) == 0 { // the maintenance comes by
					time.Sleep(time.Millisecond)
				}
				if rng.IntN(8) == 0 {
					mustAgree(t, n, m)
				}
			}
			deleteAll(t, n)
			if err := n.engine.Flush(); err != nil {
				t.Fatal(err)
			}
			if forgotten += n.engine.Stats().SeriesForgotten; forgotten == 0 {
				awaitForgotten(t, n, clock, 1)
			}
			clear(m)
			mustAgree(t, n, m)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// mustNotForget waits until nodes had the time to forget, and fails the test if one does, or if a folder becomes one that an earlier version
// refuses.
func mustNotForget(t *testing.T, c *testCluster, clock *fakeClock, live series.Key) {
	t.Helper()
	for range 3 {
		clock.ms.Add(int64(forgetWalkPause / time.Millisecond))
		c.write(live, clock.ms.Load(), 1, series.BatchID{}) // so that all hear of each other
		time.Sleep(2 * maintainInterval)
	}
	for _, name := range c.names() {
		if n := c.reach("", name); n.engine.LetsForget() || n.engine.Stats().SeriesForgotten > 0 {
			t.Fatalf("node %s goes on", name)
		}
	}
}

// TestClusterWithNothingToForget: then folders stay such that an earlier version opens them.
func TestClusterWithNothingToForget(t *testing.T) {
	c := newTestCluster(t)
	clock := newClock(1_700_000_000_000)
	c.options = func(_ string, o *Options) { o.Clock = clock.now }
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	c.upgrade("a", "b", "c")
	mustNotForget(t, c, clock, testKey(0))
}

// TestClusterForgets: nothing is forgotten while one node is of an earlier version, be it a witness. Then it is on all copies
// alike, and whoever leads next gives the same other ids.
func TestClusterForgets(t *testing.T) {
	c := newTestCluster(t)
	clock := newClock(1_700_000_000_000)
	c.options = func(_ string, o *Options) { o.Clock = clock.now }
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	const count = 30
	now := clock.ms.Load()
	for i := range count {
		c.write(testKey(i), now, int64(i), series.BatchID{})
	}
	full := []*Node{c.reach("", "a"), c.reach("", "b")}
	c.await("the delete", func() bool {
		left := map[uint16]bool{}
		for shard := range uint16(testShards) {
			left[shard] = true
		}
		for _, n := range full {
			outcomes, err := n.DeleteParts(context.Background(), series.BatchID{}, &scan.Selector{MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax)
			for i := range outcomes {
				if err == nil && outcomes[i].Err == nil {
					delete(left, outcomes[i].Shard)
				}
			}
		}
		return len(left) == 0
	})
	for _, n := range full {
		if err := n.engine.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, upgraded := range [][]string{nil, {"a", "b"}} {
		c.upgrade(upgraded...)
		mustNotForget(t, c, clock, testKey(count))
	}
	c.upgrade("c")
	c.await("all is forgotten on both copies", func() bool {
		clock.ms.Add(int64(forgetWalkPause / time.Millisecond))
		c.write(testKey(count), clock.ms.Load(), 1, series.BatchID{}) // so that all hear of each other
		for _, n := range full {
			if n.engine.Stats().SeriesForgotten < count {
				return false
			}
		}
		return true
	})
	for i := range count {
		c.write(testKey(i), now, int64(i), series.BatchID{})
	}
	c.await("both copies have applied the same", func() bool {
		for shard := range uint16(testShards) {
			if full[0].engine.ShardStats(shard).Applied != full[1].engine.ShardStats(shard).Applied {
				return false
			}
		}
		return true
	})
	for i := range count {
		a, knownA, errA := full[0].LookupSeries(testKey(i))
		b, knownB, errB := full[1].LookupSeries(testKey(i))
		if !knownA || !knownB || errA != nil || errB != nil || a.ID != b.ID || a.Shard != b.Shard {
			t.Fatalf("series %d is %+v (%v), %v here and %+v (%v), %v there", i, a, knownA, errA, b, knownB, errB)
		}
	}
}
