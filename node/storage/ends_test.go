package storage

import (
	"fmt"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
)

// pick returns one of some values.
func pick[T any](l *rollupLab, of ...T) T { return of[l.rng.IntN(len(of))] }

// writeEnds appends samples, of which one in odd is no decimal; 0: all are.
func (l *rollupLab) writeEnds(fromMs, stepMs, count int64, odd int) {
	var batch series.BatchEncoder
	at := batch.Define(benchKey(l.rng.IntN(2)))
	for i := range count {
		number := series.Number{Mantissa: l.rng.Int64N(20_000) - 5000, Scale: uint8(l.rng.IntN(4))}
		if odd > 0 && l.rng.IntN(odd) == 0 {
			number = series.FloatNumber(pick(l, math.NaN(), math.Float64frombits(scan.StaleBits), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e300))
		}
		batch.Append(at, fromMs+i*stepMs, number.Mantissa, number.Scale)
	}
	l.apply(entry.Samples, samplesBody(batch.AppendTo(nil)))
}

// disturb does some of what rollups do not tell of, at the ends of hours and beside them.
func (l *rollupLab) disturb(startMs, days int64) {
	hour := func() int64 { return startMs + l.rng.Int64N(days*24)*segment.HourMs + l.rng.Int64N(3) - 1 }
	if l.rng.IntN(2) == 0 { // NaN and markers of staleness, in the same files as the other samples
		for range 20 {
			l.writeEnds(hour(), 1, 1, 1)
		}
		l.settle()
		l.compact(60)
	}
	if l.rng.IntN(2) == 0 {
		l.writeEnds(hour(), 1+l.rng.Int64N(1000), 1+l.rng.Int64N(5), 3) // in the place of others
	}
	if l.rng.IntN(3) == 0 {
		l.settle()
	}
	if l.rng.IntN(3) == 0 {
		fromMs := hour()
		l.apply(entry.Delete, entry.DeleteBody([]uint32{uint32(l.rng.IntN(2))}, fromMs, fromMs+l.rng.Int64N(3)*segment.HourMs+l.rng.Int64N(3)))
	}
	switch l.rng.IntN(3) { // the newest, in a few pages or in many
	case 0:
		l.writeEnds(startMs+days*segment.DayMs+l.rng.Int64N(2)*segment.HourMs, 60_000, 100+l.rng.Int64N(1000), 0)
	case 1:
		l.writeEnds(startMs+(days+1)*segment.DayMs-l.rng.Int64N(2*segment.DayMs), 1000, 40_000, pick(l, 0, 5000))
	}
	if l.rng.IntN(4) == 0 {
		cuts := retention.Cuts{Rules: []retention.Cut{{Database: "^default$", Metric: "^cpu", CutMs: hour()}}, OtherMs: retention.NoCut}
		l.apply(entry.RuleCuts, retention.Encode(&cuts))
	}
	if l.rng.IntN(5) == 0 {
		l.apply(entry.Forget, entry.ForgetBody(l.applied, []uint32{uint32(l.rng.IntN(2))}))
	}
}

// TestStepsAtHoursHaveTheBitsOfSamples: what steps at whole hours see of dense series is what the slow model sees of all
// samples, before 1970 as well, whatever disturbs the rollups.
func TestStepsAtHoursHaveTheBitsOfSamples(t *testing.T) {
	used := int64(0)
	for seed := range uint64(storagetest.Seeds(20)) {
		l := newRollupLab(t, seed)
		startMs, days := pick(l, int64(rollupStartMs), -40*segment.DayMs, -2*segment.DayMs), 2+l.rng.Int64N(8)
		for range 3 {
			stepMs := pick[int64](l, 60_000, 120_000, 225_000, 97_001)
			l.writeEnds(startMs+pick[int64](l, 0, 1, -1, 59_999), stepMs, days*segment.DayMs/stepMs, pick(l, 0, 0, 5000))
		}
		l.settle()
		l.compact(pick[int64](l, 0, 60))
		l.disturb(startMs, days)

		request := scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
		if l.rng.IntN(3) == 0 {
			request.FromMs = startMs + l.rng.Int64N(48)*segment.HourMs + l.rng.Int64N(3) - 1
			request.ToMs = startMs + l.rng.Int64N(days*24)*segment.HourMs + l.rng.Int64N(3) - 1
		}
		samples := modelOf(t, l.scanned(&request))
		before := l.e.Stats().ScannedRollups
		for range 8 {
			s := &scan.Steps{
				FirstMs:  startMs + (l.rng.Int64N(6)-2)*pick(l, segment.HourMs, segment.DayMs),
				StepMs:   pick(l, segment.HourMs, 7*segment.HourMs, segment.DayMs, 2*segment.DayMs),
				RangeMs:  pick(l, 1, 300_000, segment.HourMs-1, segment.HourMs, segment.HourMs+1, segment.DayMs, 30*segment.DayMs),
				Function: pick(l, scan.StepNewest, scan.StepLast, scan.StepPresent),
				Fold:     pick(l, nil, nil, &scan.Fold{Kind: scan.FoldMax}),
			}
			s.LastMs = s.FirstMs + l.rng.Int64N(days*segment.DayMs/s.StepMs+2)*s.StepMs
			request.Steps = s
			l.compareWithModel(fmt.Sprintf("seed %d: %+v", seed, *s), &request, samples)
		}
		used += l.e.Stats().ScannedRollups - before
	}
	if used == 0 {
		t.Error("no rollup was used")
	}
}

// modelOf returns the slow model with samples that a scan has found.
func modelOf(t *testing.T, samples map[string]*scan.Chunk) *scantest.Memory {
	t.Helper()
	model := scantest.NewMemory()
	for key, of := range samples {
		for i, at := range of.Times {
			if err := model.Put(series.Key(key), series.Sample{TimeMs: at, Value: of.Values[i]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return model
}

// compareWithModel compares every bit of what steps see with the model's.
func (l *rollupLab) compareWithModel(what string, request *scan.Request, model *scantest.Memory) {
	l.t.Helper()
	got := l.scanned(request)
	chunks, err := scantest.Collect(l.t.Context(), model, request)
	if err != nil {
		l.t.Fatal(err)
	}
	for key, want := range chunks {
		if have := got[key]; samplesOf(have) != samplesOf(want) {
			l.t.Fatalf("%s in [%d, %d]:\n got %s\nwant %s", what, request.FromMs, request.ToMs, samplesOf(have), samplesOf(want))
		}
		delete(got, key)
	}
	if len(got) > 0 {
		l.t.Fatalf("%s: %d series have values at steps, and the model has none", what, len(got))
	}
}
