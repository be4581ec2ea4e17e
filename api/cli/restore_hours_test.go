package cli

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
)

// TestHoursInPieces: hours are written once and whole, though units end within them, and parts of units are read in any order.
func TestHoursInPieces(t *testing.T) {
	t.Parallel()
	const halfMs = series.HourMs / 2
	name := metricName{"default", "m"}
	key := func(n byte) string {
		return string(series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("n"), Value: []byte{'a' + n}}}))
	}
	type part struct {
		unit *archive.Unit
		runs [][]int64 // times of the series a, b, ...
	}
	unit := func(fromMs, toMs int64, objects ...int) *archive.Unit {
		u := &archive.Unit{Database: []byte(name.database), Metric: []byte(name.metric), FromMs: fromMs, ToMs: toMs}
		for _, o := range objects {
			u.Parts = append(u.Parts, archive.Part{Object: o})
		}
		return u
	}
	divided, rest := unit(0, 3*halfMs-1, 0), unit(3*halfMs, 5*series.HourMs-1, 2, 1)
	cases := map[string][]part{
		"units that end within an hour": {
			{divided, [][]int64{{1, 2, 2*halfMs + 7, 3*halfMs - 1}, {2*halfMs + 8, 2*halfMs + 9}}},
			{unit(3*halfMs, 5*series.HourMs-1, 1), [][]int64{{3 * halfMs, 3*halfMs + 1, 4*halfMs + 9}, {3*halfMs + 2}}},
		},
		"objects in another order": {
			{divided, [][]int64{{1, 2}, {2*halfMs + 9}}},
			{rest, [][]int64{nil, {6*halfMs + 500, 6*halfMs + 600, 8*halfMs + 9}}},
			{unit(5*series.HourMs, 6*series.HourMs-1, 1), [][]int64{{10*halfMs + 1}}},
			{rest, [][]int64{{4*halfMs + 7, 4*halfMs + 8}, {3*halfMs + 8, 6*halfMs + 7, 6*halfMs + 8}}},
		},
		"one series, the second part first": {
			{rest, [][]int64{{6*halfMs + 500, 8*halfMs + 9}}},
			{rest, [][]int64{{6*halfMs + 7, 6*halfMs + 8}}},
		},
	}
	for what, parts := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			type at struct {
				key    string
				hourMs int64
			}
			random := rand.New(rand.NewPCG(1, 2))
			samples := map[at]map[int64]float64{}
			got := map[at]series.Hour{}
			w := &hourWriter{ctx: t.Context(), known: &importer{known: map[string]*client.Series{}}}
			w.write = func(_ context.Context, hours ...client.Hour) error {
				for _, h := range hours {
					a := at{string(h.Series.Key()), h.StartMs}
					if _, known := got[a]; known {
						t.Errorf("the hour from %d ms on comes again", h.StartMs)
					}
					got[a] = h.Hour
				}
				return nil
			}
			for _, p := range parts {
				if err := w.begin(p.unit); err != nil {
					t.Fatal(err)
				}
				for n, times := range p.runs {
					k := key(byte(n))
					s, err := w.known.seriesOf(series.Key(k))
					if err != nil {
						t.Fatal(err)
					}
					for _, ms := range times {
						a, v := at{k, startOf(ms, series.HourMs)}, float64(random.IntN(1000))
						if samples[a] == nil {
							samples[a] = map[int64]float64{}
						}
						samples[a][ms] = v
						if err := w.sample(s, series.Key(k), ms, v); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			if len(got) != len(samples) {
				t.Errorf("%d hours, want %d", len(got), len(samples))
			}
			for a, of := range samples {
				want := series.Hour{StartMs: a.hourMs}
				for _, ms := range slices.Sorted(maps.Keys(of)) {
					v := of[ms]
					if want.Count == 0 {
						want.Min, want.Max, want.First = v, v, v
					}
					want.Count, want.Sum, want.Last = want.Count+1, want.Sum+v, v
					want.Min, want.Max = min(want.Min, v), max(want.Max, v)
					want.TimeMs, want.Value = ms, v
				}
				if !want.Fits() {
					want = lastOnly(want)
				}
				if got[a] != want {
					t.Errorf("the hour from %d ms on of %q is %+v, want %+v", a.hourMs, a.key, got[a], want)
				}
			}
		})
	}
}
