package crash

import (
	"maps"
	"math"
	"slices"
)

// spoil applies the defect to one sample, if there is one to apply it to.
func (f *fake) spoil() {
	switch f.defect {
	case loseLast:
		for _, undo := range slices.Backward(f.last) {
			undo()
		}
		f.last = nil
		return
	case inventSeries:
		for name := range f.data {
			f.data[name+"x"] = map[int64]*fakeSample{0: {value: 1}}
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.data)) {
		samples := f.data[name]
		times := slices.Sorted(maps.Keys(samples))
		for i, timeMs := range times {
			if f.spoilSample(samples, timeMs, times[max(i-1, 0)]) {
				return
			}
		}
	}
}

// spoilSample reports whether it could spoil the sample.
func (f *fake) spoilSample(samples map[int64]*fakeSample, timeMs, beforeMs int64) bool {
	sample := samples[timeMs]
	if sample.deleted != (f.defect == undelete) {
		return false
	}
	switch f.defect {
	case loseOverwrites:
		if len(sample.previous) == 0 {
			return false
		}
		sample.value = sample.previous[len(sample.previous)-1]
	case undelete:
		sample.deleted = false
	case invent:
		samples[timeMs+50*freshStepMs*1000] = &fakeSample{value: 1}
	case inventTime:
		delete(samples, timeMs)
		samples[timeMs+1] = sample
	case flipBit:
		sample.value = math.Float64frombits(math.Float64bits(sample.value) ^ 1)
	case swap:
		if timeMs == beforeMs || samples[beforeMs].deleted {
			return false
		}
		sample.value, samples[beforeMs].value = samples[beforeMs].value, sample.value
	default:
		return false
	}
	return true
}
