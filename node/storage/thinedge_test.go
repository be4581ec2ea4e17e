package storage

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// thinLab has a node with one shard, of whose first series there are samples at some times, each in the file of its day.
func thinLab(t *testing.T, timesMs ...int64) (n *labNode, log *labLog) {
	t.Helper()
	logs := newLabLogs()
	n, log = newLabNode(t, logs), logs[0]
	log.thins = true
	n.hosts[0] = true
	for _, at := range timesMs {
		log.put(log.keys[:1], at)
	}
	log.put(log.keys[1:2], timesMs[0]+12*segment.HourMs) // so that the file has later times than the first series
	n.apply(0, math.MaxInt)
	n.seal()
	n.compactBounded()
	return n, log
}

// compactBounded compacts until there is nothing to do.
func (n *labNode) compactBounded() {
	n.t.Helper()
	const jobsMax = 20
	for range jobsMax {
		did, err := n.e.Compact(context.Background(), n.logs[0].nowMs)
		if err != nil {
			n.t.Fatal(err)
		}
		if !did {
			return
		}
	}
	n.t.Fatalf("compactions do not end; the segments are %d", len(n.e.files.Current().Segments))
}

// cutHours adds a cut of all series.
func (l *labLog) cutHours(cutMs int64) {
	cuts := retention.Cuts{OtherMs: cutMs}
	of := slowRules{first: "none", second: "none"}
	of.cutsMs[2] = cutMs
	l.add(entry.ThinCuts, retention.Encode(&cuts), func(m *slowShard) { m.thin = append(m.thin, of) })
}

// thin has a node thin what it has.
func (n *labNode) thin() {
	n.t.Helper()
	n.apply(0, math.MaxInt)
	if _, err := n.e.PrepareThin(func() error { n.seal(); return nil }); err != nil {
		n.t.Fatal(err)
	}
	n.compactBounded()
}

// hourCounts returns how many samples hours have, of all series.
func (n *labNode) hourCounts() map[int64]int64 {
	n.t.Helper()
	counts := map[int64]int64{}
	err := n.e.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{MetricAny: true, Shards: []uint16{0}}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax,
		Windows: &scan.Windows{WidthMs: segment.HourMs, Aggregates: scan.AggregateCount},
	}, func(_ int, c *scan.Chunk) error {
		for i, at := range c.Times {
			counts[at] += c.Count[i]
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return counts
}

const minuteMs = 60_000

// thinDayMs is the day of which the tests thin the hours.
const thinDayMs = (1_700_000_000_000/segment.DayMs - 12) * segment.DayMs

// TestPurgedDeleteAfterStart: a delete of a part of an hour from before the cut is worked into the file that is thinned, and still
// hides samples of another one. After a start the rollup of the hour is used as before.
func TestPurgedDeleteAfterStart(t *testing.T) {
	const hour = thinDayMs + 10*segment.HourMs
	n, log := thinLab(t, hour+minuteMs, hour+5*minuteMs, hour+30*minuteMs, hour+50*minuteMs, hour+24*segment.HourMs)
	defer n.end()
	fromMs, toMs := hour+20*minuteMs, hour+25*segment.HourMs
	log.add(entry.Delete, entry.DeleteBody([]uint32{0}, fromMs, toMs), func(m *slowShard) {
		for at := range m.samples[string(log.keys[0])] {
			if at >= fromMs && at <= toMs {
				delete(m.samples[string(log.keys[0])], at)
			}
		}
	})
	log.cutHours(thinDayMs + segment.DayMs)
	n.thin()
	stones := n.e.Tombstones()
	if got := n.hourCounts()[hour]; got != 2 || stones != 1 {
		t.Fatalf("%d samples, %d deletes", got, stones)
	}
	n.end()
	n.open()
	if got := n.hourCounts()[hour]; got != 2 {
		t.Errorf("%d samples in the hour after a start, want 2", got)
	}
}

// TestThinBesideMissing: where a file cannot be opened, those of other days are thinned once.
func TestThinBesideMissing(t *testing.T) {
	const hour = thinDayMs + 10*segment.HourMs
	n, log := thinLab(t, hour+minuteMs, hour+5*minuteMs, hour+2*segment.DayMs)
	defer n.end()
	log.cutHours(thinDayMs + segment.DayMs)
	n.apply(0, math.MaxInt)
	n.seal()
	segments := n.e.files.Present().Segments
	last := segments[0].Name
	for i := range segments {
		if segments[i].StartMs > thinDayMs {
			last = segments[i].Name
		}
	}
	n.end()
	f, err := n.fs.OpenReadWrite(segmentsFolder + "/" + last)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteAt([]byte("not a segment"), 0); err != nil {
		t.Fatal(err)
	}
	if err = f.Close(); err != nil {
		t.Fatal(err)
	}
	n.open()
	if missing := len(n.e.files.Current().Missing); missing != 1 {
		t.Fatalf("%d files are missed of %d", missing, len(segments))
	}
	n.thin()
	if got := n.stored(); got != 2 {
		t.Errorf("the other file has %d samples, want 2", got)
	}
}

// TestDeleteOfAllTimeBehindCut: a delete of all times may name more than the times that are kept.
func TestDeleteOfAllTimeBehindCut(t *testing.T) {
	const hour = thinDayMs + 10*segment.HourMs
	n, log := thinLab(t, hour+minuteMs, hour+5*minuteMs, hour+2*segment.DayMs)
	defer n.end()
	log.cutHours(thinDayMs + segment.DayMs)
	log.add(entry.Delete, entry.DeleteBody([]uint32{0}, math.MinInt64, math.MaxInt64), func(m *slowShard) {
		delete(m.samples, string(log.keys[0]))
	})
	log.put(log.keys[:1], log.nowMs) // queries do not pass over the series
	n.apply(0, math.MaxInt)
	n.check("deleted")
}

// TestCutDuringRepair: the other replica has applied a cut when the range is read, so it sends the last samples of hours only.
func TestCutDuringRepair(t *testing.T) {
	const hour = thinDayMs + 10*segment.HourMs
	n, log := thinLab(t, hour+minuteMs, hour+5*minuteMs, hour+2*segment.DayMs)
	defer n.end()
	other := newLabNode(t, n.logs)
	defer other.end()
	other.hosts[0] = true
	other.apply(0, math.MaxInt)
	source := &labSource{from: other, to: n, before: func() {
		log.cutHours(thinDayMs + segment.DayMs)
		other.apply(0, math.MaxInt)
	}}
	if _, err := n.e.RepairRange(context.Background(), 0, thinDayMs, thinDayMs, source); !errors.Is(err, transfer.ErrRepair) {
		t.Error(err)
	}
	n.apply(0, math.MaxInt)
	if got := n.hourCounts()[hour]; got != 2 {
		t.Errorf("%d samples in the hour after the repair, want 2", got)
	}
}

// Files of one time that no other merge joins are joined to be thinned: one by one none of them could be, as others have samples
// of the same hours.
func TestThinJoins(t *testing.T) {
	const dayMs = segment.DayMs
	n, log := thinLab(t, 100*dayMs, 100*dayMs+600_000, 100*dayMs+1200_000)
	log.put(log.keys[:1], 100*dayMs+1800_000)
	log.put(log.keys[:1], 100*dayMs+2*segment.HourMs)
	n.apply(0, math.MaxInt)
	n.seal()
	n.compactBounded()
	if files := len(n.e.files.Present().Segments); files < 2 {
		t.Fatalf("%d files of one day: this test wants more", files)
	}
	log.cutHours(102 * dayMs)
	n.thin()
	segments := n.e.files.Present().Segments
	if len(segments) != 1 || !segments[0].Thinned || segments[0].Samples != 3 { // of the hours 0, 2 and 12
		t.Fatalf("%+v", segments)
	}
	n.check("thinned")
	if counts := n.hourCounts(); counts[100*dayMs] != 4 {
		t.Fatalf("%v", counts)
	}
	n.end()
}
