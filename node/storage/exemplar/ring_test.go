package exemplar

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	prom "github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/tickmesh/tickmesh/api/series"
)

// TestAsPrometheus plays the same exemplars to Prometheus' storage, which is asked after each step. It has room for a number of
// exemplars, so all take the same number of bytes.
func TestAsPrometheus(t *testing.T) {
	one := randomExemplar(rand.New(rand.NewPCG(1, 1)), 0)
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 15))
		places := 1 + random.IntN(20)
		oracle, err := tsdb.NewCircularExemplarStorage(int64(places), tsdb.NewExemplarMetrics(nil), 0)
		if err != nil {
			t.Fatal(err)
		}
		var r Ring
		for step := range 300 {
			if random.IntN(100) == 0 {
				places = 1 + random.IntN(20)
				oracle.(*tsdb.CircularExemplarStorage).Resize(int64(places))
			}
			bound := bytesOf(&one)*int64(places) + random.Int64N(bytesOf(&one))
			e := randomExemplar(random, int64(step))
			got, want := r.Add(bound, e), oracle.AddExemplar(seriesLabels(e.Key), prom.Exemplar{Labels: promLabels(e.Labels), Value: e.Value, Ts: e.TimeMs, HasTs: true})
			if !sameOutcome(got, want) {
				t.Fatalf("seed %d, step %d: %v, Prometheus says %v", seed, step, got, want)
			}
			from := int64(random.IntN(step + 1))
			compareAnswers(t, &r, oracle, from, from+int64(random.IntN(100)))
			checkCounts(t, &r)
		}
	}
}

// randomExemplar returns one whose value follows from its labels, so that the order by labels, which Prometheus
// takes from a hash, is never asked.
func randomExemplar(random *rand.Rand, nowMs int64) series.Exemplar {
	trace := 1 + random.IntN(3)
	return series.Exemplar{
		Key: key(random.IntN(4)), TimeMs: nowMs - int64(random.IntN(3)), Value: float64(trace),
		Labels: []series.ExemplarLabel{{Name: "trace_id", Value: fmt.Sprint(trace)}},
	}
}

func key(n int) series.Key { return series.AppendKey(nil, nil, fmt.Append(nil, n), nil) }

func sameOutcome(got, want error) bool {
	switch {
	case errors.Is(got, ErrDuplicate):
		return want == nil
	case errors.Is(got, ErrOutOfOrder):
		return errors.Is(want, storage.ErrOutOfOrderExemplar)
	case errors.Is(got, series.ErrExemplar):
		return errors.Is(want, storage.ErrExemplarLabelLength)
	}
	return got == nil && want == nil
}

// TestLabelLengthAsPrometheus compares how many code points labels may have.
func TestLabelLengthAsPrometheus(t *testing.T) {
	for length := range 2 * series.ExemplarRunesMax {
		oracle, err := tsdb.NewCircularExemplarStorage(5, tsdb.NewExemplarMetrics(nil), 0)
		if err != nil {
			t.Fatal(err)
		}
		var r Ring
		e := randomExemplar(rand.New(rand.NewPCG(1, 1)), 0)
		e.Labels[0].Value = "x" + strings.Repeat("ä", length)
		got, want := r.Add(BoundMax, e), oracle.AddExemplar(seriesLabels(e.Key), prom.Exemplar{Labels: promLabels(e.Labels), Value: e.Value, Ts: e.TimeMs, HasTs: true})
		if !sameOutcome(got, want) {
			t.Fatalf("%d code points: %v, Prometheus says %v", length, got, want)
		}
	}
}

func compareAnswers(t *testing.T, r *Ring, oracle storage.ExemplarQueryable, from, to int64) {
	t.Helper()
	querier, err := oracle.ExemplarQuerier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results, err := querier.Select(from, to, []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "id", "none")})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, q := range results {
		for _, e := range q.Exemplars {
			want = append(want, fmt.Sprint(q.SeriesLabels.Get("id"), e.Ts, e.Value, e.Labels))
		}
	}
	for _, e := range r.Between(from, to) {
		got = append(got, fmt.Sprint(seriesLabels(e.Key).Get("id"), e.TimeMs, e.Value, promLabels(e.Labels)))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("from %d to %d: %v, Prometheus has %v", from, to, got, want)
	}
}

func seriesLabels(k series.Key) labels.Labels {
	_, metric, _, _ := k.Parts(nil)
	return labels.FromStrings("id", string(metric))
}

func promLabels(own []series.ExemplarLabel) labels.Labels {
	var pairs []string
	for _, l := range own {
		pairs = append(pairs, l.Name, l.Value)
	}
	return labels.FromStrings(pairs...)
}

func TestRefused(t *testing.T) {
	var r Ring
	one := randomExemplar(rand.New(rand.NewPCG(1, 1)), 0)
	for bound, want := range map[int64]error{-1: ErrOff, 0: ErrOff, bytesOf(&one) - 1: ErrOff, bytesOf(&one): nil} {
		r = Ring{}
		if err := r.Add(bound, one); !errors.Is(err, want) || r.Bytes() > max(bound, 0) {
			t.Errorf("bound %d: %v, and %d bytes", bound, err, r.Bytes())
		}
	}
	if err := r.Add(BoundMax, series.Exemplar{Key: key(1), Labels: []series.ExemplarLabel{{Name: "a"}}}); !errors.Is(err, series.ErrExemplar) {
		t.Errorf("an empty value: %v", err)
	}
	nan := series.Exemplar{Key: key(9), Value: math.NaN()}
	if err := r.Add(BoundMax, nan); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(BoundMax, nan); !errors.Is(err, ErrDuplicate) {
		t.Errorf("NaN again: %v", err)
	}
}

// TestRemoved compares what is removed, in rings that have wrapped, with a filter over what was there.
func TestRemoved(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var r Ring
		for i := range random.IntN(60) {
			_ = r.Add(7000, randomExemplar(random, int64(i)))
		}
		before, at := slices.Clone(r.kept[r.first:]), int64(random.IntN(60))
		gone := func(e *series.Exemplar) bool { return e.TimeMs < at }
		if random.IntN(2) == 0 {
			gone = func(e *series.Exemplar) bool {
				return (string(e.Key) == string(key(1)) || string(e.Key) == string(key(3))) && e.TimeMs >= at && e.TimeMs <= at+10
			}
		}
		count := r.Remove(gone)
		want := slices.DeleteFunc(slices.Clone(before), func(e series.Exemplar) bool { return gone(&e) })
		if got := r.kept[r.first:]; !slices.EqualFunc(got, want, equal) || count != len(before)-len(want) {
			t.Fatalf("%v, removed %d; want %v", got, count, want)
		}
		checkCounts(t, &r)
		checkForm(t, &r)
	}
}

func equal(a, b series.Exemplar) bool { return reflect.DeepEqual(a, b) }

func checkCounts(t *testing.T, r *Ring) {
	t.Helper()
	counts, bytes := map[string]int{}, int64(0)
	for _, e := range r.kept[r.first:] {
		counts[string(e.Key)]++
		bytes += bytesOf(&e)
	}
	if len(counts) != len(r.newest) || bytes != r.bytes || bytes > r.bound {
		t.Fatalf("%d series are known of %d, and %d bytes of %d, bound %d", len(r.newest), len(counts), r.bytes, bytes, r.bound)
	}
	for k, n := range r.newest {
		if n.count != counts[k] || string(n.key) != k {
			t.Fatalf("series %q has %d exemplars, not %d", k, counts[k], n.count)
		}
	}
}

// checkForm expects that a ring which was written and read goes on as the first one.
func checkForm(t *testing.T, r *Ring) {
	t.Helper()
	r.Note(r.Entry() + 1)
	form := r.Append(nil)
	read, err := Decode(form)
	if err != nil {
		t.Fatal(err)
	}
	if again := read.Append(nil); !bytes.Equal(again, form) || read.Bound() != r.Bound() || read.Len() != r.Len() || read.Entry() != r.Entry() {
		t.Fatalf("read and written again: %x, not %x", again, form)
	}
	e := series.Exemplar{Key: key(1), TimeMs: 1000}
	if a, b := r.Add(r.Bound(), e), read.Add(r.Bound(), e); !errors.Is(a, b) || !bytes.Equal(read.Append(nil), r.Append(nil)) {
		t.Fatalf("the ring that was read goes on differently: %v, %v", a, b)
	}
}

func FuzzDecode(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	var r Ring
	for i := range 12 {
		_ = r.Add(3000, randomExemplar(random, int64(i)))
	}
	r.Note(5)
	form := r.Append(nil)
	f.Add(form)
	f.Add(form[:len(form)-1])
	f.Add(append(slices.Clone(form), 0))
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err == nil {
			checkCounts(t, &r)
			if len(b) > 0 && r.Entry() < math.MaxUint64 {
				checkForm(t, &r)
			}
		} else if !errors.Is(err, ErrForm) {
			t.Fatal(err)
		}
	})
}
