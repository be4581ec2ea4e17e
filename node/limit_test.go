package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// writeSeries writes one sample to each of the series and returns those refused.
func writeSeries(t *testing.T, n *Node, from, to int, timeMs int64) (refused map[string]error) {
	t.Helper()
	var encoders [testShards]series.BatchEncoder
	keys := make([][]series.Key, testShards)
	for i := from; i < to; i++ {
		key := testKey(i)
		shard := key.Shard(testShards)
		var id series.ID
		if ref, known, err := n.LookupSeries(key); err != nil {
			t.Fatal(err)
		} else if known {
			id = ref.ID
		} else {
			id = encoders[shard].Define(key)
			keys[shard] = append(keys[shard], key)
		}
		encoders[shard].Append(id, timeMs, int64(i), 0)
	}
	frame := series.Frame{}
	var parts []int
	for shard := range encoders {
		if e := &encoders[shard]; e.Points() > 0 {
			frame.Parts = append(frame.Parts, series.Part{Shard: uint16(shard), Batch: e.AppendTo(nil)})
			parts = append(parts, shard)
		}
	}
	outcome, err := n.Write(context.Background(), &frame)
	if err != nil {
		t.Fatal(err)
	}
	refused = map[string]error{}
	for _, r := range outcome.Refused {
		refused[string(keys[parts[r.Part]][r.Definition])] = r.Err
	}
	return refused
}

// checkLimited compares the outcome of writeSeries with what is there.
func checkLimited(t *testing.T, n *Node, refused map[string]error, from, to int, timeMs int64, admitted int) {
	t.Helper()
	got := contents(t, n)
	there := 0
	for i := from; i < to; i++ {
		key := testKey(i)
		v, ok := got[string(key)][timeMs]
		err := refused[string(key)]
		if ok == (err != nil) {
			t.Errorf("%s is there: %v, and its refusal %v", key, ok, err)
		}
		if ok {
			there++
			if want := (model{}); v != func() uint64 { want.put(key, 0, float64(i)); return want[string(key)][0] }() {
				t.Errorf("%s is %x", key, v)
			}
		}
		if err != nil && !errors.Is(err, series.ErrSeriesLimit) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if there != admitted {
		t.Errorf("%d series are there, want %d", there, admitted)
	}
}

func TestSeriesMax(t *testing.T) {
	fs := vfs.NewMemFS()
	o := testOptions(fs, SyncOff)
	o.Limits.SeriesMax = 25
	n := mustOpen(t, o)
	checkLimited(t, n, writeSeries(t, n, 0, 20, 1), 0, 20, 1, 20)
	checkLimited(t, n, writeSeries(t, n, 10, 40, 2), 10, 40, 2, 15) // 10 known, 5 new
	n = reopen(t, n, o)
	checkLimited(t, n, writeSeries(t, n, 0, 60, 3), 0, 60, 3, 25)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSeriesMaxOfForgotten: series that are forgotten leave their places to others, which those of a start know, too.
func TestSeriesMaxOfForgotten(t *testing.T) {
	clock := newClock(1_700_000_000_000)
	fs := vfs.NewMemFS()
	o := testOptions(fs, SyncOff)
	o.Limits.SeriesMax, o.Clock = 25, clock.now
	n := mustOpen(t, o)
	checkLimited(t, n, writeSeries(t, n, 0, 30, 1), 0, 30, 1, 25)
	deleteAll(t, n)
	if err := n.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	awaitForgotten(t, n, clock, 25)
	checkLimited(t, n, writeSeries(t, n, 30, 45, 2), 30, 45, 2, 15)
	n = reopen(t, n, o)
	checkLimited(t, n, writeSeries(t, n, 45, 60, 3), 45, 60, 3, 10)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSeriesMaxHoldsForManyWriters lets writers race for the last places.
func TestSeriesMaxHoldsForManyWriters(t *testing.T) {
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Limits.SeriesMax = 100
	n := mustOpen(t, o)
	defer n.Close()
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := range 10 {
				w := &testWriter{node: n}
				for k := range 5 {
					w.add(testKey(1000*i+10*j+k), 1, 1)
				}
				if err := w.send(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if got := n.SeriesCount(); got != 100 {
		t.Errorf("there are %d series, want 100", got)
	}
}

func TestSeriesPerSecondMax(t *testing.T) {
	clock := newClock(1_700_000_000_000)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Limits.SeriesPerSecondMax, o.Clock = 10, clock.now
	n := mustOpen(t, o)
	defer n.Close()
	at := int64(0)
	for _, step := range []struct {
		pass     time.Duration
		from, to int
		admitted int
	}{
		{0, 0, 15, 10},                        // a burst of one second
		{500 * time.Millisecond, 20, 40, 5},   // half of it has come back
		{0, 40, 50, 0},                        // nothing left
		{0, 0, 15, 10},                        // known ones are free
		{time.Hour, 100, 130, 10},             // not more than one burst
		{-time.Hour, 200, 230, 0},             // a clock that goes back adds nothing
		{1100 * time.Millisecond, 30, 36, -1}, // and goes on from there
	} {
		at++
		clock.ms.Add(step.pass.Milliseconds())
		refused := writeSeries(t, n, step.from, step.to, at)
		if step.admitted >= 0 {
			checkLimited(t, n, refused, step.from, step.to, at, step.admitted)
		} else if len(refused) == step.to-step.from {
			t.Error("nothing was admitted after the clock had gone back")
		}
	}
}

// TestBadBatchHurtsNobodyElse puts a broken batch into the same entry as others.
func TestBadBatchHurtsNobodyElse(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	defer n.Close()
	batch := func(timeMs int64) []byte {
		var e series.BatchEncoder
		e.Append(e.Define(testKey(0)), timeMs, 1, 0)
		return e.AppendTo(nil)
	}
	cut := batch(1)
	var noSlot, badKey series.BatchEncoder
	noSlot.Append(series.SlotBase+7, 1, 1, 0)
	badKey.Append(badKey.Define(series.Key("no key")), 1, 1, 0)
	bad := map[string][]byte{
		"cut": cut[:len(cut)-1], "empty": {}, "noise": []byte("not a batch"),
		"slot": noSlot.AppendTo(nil), "key": badKey.AppendTo(nil),
	}
	shard := testKey(0).Shard(testShards)
	at := int64(1)
	for name, body := range bad {
		ctx := context.Background()
		errs := make(chan error, 3)
		hold := make(chan struct{})
		go n.loop.queue.do(func() { <-hold }) // so that the three wait together
		for i, b := range [][]byte{batch(at + 1), body, batch(at + 2)} {
			go func() {
				_, err := n.Write(ctx, &series.Frame{Parts: []series.Part{{Shard: shard, Batch: b}}})
				if want := i == 1; want != errors.Is(err, series.ErrBatch) || !want && err != nil {
					errs <- fmt.Errorf("%s: write %d: %v", name, i, err)
					return
				}
				errs <- nil
			}()
		}
		close(hold)
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if err := n.Health(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		samples := contents(t, n)[string(testKey(0))]
		if len(samples) != int(at+1) && len(samples) != int(at)-1+2 {
			t.Errorf("%s: %d samples", name, len(samples))
		}
		at += 2
	}
}

func TestWriteTooLarge(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	defer n.Close()
	_, err := n.Write(context.Background(), &series.Frame{Parts: []series.Part{{Batch: make([]byte, writeBytesMax+1)}}})
	if !errors.Is(err, series.ErrBatch) {
		t.Error(err)
	}
	if _, err := n.Write(context.Background(), &series.Frame{Parts: []series.Part{{Shard: testShards}}}); !errors.Is(err, series.ErrBatch) {
		t.Error(err)
	}
	if err := n.Health(); err != nil {
		t.Error(err)
	}
}
