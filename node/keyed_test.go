package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// keyedFrame has one sample of each of the series from…to, with definitions of all.
func keyedFrame(id uint64, from, to int, value float64) *series.Frame {
	var encoders [testShards]series.BatchEncoder
	frame := &series.Frame{ID: series.KeyedID(id)}
	for i := from; i < to; i++ {
		key := testKey(i)
		e := &encoders[key.Shard(testShards)]
		n := series.DecimalOf(value, 2)
		e.Append(e.Define(key), 1, n.Mantissa, n.Scale)
	}
	for shard := range encoders {
		if e := &encoders[shard]; e.Points() > 0 {
			frame.Parts = append(frame.Parts, series.Part{Shard: uint16(shard), Batch: e.AppendTo(nil)})
			frame.Points += e.Points()
		}
	}
	return frame
}

// overwriteAll writes another value to all series that there are.
func overwriteAll(t *testing.T, n *Node, value float64) (series int) {
	t.Helper()
	w := &testWriter{node: n}
	for i := range 100 {
		if _, known, err := n.LookupSeries(testKey(i)); err != nil {
			t.Fatal(err)
		} else if known {
			w.add(testKey(i), 1, value)
			series++
		}
	}
	if err := w.send(context.Background()); err != nil {
		t.Fatal(err)
	}
	return series
}

func countValues(t *testing.T, n *Node, value float64) (count int) {
	t.Helper()
	want := model{}
	want.put(testKey(0), 1, value)
	for _, samples := range contents(t, n) {
		if samples[1] == want[string(testKey(0))][1] {
			count++
		}
	}
	return count
}

// Too many new series a second refuse a part whole: its repetitions apply what was not
// applied, until all is, and never again what was.
func TestKeyedWriteWithinARate(t *testing.T) {
	const most, all = 4, 30
	clock := newClock(1_700_000_000_000)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Limits.SeriesPerSecondMax, o.Clock = most, clock.now
	n := mustOpen(t, o)
	defer n.Close()
	overwritten := 0
	for try := range all {
		_, err := n.Write(context.Background(), keyedFrame(9, 0, all, 1))
		if err == nil {
			if try == 0 {
				t.Fatal("the limit has not refused anything")
			}
			break
		}
		if !errors.Is(err, series.ErrSeriesRate) {
			t.Fatal(err)
		}
		overwritten = overwriteAll(t, n, 2)
		clock.ms.Add(time.Minute.Milliseconds())
	}
	if _, err := n.Write(context.Background(), keyedFrame(9, 0, all, 1)); err != nil {
		t.Fatal(err)
	}
	if first, second := countValues(t, n, 1), countValues(t, n, 2); first+second != all || second != overwritten || second == 0 {
		t.Errorf("%d samples have their first value and %d another, of %d; %d were overwritten", first, second, all, overwritten)
	}
}

// A limit that stays leaves new series out, the same ones when the write is repeated.
func TestKeyedWriteWithinALimit(t *testing.T) {
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Limits.SeriesMax = 20
	n := mustOpen(t, o)
	defer n.Close()
	checkLimited(t, n, writeSeries(t, n, 0, 15, 0), 0, 15, 0, 15)
	for range 3 {
		outcome, err := n.Write(context.Background(), keyedFrame(9, 0, 40, 1))
		if err != nil || len(outcome.Refused) == 0 {
			t.Fatalf("%+v, %v", outcome, err)
		}
		for _, refusal := range outcome.Refused {
			if !errors.Is(refusal.Err, series.ErrSeriesLimit) || errors.Is(refusal.Err, series.ErrSeriesRate) {
				t.Fatal(refusal.Err)
			}
		}
		there := overwriteAll(t, n, 2)
		if got := countValues(t, n, 2); got != there || there < 15 {
			t.Fatalf("%d of %d samples were overwritten", got, there)
		}
	}
	before := countValues(t, n, 2)
	if _, err := n.Write(context.Background(), keyedFrame(9, 0, 40, 1)); err != nil {
		t.Fatal(err)
	}
	if got := countValues(t, n, 2); got != before {
		t.Errorf("%d samples have an old value again", before-got)
	}
}
