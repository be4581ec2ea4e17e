package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/clocks"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const dayMs = 24 * 3600_000

// fakeClock is a clock that tests set.
type fakeClock struct{ ms atomic.Int64 }

func newClock(ms int64) *fakeClock {
	c := &fakeClock{}
	c.ms.Store(ms)
	return c
}

func (c *fakeClock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// put writes one sample.
func put(t *testing.T, n *Node, key series.Key, timeMs int64, v float64) {
	t.Helper()
	w := &testWriter{node: n}
	w.add(key, timeMs, v)
	if err := w.send(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// before removes what is older than a time.
func (m model) before(cutMs int64) {
	for k, samples := range m {
		for at := range samples {
			if at < cutMs {
				delete(samples, at)
			}
		}
		if len(samples) == 0 {
			delete(m, k)
		}
	}
}

// TestRetentionAgreesWithModel writes through months with backfill and deletes
// while the retention runs, with kills in between.
func TestRetentionAgreesWithModel(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 31))
			fs := vfs.NewMemFS()
			clock := newClock(1_700_000_000_000)
			retention := time.Duration(20+rng.IntN(30)) * 24 * time.Hour
			options := func() Options {
				o := testOptions(fs, SyncAlways)
				o.Clock = clock.now // and no Retention: the cuts are made below
				return o
			}
			n := mustOpen(t, options())
			m := model{}
			cutMs := int64(math.MinInt64)
			for range 90 {
				now := clock.ms.Add(rng.Int64N(3 * dayMs))
				w := &testWriter{node: n}
				for range 1 + rng.IntN(40) {
					key, at, v := testKey(rng.IntN(12)+int(now/(40*dayMs))*5), now-rng.Int64N(60_000), float64(rng.IntN(1000))
					if rng.IntN(4) == 0 {
						at -= rng.Int64N(70 * dayMs)
					}
					w.add(key, at, v)
					if at >= cutMs {
						m.put(key, at, v)
					}
				}
				if err := w.send(context.Background()); err != nil {
					t.Fatal(err)
				}
				switch rng.IntN(8) {
				case 0, 1:
					cutMs = retentionCut(clock.now(), retention)
					if err := n.cut(context.Background(), &retentionPlan{wholeMs: cutMs}); err != nil {
						t.Fatal(err)
					}
					if err := n.engine.Retain(); err != nil {
						t.Fatal(err)
					}
					m.before(cutMs)
				case 2:
					if err := n.engine.Flush(); err != nil {
						t.Fatal(err)
					}
				case 3:
					if err := n.checkpoint(); err != nil {
						t.Fatal(err)
					}
				case 4:
					if _, err := n.engine.Compact(context.Background(), now); err != nil {
						t.Fatal(err)
					}
				case 5:
					deleteSome(t, rng, n, m, now)
				case 6:
					killed := fs.CrashClone(vfs.CrashOptions{Seed: seed, BlockPercent: 50, NamePercent: 50})
					if err := n.Close(); err != nil {
						t.Fatal(err)
					}
					fs = killed
					n = mustOpen(t, options())
				}
				if diff := differences(m, contents(t, n)); len(diff) > 0 {
					t.Fatalf("seed %d: %q", seed, diff)
				}
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRetentionCutIsRoundedDown(t *testing.T) {
	for _, at := range []int64{0, 1, -1, segment.HourMs, 1_700_000_000_000, -1_700_000_000_000, -2 * segment.HourMs} {
		got := retentionCut(time.UnixMilli(at), 0)
		if got > at || got <= at-retentionUnit || segment.PartitionOf(at, segment.SpanTwoHours).StartMs != got {
			t.Errorf("the cut at %d is %d", at, got)
		}
	}
}

// TestRetentionDropsFilesAndSeries follows a series that ends, is forgotten with
// its months, and comes back.
func TestRetentionDropsFilesAndSeries(t *testing.T) {
	clock := newClock(time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC).UnixMilli())
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock = clock.now
	o.Retention = 10 * 24 * time.Hour
	n := mustOpen(t, o)
	defer n.Close()
	ctx := context.Background()
	old, alive := testKey(1), testKey(2)
	put(t, n, old, clock.ms.Load(), 1)
	put(t, n, alive, clock.ms.Load(), 2)
	if err := n.CompactAll(ctx); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		put(t, n, alive, clock.ms.Add(dayMs), 3)
	}
	if err := n.retain(ctx); err != nil {
		t.Fatal(err)
	}
	s := n.engine.Stats()
	if s.SegmentsExpired == 0 {
		t.Error("no segment was dropped")
	}
	skipped := s.SamplesSkipped
	put(t, n, alive, clock.ms.Load()-11*dayMs, 4)
	if got := n.engine.Stats().SamplesSkipped - skipped; got != 1 {
		t.Errorf("%d late samples were counted, want 1", got)
	}
	seriesOf := func() (keys []string) {
		if _, err := n.Series(ctx, &scan.Selector{MetricAny: true}, 0, func(k series.Key) error {
			keys = append(keys, k.String())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	if keys := seriesOf(); len(keys) != 1 || keys[0] != alive.String() {
		t.Errorf("the series are %q, want the living one", keys)
	}
	put(t, n, old, clock.ms.Load(), 5) // found at once, long before the next flush
	if keys := seriesOf(); len(keys) != 2 {
		t.Errorf("after the old one was written again the series are %q", keys)
	}
	if got := contents(t, n)[string(old)]; len(got) != 1 {
		t.Errorf("the old series has %v", got)
	}
}

// TestForgottenAfterRestart has samples of a later month in the page log alone when
// the months before are dropped.
func TestForgottenAfterRestart(t *testing.T) {
	clock := newClock(time.Date(2024, 1, 31, 12, 0, 0, 0, time.UTC).UnixMilli())
	fs := vfs.NewMemFS()
	o := testOptions(fs, SyncOff)
	o.Clock = clock.now
	n := mustOpen(t, o)
	key := testKey(1)
	put(t, n, key, clock.ms.Load(), 1)
	put(t, n, key, clock.ms.Add(dayMs), 2)
	n = reopen(t, n, o)
	defer func() { _ = n.Close() }()
	if err := n.cut(context.Background(), &retentionPlan{wholeMs: clock.ms.Load()}); err != nil {
		t.Fatal(err)
	}
	if err := n.engine.Retain(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, n)[string(key)]; len(got) != 1 {
		t.Fatalf("the series has %v, want the sample of February", got)
	}
}

// TestSamplesBeyondRetentionDefineNothing also holds for times that no query can
// name: they have no partition.
func TestSamplesBeyondRetentionDefineNothing(t *testing.T) {
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncOff))
	if err := n.cut(context.Background(), &retentionPlan{wholeMs: 1_700_000_000_000}); err != nil {
		t.Fatal(err)
	}
	m := model{}
	for i, at := range []int64{
		math.MinInt64, math.MaxInt64, scan.TimeMsMin, scan.TimeMsMin - 1, scan.TimeMsMax + 1, 0, -1, 1_699_999_999_999,
	} {
		put(t, n, testKey(i), at, 1)
	}
	if got := n.SeriesCount(); got != 0 {
		t.Errorf("%d series were defined", got)
	}
	for i, at := range []int64{1_700_000_000_000, scan.TimeMsMax, 1 << 45} {
		put(t, n, testKey(i), at, 1)
		m.put(testKey(i), at, 1)
	}
	for range 2 {
		if diff := differences(m, contents(t, n)); len(diff) > 0 {
			t.Errorf("%q", diff)
		}
		if err := n.CompactAll(context.Background()); err != nil {
			t.Fatal(err)
		}
		n = reopen(t, n, testOptions(fs, SyncOff))
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestExtremeTimes keeps samples at both ends of time, through all files.
func TestExtremeTimes(t *testing.T) {
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncOff))
	m := model{}
	for i, at := range []int64{scan.TimeMsMin, scan.TimeMsMin + 1, -1, 0, scan.TimeMsMax - 1, scan.TimeMsMax, -1 << 50, 1 << 50} {
		put(t, n, testKey(i%2), at, float64(i))
		m.put(testKey(i%2), at, float64(i))
	}
	for range 2 {
		if diff := differences(m, contents(t, n)); len(diff) > 0 {
			t.Fatalf("%q", diff)
		}
		if err := n.CompactAll(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.engine.Compact(context.Background(), 1<<60); err != nil {
		t.Fatal(err)
	}
	n = reopen(t, n, testOptions(fs, SyncOff))
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Fatalf("%q", diff)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRetentionFreesAFullDisk has a disk on which not even the entry of the cut
// can be logged.
func TestRetentionFreesAFullDisk(t *testing.T) {
	var full atomic.Bool
	rule := func(op vfs.Op) error {
		if full.Load() && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpPreallocate) && filepath.Base(filepath.Dir(op.Name)) == "log" {
			return syscall.ENOSPC
		}
		return nil
	}
	clock := newClock(1_700_000_000_000)
	o := testOptions(vfs.Faults(vfs.NewMemFS(), rule), SyncOff)
	o.Clock, o.Retention = clock.now, 5*24*time.Hour
	n := mustOpen(t, o)
	defer n.Close()
	ctx := context.Background()
	put(t, n, testKey(1), clock.ms.Load(), 1)
	if err := n.CompactAll(ctx); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	fillLog(t, n, clock.ms.Load())
	before := n.engine.Stats().Segments
	clock.ms.Add(30 * dayMs)
	if err := n.retain(ctx); err != nil {
		t.Fatal(err)
	}
	n.believeClock()
	if err := n.retain(ctx); !errors.Is(err, series.ErrReadOnly) {
		t.Fatal(err)
	}
	if after := n.engine.Stats().Segments; before == 0 || after != 0 {
		t.Errorf("%d segments before, %d after", before, after)
	}
	full.Store(false)
	w := &testWriter{node: n}
	w.add(testKey(1), clock.ms.Load(), 1)
	frame := w.take()
	// A write may still meet the last try that found no room.
	for refused := errors.New(""); refused != nil; {
		if _, refused = n.Write(ctx, frame); refused != nil && !errors.Is(refused, series.ErrReadOnly) {
			t.Fatal(refused)
		}
	}
}

// fillLog writes until the log takes no more.
func fillLog(t *testing.T, n *Node, timeMs int64) {
	t.Helper()
	for range 100 {
		w := &testWriter{node: n}
		for i := range int64(5000) {
			w.add(testKey(1), timeMs+i, float64(i))
		}
		switch err := w.send(t.Context()); {
		case errors.Is(err, series.ErrReadOnly):
			return
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Fatal("the log is never full")
}

// believeClock makes the node's clock one that has said for long that all samples are too old.
func (n *Node) believeClock() {
	n.clocks.SetSteady(func(time.Time) time.Duration { return 200 * 365 * 24 * time.Hour })
}

// TestClockThatJumpsAlone: a node without others, whose clock jumps by years, keeps what it has
// until the clock is set right, or has said the same for a day.
func TestClockThatJumpsAlone(t *testing.T) {
	const nowMs = int64(1_700_000_000_000)
	clock := newClock(nowMs)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Retention = clock.now, 30*24*time.Hour
	n := mustOpen(t, o)
	defer func() { n.Close() }()
	put(t, n, testKey(1), nowMs, 1)
	put(t, n, testKey(2), nowMs+100*365*dayMs, 1) // a device whose clock is wrong, too
	kept := func(what string, want bool) {
		t.Helper()
		if err := n.retain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := len(contents(t, n)[string(testKey(1))]) > 0; got != want || n.clocks.Held() != (want && clock.ms.Load() != nowMs) {
			t.Errorf("%s the samples are there: %v, held: %v", what, got, n.clocks.Held())
		}
	}
	kept("before", true)
	clock.ms.Add(10 * 365 * dayMs)
	kept("after the jump", true)
	if problems := strings.Join(n.Problems(), "\n"); !strings.Contains(problems, "may have jumped") {
		t.Errorf("people are told %q", problems)
	}
	n = reopen(t, n, o)
	kept("after a restart", true)
	clock.ms.Store(nowMs)
	kept("set right", true)
	clock.ms.Add(10 * 365 * dayMs)
	kept("after another jump", true)
	n.believeClock()
	kept("after a day", false)
}

// TestClockThatIsSetAlone: a node without others, whose clock is set ahead by years, keeps what it
// has, though samples come that are stamped by the new time, until the clock is set right, or has
// said the same for a day.
func TestClockThatIsSetAlone(t *testing.T) {
	const nowMs, tenYearsMs = int64(1_700_000_000_000), 10 * 365 * dayMs
	clock := newClock(nowMs)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Retention = clock.now, 30*24*time.Hour
	n := mustOpen(t, o)
	defer n.Close()
	var passed atomic.Int64
	n.clocks.SetSteady(func(time.Time) time.Duration { return time.Duration(passed.Load()) })
	put(t, n, testKey(1), nowMs, 1)
	look := func(what string, kept, held bool) {
		t.Helper()
		if err := n.retain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := len(contents(t, n)[string(testKey(1))]) > 0; got != kept || n.clocks.Held() != held {
			t.Errorf("%s the samples are there: %v, held: %v", what, got, n.clocks.Held())
		}
	}
	look("before", true, false)
	clock.ms.Add(tenYearsMs)
	put(t, n, testKey(2), clock.ms.Load(), 1)
	look("after the jump and a write", true, true)
	if problems := strings.Join(n.Problems(), "\n"); !strings.Contains(problems, "was set ahead") {
		t.Errorf("people are told %q", problems)
	}
	clock.ms.Store(nowMs)
	look("set right", true, false)
	passed.Store(int64(time.Hour))
	clock.ms.Store(nowMs + 90*60*1000)
	look("half an hour ahead", true, false)
	clock.ms.Add(tenYearsMs)
	look("after another jump", true, true)
	passed.Add(int64(clocks.DoubtMax))
	clock.ms.Add(tenYearsMs)
	look("and one more a day later", true, true)
	passed.Add(int64(clocks.DoubtMax))
	look("after a day", false, false)
	look("and then", false, false)
}

// TestPartitionsFollowTheNodesRetention: what a node keeps for a month it cuts off by day, not a
// month late.
func TestPartitionsFollowTheNodesRetention(t *testing.T) {
	const oldMs, keepDays = int64(1_700_000_000_000), 30 // the middle of a month
	clock := newClock(oldMs)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Retention = clock.now, keepDays*24*time.Hour
	n := mustOpen(t, o)
	defer n.Close()
	put(t, n, testKey(1), oldMs, 1)
	put(t, n, testKey(2), oldMs+5*dayMs, 1)
	clock.ms.Add((keepDays - 1) * dayMs) // both are old, and kept
	if err := n.CompactAll(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := n.engine.Stats().Segments
	clock.ms.Add((1 + keepDays/10) * dayMs)
	put(t, n, testKey(3), clock.ms.Load(), 1) // the clock is that of its samples
	if err := n.retain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := n.engine.Stats(); before != 2 || s.SegmentsExpired != 1 {
		t.Errorf("of %d segments %d have left the disk a tenth of the retention after the cut", before, s.SegmentsExpired)
	}
}
