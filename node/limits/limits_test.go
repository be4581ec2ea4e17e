package limits

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// fakeIndex has some series; fakeLed leads everything.
type fakeIndex map[string]bool

func (f fakeIndex) LookupSeries(key series.Key) (series.Ref, bool, error) {
	return series.Ref{}, f[string(key)], nil
}
func (f fakeIndex) SeriesCount() int64 { return int64(len(f)) }
func (f fakeIndex) SeriesKnown() int64 { return int64(len(f)) }
func (f fakeIndex) SeriesMax() int64   { return math.MaxInt64 }

// shortIndex has memory for so many series.
type shortIndex struct {
	fakeIndex
	max int64
}

func (x shortIndex) SeriesMax() int64 { return x.max }

// A node without flags makes no more series than it has memory for: of a write with a key all or
// none, of any other as many as there is room for.
func TestSeriesThatMemoryHasNoRoomForAreRefused(t *testing.T) {
	l := newLimiter(shortIndex{fakeIndex{string(keyOf(0)): true, string(keyOf(1)): true, string(keyOf(2)): true}, 4}, Bounds{}, frozen)
	var a Admission
	if _, _, err := l.Admit(frameOf(series.KeyedID(1), 0, 6), 0, &a); err != nil || len(a.Refused) != 3 {
		t.Fatalf("%v, refused %v", err, a.Refused)
	}
	a = Admission{}
	if _, _, err := l.Admit(frameOf(series.BatchID{}, 0, 6), 0, &a); err != nil || len(a.Refused) != 2 || !errors.Is(a.Refused[0].Err, series.ErrSeriesLimit) {
		t.Fatalf("%v, refused %v", err, a.Refused)
	}
	if err := a.Refused[0].Err; !strings.Contains(err.Error(), "--memory-limit") {
		t.Errorf("the refusal names no remedy: %v", err)
	}
}

type fakeLed struct{}

func (fakeLed) SeriesLed(string) (int64, error) { return 0, nil }
func (fakeLed) ShareLed() float64               { return 1 }

func keyOf(i int) series.Key {
	return series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("host"), Value: fmt.Append(nil, i)}})
}

// frameOf returns a frame with one point for each of the series.
func frameOf(id series.BatchID, from, to int) *series.Frame {
	var e series.BatchEncoder
	for i := from; i < to; i++ {
		e.Append(e.Define(keyOf(i)), 1_700_000_000_000, int64(i), 0)
	}
	return &series.Frame{ID: id, Parts: []series.Part{{Batch: e.AppendTo(nil)}}}
}

func newLimiter(index Index, bounds Bounds, clock func() time.Time) *Limiter {
	return New(Options{Bounds: bounds, Index: index, Led: fakeLed{}, Clock: clock})
}

func frozen() time.Time { return time.Unix(1_700_000_000, 0) }

// What is let in counts until it is released, as it may not be in the index yet.
func TestAdmittedSeriesCountUntilReleased(t *testing.T) {
	l := newLimiter(fakeIndex{}, Bounds{SeriesMax: 3}, frozen)
	var first, second, third Admission
	if _, _, err := l.Admit(frameOf(series.BatchID{}, 0, 2), 0, &first); err != nil || len(first.Refused) > 0 {
		t.Fatalf("%v, refused %v", err, first.Refused)
	}
	batch, _, err := l.Admit(frameOf(series.BatchID{}, 2, 5), 0, &second)
	if err != nil || len(second.Refused) != 2 || second.Refused[0].Definition != 1 || !errors.Is(second.Refused[0].Err, series.ErrSeriesLimit) {
		t.Fatalf("%v, refused %v", err, second.Refused)
	}
	var r series.BatchReader
	r.Reset(batch)
	key, _ := r.NextDefinition()
	if _, more := r.NextDefinition(); string(key) != string(keyOf(2)) || more {
		t.Fatalf("the batch defines %q, more: %v", key, more)
	}
	l.Release(&first)
	l.Release(&first) // once only
	if _, _, err := l.Admit(frameOf(series.BatchID{}, 5, 8), 0, &third); err != nil || len(third.Refused) != 1 {
		t.Fatalf("%v, refused %v", err, third.Refused)
	}
}

// Known series pass at any bound, and nothing of the batch is touched.
func TestKnownSeriesPass(t *testing.T) {
	index := fakeIndex{string(keyOf(0)): true, string(keyOf(1)): true}
	l := newLimiter(index, Bounds{SeriesMax: 1, SeriesPerSecondMax: 1}, frozen)
	frame := frameOf(series.BatchID{}, 0, 2)
	var a Admission
	batch, _, err := l.Admit(frame, 0, &a)
	if err != nil || len(a.Refused) > 0 || &batch[0] != &frame.Parts[0].Batch[0] {
		t.Fatalf("%v, refused %v", err, a.Refused)
	}
}

// A write with a key makes all of its series or none; what is left has an id of its own,
// the same for the same refusals.
func TestKeyedWritesAreWhole(t *testing.T) {
	l := newLimiter(fakeIndex{}, Bounds{SeriesMax: 2}, frozen)
	id := series.KeyedID(7)
	var ids [2]series.BatchID
	for i := range ids {
		var a Admission
		_, got, err := l.Admit(frameOf(id, 0, 3), 0, &a)
		if err != nil || len(a.Refused) != 3 {
			t.Fatalf("%v, refused %v", err, a.Refused)
		}
		ids[i] = got
		l.Release(&a)
	}
	if ids[0] != ids[1] || ids[0] == id || !ids[0].IsKeyed() {
		t.Fatalf("ids %v of a write %v", ids, id)
	}
	rated := newLimiter(fakeIndex{}, Bounds{SeriesPerSecondMax: 2}, frozen)
	var a, b Admission
	if _, _, err := rated.Admit(frameOf(id, 0, 3), 0, &a); err != nil {
		t.Fatal(err) // more than a second allows pass at once
	}
	if _, _, err := rated.Admit(frameOf(id, 3, 4), 0, &b); !errors.Is(err, series.ErrSeriesRate) {
		t.Fatalf("%v, want ErrSeriesRate", err)
	}
}
