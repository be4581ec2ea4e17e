package exemplar

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
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
		before, at := allOf(&r), int64(random.IntN(60))
		gone := func(e *series.Exemplar) bool { return e.TimeMs < at }
		if random.IntN(2) == 0 {
			gone = func(e *series.Exemplar) bool {
				return (string(e.Key) == string(key(1)) || string(e.Key) == string(key(3))) && e.TimeMs >= at && e.TimeMs <= at+10
			}
		}
		count := r.Remove(gone)
		want := slices.DeleteFunc(slices.Clone(before), func(e series.Exemplar) bool { return gone(&e) })
		if got := allOf(&r); !slices.EqualFunc(got, want, equal) || count != len(before)-len(want) {
			t.Fatalf("%v, removed %d; want %v", got, count, want)
		}
		checkCounts(t, &r)
		checkForm(t, &r)
	}
}

// allOf returns what a ring keeps, by database and then as it came.
func allOf(r *Ring) (all []series.Exemplar) {
	for _, q := range r.databases {
		all = append(all, q.all()...)
	}
	return all
}

// TestShares plays exemplars of several databases, one of which sends far more than the others, to a slow model: of a list of
// all that came, the first of the database with most bytes goes while there are too many.
func TestShares(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 16))
		var r Ring
		var model []series.Exemplar
		const bound = 9000
		for step := range 500 {
			database := []string{"", "greedy", "other"}[min(2, random.IntN(12))]
			if random.IntN(3) > 0 {
				database = "greedy"
			}
			e := series.Exemplar{
				Key: series.AppendKey(nil, []byte(database), fmt.Append(nil, random.IntN(5)), nil), TimeMs: int64(step),
				Labels: []series.ExemplarLabel{{Name: "trace_id", Value: strings.Repeat("x", 1+random.IntN(60))}},
			}
			if err := r.Add(bound, e); err != nil {
				t.Fatal(err)
			}
			model = append(model, e)
			for {
				total, held := int64(0), map[string]int64{}
				for i := range model {
					database, _, _, _ := model[i].Key.Head()
					held[string(database)] += bytesOf(&model[i])
					total += bytesOf(&model[i])
				}
				if total <= bound {
					break
				}
				most := slices.MinFunc(slices.Sorted(maps.Keys(held)), func(a, b string) int { return cmp.Compare(held[b], held[a]) })
				at := slices.IndexFunc(model, func(e series.Exemplar) bool { database, _, _, _ := e.Key.Head(); return string(database) == most })
				model = slices.Delete(model, at, at+1)
			}
			want := slices.Clone(model)
			slices.SortStableFunc(want, func(a, b series.Exemplar) int {
				first, _, _, _ := a.Key.Head()
				second, _, _, _ := b.Key.Head()
				return cmp.Compare(string(first), string(second))
			})
			if got := allOf(&r); !slices.EqualFunc(got, want, equal) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, want)
			}
			checkCounts(t, &r)
		}
		checkForm(t, &r)
	}
}

// A database that sends without end takes nothing of one that has less than its share.
func TestNobodyIsCrowdedOut(t *testing.T) {
	var r Ring
	of := func(database string, n int) series.Exemplar {
		return series.Exemplar{Key: series.AppendKey(nil, []byte(database), []byte("m"), nil), TimeMs: int64(n), Labels: []series.ExemplarLabel{{Name: "trace_id", Value: "1"}}}
	}
	for n := range 10 {
		if err := r.Add(1<<20, of("small", n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100_000 {
		if err := r.Add(1<<20, of("greedy", n)); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[string]int{}
	for _, e := range r.Between(math.MinInt64, math.MaxInt64) {
		database, _, _, _ := e.Key.Head()
		kept[string(database)]++
	}
	if kept["small"] != 10 || kept["greedy"] < 1000 {
		t.Error(kept)
	}
}

func equal(a, b series.Exemplar) bool { return reflect.DeepEqual(a, b) }

func checkCounts(t *testing.T, r *Ring) {
	t.Helper()
	counts, bytes := map[string]int{}, int64(0)
	for _, e := range allOf(r) {
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
