package series

import "math"

// Hour is an hour of a series of which the last sample is left, and what there was beside it. It travels, and is stored until
// files are thinned, as samples of the hour: those of AppendSamples.
type Hour struct {
	StartMs int64
	Count   int64 // of samples that are numbers
	// Sum is that of these samples, added to 0 one after the other; it, and all up to Last, mean nothing where there are none.
	Sum, Min, Max, First, Last float64

	TimeMs int64 // of the last sample, be it a number or not
	Value  float64
}

// HourMs is the width of an Hour.
const HourMs = 60 * 60 * 1000

// An hour that is not its last sample alone begins, in its first milliseconds, with a NaN that has the count in its lower half and
// hourMark in its upper one, and then Sum, Min, Max, First and Last; the last sample follows. Nobody sees these before a cut, where
// samples are the last of their hours.
const (
	hourMark   = 0x7ffd544d // a quiet NaN
	hourFields = 6
	// HourSamplesMax is the number of samples of an hour, at most.
	HourSamplesMax = hourFields + 1
	hourCountMax   = HourMs
)

// IsLastOnly reports whether the last sample tells all.
func (h *Hour) IsLastOnly() bool {
	return h.Count == 0 && math.IsNaN(h.Value) || h.Count == 1 && !math.IsNaN(h.Value)
}

// Fits reports whether the hour can be told by samples: its last one may have to come after the first milliseconds.
func (h *Hour) Fits() bool { return h.IsLastOnly() || h.TimeMs >= h.StartMs+hourFields }

// AppendSamples appends the samples that tell the hour, which fits, in order of time.
func (h *Hour) AppendSamples(times []int64, values []float64) ([]int64, []float64) {
	if !h.IsLastOnly() {
		mark := math.Float64frombits(hourMark<<32 | uint64(uint32(h.Count)))
		for i, v := range [hourFields]float64{mark, h.Sum, h.Min, h.Max, h.First, h.Last} {
			times, values = append(times, h.StartMs+int64(i)), append(values, v)
		}
	}
	return append(times, h.TimeMs), append(values, h.Value)
}

// MarkedHour reports whether a sample is the first one of an hour that is not its last sample alone, and the count.
func MarkedHour(timeMs int64, value float64) (count int64, ok bool) {
	bits := math.Float64bits(value)
	count = int64(uint32(bits))
	return count, bits>>32 == hourMark && timeMs == hourOf(timeMs) && count > 0 && count <= hourCountMax
}

// HourOfSamples returns the hour that samples, all those of one, tell of. Not ok: they are just samples.
func HourOfSamples(times []int64, values []float64) (h Hour, ok bool) {
	if len(times) != HourSamplesMax {
		return h, false
	}
	h.StartMs = times[0]
	if h.Count, ok = MarkedHour(times[0], values[0]); !ok {
		return h, false
	}
	for i, to := range [...]*float64{&h.Sum, &h.Min, &h.Max, &h.First, &h.Last} {
		if times[i+1] != h.StartMs+int64(i+1) {
			return h, false
		}
		*to = values[i+1]
	}
	h.TimeMs, h.Value = times[hourFields], values[hourFields]
	return h, h.TimeMs >= h.StartMs+hourFields && h.TimeMs < h.StartMs+HourMs
}

func hourOf(timeMs int64) int64 {
	rest := timeMs % HourMs
	if rest < 0 {
		rest += HourMs
	}
	return timeMs - rest
}
