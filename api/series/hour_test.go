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

// FuzzHourOfSamples: samples that are an hour are those that it is told by.
func FuzzHourOfSamples(f *testing.F) {
	f.Add(int64(0), uint64(hourMark<<32|5), uint64(7), int64(1000))
	f.Add(int64(-3*HourMs), uint64(hourMark<<32), uint64(7), int64(6))
	f.Add(int64(HourMs), uint64(0x7ff8000000000001), uint64(1), int64(HourMs-1))
	f.Fuzz(func(t *testing.T, startMs int64, mark, bits uint64, lastMs int64) {
		times, values := []int64{}, []float64{}
		for i := range int64(hourFields) {
			times, values = append(times, startMs+i), append(values, math.Float64frombits(bits+uint64(i)))
		}
		values[0] = math.Float64frombits(mark)
		times, values = append(times, startMs+lastMs), append(values, math.Float64frombits(bits))
		h, ok := HourOfSamples(times, values)
		if !ok {
			return
		}
		again, numbers := h.AppendSamples(nil, nil)
		if !h.IsLastOnly() && len(again) != len(times) || h.Count < 1 || !h.Fits() {
			t.Fatalf("%+v: %v", h, again)
		}
		for i := range numbers {
			from := i + len(times) - len(again) // the last sample may tell all
			if again[i] != times[from] || math.Float64bits(numbers[i]) != math.Float64bits(values[from]) {
				t.Fatalf("%+v: sample %d is %d %v", h, i, again[i], numbers[i])
			}
		}
	})
}
