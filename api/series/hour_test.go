package series

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHourSamples: an hour that fits comes back from its samples with all bits, and other samples are none.
func TestHourSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() float64 {
		return []float64{rng.NormFloat64(), math.Copysign(0, -1), math.Inf(1), -5, 1e300}[rng.IntN(5)]
	}
	for range 2000 {
		h := Hour{StartMs: (rng.Int64N(1000) - 500) * HourMs, Count: 1 + rng.Int64N(3600), Sum: value(), Min: value(), Max: value(), First: value(), Last: value(), Value: value()}
		h.TimeMs = h.StartMs + rng.Int64N(HourMs)
		if rng.IntN(4) == 0 {
			h.TimeMs = h.StartMs + rng.Int64N(9)
		}
		if rng.IntN(3) == 0 {
			h.Value = math.NaN()
		}
		if !h.Fits() {
			if h.TimeMs > h.StartMs+5 {
				t.Fatalf("%+v does not fit", h)
			}
			continue
		}
		times, values := h.AppendSamples(nil, nil)
		if h.IsLastOnly() {
			if len(times) != 1 || times[0] != h.TimeMs || math.Float64bits(values[0]) != math.Float64bits(h.Value) {
				t.Fatalf("%+v: %v %v", h, times, values)
			}
			continue
		}
		for i := range times[1:] {
			if times[i+1] <= times[i] {
				t.Fatalf("%+v: %v", h, times)
			}
		}
		got, ok := HourOfSamples(times, values)
		if bits := math.Float64bits; !ok || bits(got.Value) != bits(h.Value) || bits(got.Sum) != bits(h.Sum) || bits(got.Min) != bits(h.Min) || bits(got.Max) != bits(h.Max) ||
			bits(got.First) != bits(h.First) || bits(got.Last) != bits(h.Last) || got.Count != h.Count || got.StartMs != h.StartMs || got.TimeMs != h.TimeMs {
			t.Fatalf("%+v became %+v, %v", h, got, ok)
		}
		for i := range times {
			wrong := append([]int64(nil), times...)
			wrong[i] += 7 * HourMs
			if _, ok := HourOfSamples(wrong, values); ok {
				t.Fatalf("%v is an hour", wrong)
			}
		}
		if _, ok := HourOfSamples(times[1:], values[1:]); ok {
			t.Fatal("a part is an hour")
		}
	}
	for _, v := range []float64{math.NaN(), math.Float64frombits(0x7ff0000000000002), 0, 1} {
		if _, ok := MarkedHour(0, v); ok {
			t.Errorf("%x begins an hour", math.Float64bits(v))
		}
	}
}
