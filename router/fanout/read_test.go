package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testShards = 8

func (w *world) put(c *Cluster, key series.Key, samples ...series.Sample) error {
	_, err := c.Write(context.Background(), frameOf(c, testShards, map[string][]series.Sample{string(key): samples}))
	return err
}

func TestSource(t *testing.T) {
	scantest.RunSourceTests(t, func(t *testing.T) scantest.Subject {
		w := newWorld(t, 3, testShards)
		w.nodes[2].plain.Store(true)
		c := w.open(Limits{})
		return scantest.Subject{Source: c.Source(scan.Consistency{}), Deleter: c, Put: func(key series.Key, samples ...series.Sample) error {
			return w.put(c, key, samples...)
		}}
	})
}

// fill writes series of many chunks and returns what a scan has to find.
func (w *world) fill(c *Cluster, count, samples int) map[string][]series.Sample {
	w.t.Helper()
	all := map[string][]series.Sample{}
	for i := range count {
		list := make([]series.Sample, samples+i)
		for j := range list {
			list[j] = series.Sample{TimeMs: int64(j) * 1000, Value: float64(i*1000 + j)}
		}
		all[string(scantest.Key("", "m", "n", fmt.Sprint(i)))] = list
	}
	if _, err := c.Write(context.Background(), frameOf(c, testShards, all)); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func wantAll(t *testing.T, got map[string]*scan.Chunk, want map[string][]series.Sample) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d series, want %d", len(got), len(want))
	}
	for key, list := range want {
		g := got[key]
		if g == nil || len(g.Times) != len(list) {
			t.Fatalf("%v: %+v, want %d samples", series.Key(key), g, len(list))
		}
		for i, s := range list {
			if g.Times[i] != s.TimeMs || g.Values[i] != s.Value {
				t.Fatalf("%v: sample %d is %v at %d, want %v", series.Key(key), i, g.Values[i], g.Times[i], s)
			}
		}
	}
}

// Leaders move, answers end in the middle, connections break at any byte: a scan
// yields each series once and whole, small ones and ones that are given in parts.
func TestScanUnderFaults(t *testing.T) {
	for name, f := range map[string]faults{
		"in the middle": {forget: 40}, "moves": {move: 3, hideLeader: 3}, "refusals": {refuse: 3},
		"cuts": {cut: 12}, "all": {forget: 80, move: 5, hideLeader: 3, refuse: 6, cut: 20},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, testShards)
			for _, held := range []int{1, 5000, 1 << 20} {
				c := w.open(Limits{SeriesBytesHeld: held, BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, ReadTimeout: waitBound})
				w.setFaults(faults{})
				all := w.fill(c, 40, 300)
				w.setFaults(f)
				for _, parallel := range []int{1, 3, 20} {
					request := &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: parallel}
					got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), request)
					if err != nil {
						t.Fatalf("%d bytes held, %d visitors: %v", held, parallel, err)
					}
					wantAll(t, got, all)
				}
			}
		})
	}
}

// Values at steps, and rows of groups, under the same faults, while one of the nodes is of an older
// version: each series counts once.
func TestStepsUnderFaults(t *testing.T) {
	w := newWorld(t, 3, testShards)
	w.nodes[1].plain.Store(true)
	c := w.open(Limits{SeriesBytesHeld: 1000, BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, ReadTimeout: waitBound})
	all, oracle := w.fill(c, 40, 300), scantest.NewMemory()
	for key, list := range all {
		if err := oracle.Put(series.Key(key), list...); err != nil {
			t.Fatal(err)
		}
	}
	w.setFaults(faults{forget: 40, move: 5, hideLeader: 3, refuse: 6, cut: 20})
	for _, fold := range []*scan.Fold{nil, {Kind: scan.FoldCount}, {Kind: scan.FoldMax, Names: []string{"n"}}} {
		for i, function := range []scan.StepFunction{scan.StepNewest, scan.StepIncrease, scan.StepNewest, scan.StepIncrease} {
			request := &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 3}
			request.Steps = &scan.Steps{FirstMs: 7000, LastMs: 400_000, StepMs: 5000, RangeMs: 60_000, Function: function, Fold: fold, DeduplicateMs: int64(i) / 2 * 3000}
			got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), request)
			if err != nil {
				t.Fatal(err)
			}
			want, err := scantest.Collect(context.Background(), oracle, request)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Errorf("%+v: %d rows, want %d", request.Steps, len(got), len(want))
			}
			for key, row := range want { // as text, in which a staleness marker equals itself
				if fmt.Sprint(got[key]) != fmt.Sprint(row) {
					t.Errorf("%+v: %v, want %v", request.Steps, got[key], row)
				}
			}
		}
	}
}

// The other reads under the same faults.
func TestListsUnderFaults(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, ReadTimeout: waitBound})
	all := w.fill(c, 30, 5)
	w.setFaults(faults{move: 5, hideLeader: 3, refuse: 6, cut: 20})
	ctx, source, selector := context.Background(), c.Source(scan.Consistency{}), scan.Selector{Metric: "m"}
	for range 30 {
		seen := map[string]bool{}
		total, err := source.Series(ctx, &selector, 0, func(k series.Key) error {
			if seen[string(k)] {
				t.Errorf("%v comes twice", k)
			}
			seen[string(k)] = true
			return nil
		})
		if err != nil || total != 30 || len(seen) != 30 {
			t.Fatalf("%d of %d series, %v", len(seen), total, err)
		}
		points := 0
		err = source.Last(ctx, &selector, 0, scan.Limits{}, func(p scan.Point) error {
			points++
			if list := all[string(p.Key)]; p.Sample != list[len(list)-1] {
				t.Errorf("%v: last is %v", p.Key, p.Sample)
			}
			return nil
		})
		if err != nil || points != 30 {
			t.Fatalf("%d newest samples, %v", points, err)
		}
		if names, err := source.TagValues(ctx, "", "m", "n", "1", 4); err != nil || !slices.Equal(names, []string{"1", "10", "11", "12"}) {
			t.Fatalf("%q, %v", names, err)
		}
	}
	w.setFaults(faults{})
	if touched, err := c.Delete(ctx, &selector, 0, 1000); err != nil || touched != 30 {
		t.Fatalf("%d series touched, %v", touched, err)
	}
}

// A shard without a leader fails a read, or is missing where that is accepted, or is
// answered by another voter where staleness is.
func TestShardWithoutLeader(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, ReadTimeout: 20 * time.Millisecond})
	all := w.fill(c, 40, 3)
	const lost = 3
	w.lead(lost, -1)
	request := &scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: 0, ToMs: scan.TimeMsMax}
	if _, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), request); !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("a shard without a leader: %v", err)
	}
	rest := map[string][]series.Sample{}
	for key, list := range all {
		if series.Key(key).Shard(testShards) != lost {
			rest[key] = list
		}
	}
	if len(rest) == len(all) {
		t.Fatal("the test has no series in the lost shard")
	}
	eventually(t, "no other shard to be late", func() bool { // on a busy machine some are
		w.lead(lost, -1)
		partial := c.Source(scan.Consistency{Partial: true})
		got, err := scantest.Collect(context.Background(), partial, request)
		if err != nil || !slices.Contains(partial.Missing(), lost) {
			t.Fatalf("missing %v, %v", partial.Missing(), err)
		}
		// The other reads of the same answer are without the same shards, and wait for none.
		w.lead(lost, 0)
		var counts [2]int64
		for i := range counts {
			if counts[i], err = partial.Series(context.Background(), &request.Selector, 1, func(series.Key) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(partial.Missing(), []uint16{lost}) {
			return false
		}
		wantAll(t, got, rest)
		if want := int64(len(rest)); counts != [2]int64{want, want} {
			t.Errorf("%d series; want %d", counts, want)
		}
		return true
	})
	w.lead(lost, -1)
	w.nodes[1].stale.Store(true)
	patient := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, ReadTimeout: waitBound})
	got, err := scantest.Collect(context.Background(), patient.Source(scan.Consistency{StalenessMax: time.Minute}), request)
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, got, all)
	request.Shards = []uint16{0, testShards}
	if _, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), request); err == nil {
		t.Error("a shard that is not there: no error")
	}
}

// After a visitor's error nothing more is given, though other nodes answer, too.
func TestNothingAfterStop(t *testing.T) {
	l := newShardList(&Source{}, func([]int) error { return scan.ErrStopped })
	given := 0
	inner := l.give
	l.give = func(items []int) error {
		given++
		return inner(items)
	}
	for range 3 {
		if err := l.handOver([]int{1}); !errors.Is(err, scan.ErrStopped) || given != 1 {
			t.Errorf("%v, %d given", err, given)
		}
	}
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{})
	w.fill(c, 40, 300)
	for range 20 {
		visits := 0
		request := &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax, Parallel: 1}
		err := c.Source(scan.Consistency{}).Scan(context.Background(), request, func(int, *scan.Chunk) error {
			visits++
			return scan.ErrStopped
		})
		if err != nil || visits != 1 {
			t.Fatalf("%v after %d visits", err, visits)
		}
	}
}

// A caller who leaves ends calls to nodes that hang.
func TestCancelOfHungRead(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{})
	w.fill(c, 10, 3)
	w.nodes[0].hung.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	visits := 0
	err := c.Source(scan.Consistency{}).Scan(ctx, &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax}, func(int, *scan.Chunk) error {
		if visits++; visits == 3 {
			cancel()
		}
		return nil
	})
	cancel()
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A delete whose answers are lost is asked for again, after other writers have written:
// what they wrote stays.
func TestDeleteIsRepeatedUnderItsName(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{ReadTimeout: waitBound, BackoffMin: time.Microsecond, BackoffMax: time.Millisecond})
	w.fill(c, 30, 10)
	var lost sync.Map // shard → its answer was lost
	for _, n := range w.nodes {
		n.deleted = func(shard uint16) error {
			if _, again := lost.LoadOrStore(shard, true); again {
				return nil
			}
			s := w.shards[shard]
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, key := range s.keys {
				if err := s.memory.Put(series.Key(key), series.Sample{TimeMs: 1, Value: 7}); err != nil {
					return err
				}
			}
			return series.ErrUnavailable
		}
	}
	selector := scan.Selector{Metric: "m"}
	touched, err := c.Delete(context.Background(), &selector, 0, scan.TimeMsMax)
	if err != nil || touched != 30 {
		t.Fatalf("%d series, %v", touched, err)
	}
	got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: selector, ToMs: scan.TimeMsMax})
	if err != nil || len(got) != 30 {
		t.Fatalf("%d series are left, %v", len(got), err)
	}
	// Another delete has another name.
	if _, err := c.Delete(context.Background(), &selector, 0, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
	if got, err = scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: selector, ToMs: scan.TimeMsMax}); err != nil || len(got) != 0 {
		t.Fatalf("%d series are left by a second delete, %v", len(got), err)
	}
}
