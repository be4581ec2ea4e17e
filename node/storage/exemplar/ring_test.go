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

// TestAsPrometheus plays the same exemplars to Prometheus' storage, which is asked after each step.
func TestAsPrometheus(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 15))
		bound := 1 + random.IntN(20)
		oracle, err := tsdb.NewCircularExemplarStorage(int64(bound), tsdb.NewExemplarMetrics(nil), 0)
		if err != nil {
			t.Fatal(err)
		}
		var r Ring
		for step := range 300 {
			if random.IntN(100) == 0 {
				bound = 1 + random.IntN(20)
				oracle.(*tsdb.CircularExemplarStorage).Resize(int64(bound))
			}
			e := randomExemplar(random, int64(step))
			got, want := r.Add(bound, e), oracle.AddExemplar(seriesLabels(e.Series), prom.Exemplar{Labels: promLabels(e.Labels), Value: e.Value, Ts: e.TimeMs, HasTs: true})
			if !sameOutcome(got, want) {
				t.Fatalf("seed %d, step %d: %v, Prometheus says %v", seed, step, got, want)
			}
			from := int64(random.IntN(step + 1))
			compareAnswers(t, &r, oracle, from, from+int64(random.IntN(100)))
		}
	}
}

// randomExemplar returns one whose value follows from its labels, so that the order by labels, which Prometheus
// takes from a hash, is never asked.
func randomExemplar(random *rand.Rand, nowMs int64) Exemplar {
	trace := 1 + random.IntN(3)
	e := Exemplar{
		Series: series.ID(random.IntN(4)), TimeMs: nowMs - int64(random.IntN(3)), Value: float64(trace),
		Labels: []Label{{"trace_id", fmt.Sprint(trace)}},
	}
	if random.IntN(20) == 0 {
		e.Labels[0].Value = strings.Repeat("ä", LabelRunesMax-len("trace_id")+random.IntN(2))
		e.Value = float64(10 + len(e.Labels[0].Value)) // its own value, as above
	}
	return e
}

func sameOutcome(got, want error) bool {
	switch {
	case errors.Is(got, ErrDuplicate):
		return want == nil
	case errors.Is(got, ErrOutOfOrder):
		return errors.Is(want, storage.ErrOutOfOrderExemplar)
	case errors.Is(got, ErrLabels):
		return errors.Is(want, storage.ErrExemplarLabelLength)
	}
	return got == nil && want == nil
}

func compareAnswers(t *testing.T, r *Ring, oracle storage.ExemplarQueryable, from, to int64) {
	t.Helper()
	querier, err := oracle.ExemplarQuerier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results, err := querier.Select(from, to, []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "id", "2")})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, q := range results {
		for _, e := range q.Exemplars {
			want = append(want, fmt.Sprint(q.SeriesLabels.Get("id"), e.Ts, e.Value, e.Labels))
		}
	}
	for _, e := range r.Select(from, to, func(id series.ID) bool { return id != 2 }) {
		got = append(got, fmt.Sprint(seriesLabels(e.Series).Get("id"), e.TimeMs, e.Value, promLabels(e.Labels)))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("from %d to %d: %v, Prometheus has %v", from, to, got, want)
	}
}

func seriesLabels(id series.ID) labels.Labels { return labels.FromStrings("id", fmt.Sprint(id)) }

func promLabels(own []Label) labels.Labels {
	var pairs []string
	for _, l := range own {
		pairs = append(pairs, l.Name, l.Value)
	}
	return labels.FromStrings(pairs...)
}

func TestRefused(t *testing.T) {
	var r Ring
	if err := r.Add(0, Exemplar{}); !errors.Is(err, ErrOff) {
		t.Errorf("bound 0: %v", err)
	}
	for _, bad := range [][]Label{{{"", "a"}}, {{"a", ""}}, {{"b", "x"}, {"a", "x"}}, {{"a", "x"}, {"a", "y"}}, {{"a", "\xff"}}} {
		if err := r.Add(5, Exemplar{Labels: bad}); !errors.Is(err, ErrLabels) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	nan := Exemplar{Value: math.NaN()}
	if err := r.Add(5, nan); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(5, nan); !errors.Is(err, ErrDuplicate) {
		t.Errorf("NaN again: %v", err)
	}
}

// TestRemoved compares cuts and deletes, in rings that have wrapped, with a filter over what was there.
func TestRemoved(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var r Ring
		for i := range random.IntN(60) {
			_ = r.Add(16, randomExemplar(random, int64(i)))
		}
		before, at := r.ordered(), int64(random.IntN(60))
		var gone func(Exemplar) bool
		var count int
		if random.IntN(2) == 0 {
			gone = func(e Exemplar) bool { return e.TimeMs < at }
			count = r.Cut(at)
		} else {
			gone = func(e Exemplar) bool { return (e.Series == 1 || e.Series == 3) && e.TimeMs >= at && e.TimeMs <= at+10 }
			count = r.Delete([]series.ID{1, 3}, at, at+10)
		}
		want := slices.DeleteFunc(slices.Clone(before), gone)
		if got := r.ordered(); !slices.EqualFunc(got, want, equal) || count != len(before)-len(want) {
			t.Fatalf("%v, removed %d; want %v", got, count, want)
		}
		checkCounts(t, &r)
		checkForm(t, &r)
	}
}

func equal(a, b Exemplar) bool { return reflect.DeepEqual(a, b) }

func checkCounts(t *testing.T, r *Ring) {
	t.Helper()
	counts := map[series.ID]int{}
	for _, e := range r.kept {
		counts[e.Series]++
	}
	if len(counts) != len(r.newest) {
		t.Fatalf("%d series are known of %d", len(r.newest), len(counts))
	}
	for id, n := range r.newest {
		if n.count != counts[id] {
			t.Fatalf("series %d has %d exemplars, not %d", id, counts[id], n.count)
		}
	}
}

// checkForm expects that a ring which was written and read goes on as the first one.
func checkForm(t *testing.T, r *Ring) {
	t.Helper()
	form := r.Append(nil)
	read, err := Decode(form)
	if err != nil {
		t.Fatal(err)
	}
	if again := read.Append(nil); !bytes.Equal(again, form) || read.Bound() != r.Bound() || read.Len() != r.Len() {
		t.Fatalf("read and written again: %x, not %x", again, form)
	}
	e := Exemplar{Series: 1, TimeMs: 1000}
	if a, b := r.Add(r.Bound(), e), read.Add(r.Bound(), e); !errors.Is(a, b) || !bytes.Equal(read.Append(nil), r.Append(nil)) {
		t.Fatalf("the ring that was read goes on differently: %v, %v", a, b)
	}
}

func FuzzDecode(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	var r Ring
	for i := range 12 {
		_ = r.Add(8, randomExemplar(random, int64(i)))
	}
	form := r.Append(nil)
	f.Add(form)
	f.Add(form[:len(form)-1])
	f.Add(append(slices.Clone(form), 0))
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Decode(b); err == nil {
			checkCounts(t, &r)
			checkForm(t, &r)
		}
	})
}
