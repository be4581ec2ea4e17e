package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const hourMs = dayMs / 24

// thinKeys are series of two databases: raw says something of one of them only.
func thinKeys() (keys []series.Key) {
	for i := range 4 {
		keys = append(keys, keyIn("thin", "cpu", i), keyIn("all", "cpu", i))
	}
	return keys
}

const thinRules = "databases: {thin: {raw: 2d, retention: 100d}, all: {retention: 100d}}"

// thinWant is what a scan of samples finds: before the cut the last one of each hour.
func thinWant(m model, cutMs int64) model {
	want := model{}
	for key, samples := range m {
		last := map[int64]int64{}
		for at := range samples {
			last[at/hourMs] = max(last[at/hourMs], at)
		}
		database, _, _, _ := series.Key(key).Head()
		for at, v := range samples {
			if at >= cutMs || string(database) != "thin" || last[at/hourMs] == at {
				want.put(series.Key(key), at, math.Float64frombits(v))
			}
		}
	}
	return want
}

// allWindows returns the bits of windows by hours and days of all series in a range.
func allWindows(t *testing.T, n *Node, fromMs, toMs int64) string {
	t.Helper()
	text := ""
	for _, widthMs := range []int64{hourMs, 6 * hourMs, dayMs, 2 * dayMs} {
		found := map[string]string{}
		for _, database := range []string{"thin", "all"} {
			request := &scan.Request{
				Selector: scan.Selector{Database: database, MetricAny: true}, FromMs: fromMs, ToMs: toMs,
				Windows: &scan.Windows{WidthMs: widthMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin |
					scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast},
			}
			err := n.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
				for i, at := range c.Times {
					found[string(c.Key)] += fmt.Sprintf("%d: %d %x %v %v %v %v\n", at, c.Count[i], math.Float64bits(c.Sum[i]), c.Min[i], c.Max[i], c.First[i], c.Last[i])
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(found)) {
			text += fmt.Sprintf("%x by %d ms\n%s", key, widthMs, found[key])
		}
	}
	return text
}

func mustHaveThinned(t *testing.T, what string, n *Node, m model, cutMs int64) {
	t.Helper()
	got := model{}
	for _, database := range []string{"thin", "all"} {
		request := &scan.Request{Selector: scan.Selector{Database: database, MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
		err := n.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
			for i, at := range c.Times {
				got.put(c.Key, at, c.Values[i])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := differences(thinWant(m, cutMs), got); len(diff) > 0 {
		t.Fatalf("%s: %d differ: %.200q", what, len(diff), diff)
	}
}

// TestRaw: samples from before raw are the last of their hours, whether files are thinned already or not, and windows of whole
// hours go on to tell of all of them. Those that come too late are left out.
func TestRaw(t *testing.T) {
	const days, startMs = 8, 19_700 * dayMs
	clock := newClock(startMs + days*dayMs)
	var rules atomic.Pointer[tenancy.Rules]
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Rules, o.GenerationBytesMax = clock.now, rules.Load, 1<<30
	n := mustOpen(t, o)
	m := model{}
	for i, key := range thinKeys() {
		w := &testWriter{node: n}
		for at := startMs + int64(i); at < clock.ms.Load(); at += 11 * 60_000 {
			v := float64((at/60_000*int64(7+i))%1000) / 4
			w.add(key, at, v)
			m.put(key, at, v)
		}
		if err := w.send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cutMs := int64(startMs + (days-2)*dayMs)
	windows := allWindows(t, n, startMs, clock.ms.Load()-1)
	check := func(what string) {
		t.Helper()
		mustHaveThinned(t, what, n, m, cutMs)
		if got := allWindows(t, n, startMs, startMs+days*dayMs-1); got != windows {
			t.Fatalf("%s: windows have become others", what)
		}
	}
	thin := func() {
		t.Helper()
		if err := n.thin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	thin()
	if n.engine.LetsThin() {
		t.Fatal("without rules the folder may have thinned hours")
	}
	rules.Store(rulesOf(t, thinRules))
	thin()
	check("cut")
	n = reopen(t, n, o)
	check("after a restart")
	thin()
	compact := func(what string) {
		t.Helper()
		before := n.engine.Stats().SegmentSamples
		if err := n.CompactAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := n.engine.Stats().SegmentSamples; after != int64(thinWant(m, cutMs).count()) {
			t.Fatalf("%s: segments have %d samples, %d before", what, after, before)
		}
		check(what)
	}
	compact("thinned")
	n = reopen(t, n, o)
	check("thinned and started again")

	for _, day := range []int64{startMs, cutMs - dayMs} {
		_, err := n.engine.RepairRange(t.Context(), thinKeys()[0].Shard(testShards), day, day+dayMs-1, nil)
		if !errors.Is(err, transfer.ErrRepair) || !strings.Contains(err.Error(), "start it on an empty data folder") {
			t.Fatalf("a repair from samples: %v", err)
		}
	}
	late := &testWriter{node: n}
	late.add(thinKeys()[0], cutMs-1, 1) // would be the last of its hour
	late.add(thinKeys()[0], startMs+1, 2)
	late.add(keyIn("thin", "new", 1), startMs+1, 3)
	late.add(thinKeys()[1], startMs+2, 4)
	m.put(thinKeys()[1], startMs+2, 4)
	tooLate := n.engine.Stats().SamplesTooLate
	if err := late.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.engine.Stats().SamplesTooLate - tooLate; got != 3 {
		t.Errorf("%d samples came too late, not 3", got)
	}
	mustHaveThinned(t, "late samples came", n, m, cutMs)
	windows = allWindows(t, n, startMs, startMs+days*dayMs-1)

	clock.ms.Add(dayMs)
	cutMs += dayMs
	thin()
	check("a day later")
	compact("a day later, thinned")
	rules.Store(nil)
	clock.ms.Add(dayMs)
	thin()
	check("without rules")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func (m model) count() (count int) {
	for _, samples := range m {
		count += len(samples)
	}
	return count
}

// TestClusterThins: nothing is cut while one node is of an earlier version, be it a witness without rules. Then it is on all
// copies alike, whether one has thinned its files or not.
func TestClusterThins(t *testing.T) {
	const days, startMs = 6, 19_700 * dayMs
	c := newTestCluster(t)
	clock := newClock(startMs + days*dayMs)
	var rules atomic.Pointer[tenancy.Rules]
	c.options = func(name string, o *Options) {
		o.Clock, o.GenerationBytesMax = clock.now, 1<<30
		if name != "c" {
			o.Rules = rules.Load
		}
	}
	c.clock = func(string) func() time.Time { return clock.now }
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	m := model{}
	for _, key := range thinKeys() {
		var e series.BatchEncoder
		id, points := e.Define(key), 0
		for at := int64(startMs); at < startMs+days*dayMs; at += 17 * 60_000 {
			e.Append(id, at, at/60_000%1000, 0)
			m.put(key, at, float64(at/60_000%1000))
			points++
		}
		c.writeFrame(&series.Frame{Parts: []series.Part{{Shard: key.Shard(testShards), Batch: e.AppendTo(nil)}}, Points: points})
	}
	a, b := c.reach("", "a"), c.reach("", "b")
	same := func() {
		t.Helper()
		c.await("both copies have applied the same", func() bool {
			for shard := range uint16(testShards) {
				if a.engine.ShardStats(shard).Applied != b.engine.ShardStats(shard).Applied {
					return false
				}
			}
			return true
		})
	}
	same()
	windows := allWindows(t, a, startMs, startMs+days*dayMs-1)
	check := func(what string, cutMs int64) {
		t.Helper()
		same()
		for _, n := range []*Node{a, b} {
			mustHaveThinned(t, what, n, m, cutMs)
			if allWindows(t, n, startMs, startMs+days*dayMs-1) != windows {
				t.Fatalf("%s: windows have become others", what)
			}
		}
	}
	live := func() { // all hear of each other
		clock.ms.Add(60_000)
		c.write(testKey(0), clock.ms.Load(), 1, series.BatchID{})
	}
	rules.Store(rulesOf(t, thinRules))
	for _, upgraded := range [][]string{nil, {"a", "b"}} {
		c.upgrade(upgraded...)
		for range 3 {
			live()
			for _, name := range []string{"a", "b"} {
				n := c.reach("", name)
				if err := n.thin(t.Context()); err != nil || n.engine.LetsThin() {
					t.Fatalf("node %s goes on (%v)", name, err)
				}
			}
		}
		check("one is of an earlier version", scan.TimeMsMin)
	}
	c.upgrade("c")
	cutMs := int64(startMs + (days-2)*dayMs)
	c.await("the cuts are known on both copies", func() bool {
		live()
		for _, n := range []*Node{a, b} {
			for shard := range uint16(testShards) {
				if len(n.engine.ShardThinCuts(shard)) == 0 {
					return false
				}
			}
		}
		return true
	})
	if !c.reach("", "c").engine.LetsThin() {
		t.Fatal("the witness's folder does not tell that its log may have cuts")
	}
	check("cut", cutMs)
	c.await("one copy has thinned its files", func() bool {
		if err := a.thin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.CompactAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a.engine.Stats().SegmentSamples < int64(m.count())
	})
	check("one copy has thinned its files", cutMs)
}

// TestRawChangesOften: whoever adds and removes databases with a raw is followed each time, as what earlier rules have cut is too old
// for all before long.
func TestRawChangesOften(t *testing.T) {
	clock := newClock(19_700 * dayMs)
	var rules atomic.Pointer[tenancy.Rules]
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Rules, o.Retention = clock.now, rules.Load, 20*24*time.Hour
	n := mustOpen(t, o)
	for i := range 100 {
		text := "databases:\n  audit: {raw: 0}\n"
		for k := range 4 {
			text += fmt.Sprintf("  d%d: {raw: %dd}\n", i+k, 1+(i+k)%5)
		}
		rules.Store(rulesOf(t, text))
		clock.ms.Add(dayMs)
		put(t, n, testKey(1), clock.ms.Load(), 1) // so that the clock is believed
		wanted := planThin(rules.Load().RawRules(), clock.now())
		followed := func() bool {
			if err := errors.Join(n.retain(t.Context()), n.thin(t.Context())); err != nil {
				t.Fatal(err)
			}
			known := n.engine.ShardThinCuts(0)
			return len(known) > 0 && known[len(known)-1].SameRules(wanted)
		}
		// Maintenance that began with the rules before may come in between, once.
		for attempt := 1; !followed(); attempt++ {
			if attempt >= 3 {
				t.Fatalf("change %d waits: %d lists are known", i, len(n.engine.ShardThinCuts(0)))
			}
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
