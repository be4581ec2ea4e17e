package storage

import (
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
)

// windower turns the samples of one series, given in time order, into the
// aggregates of fixed windows.
type windower struct {
	spec  *scan.Windows
	chunk scan.Chunk

	open    bool
	startMs int64 // of the open window
	endMs   int64
	first   float64
	last    float64
	sum     float64
	min     float64
	max     float64
	count   int64
	digest  uint64
}

// windowsInChunkMax bounds the windows that are gathered before they are visited.
const windowsInChunkMax = 4096

func (w *windower) reset(spec *scan.Windows) {
	w.spec = spec
	w.open = false
	w.clear()
}

// clear forgets the closed windows, once they have been visited.
func (w *windower) clear() {
	c := &w.chunk
	c.Times, c.Count = c.Times[:0], c.Count[:0]
	c.Sum, c.Min, c.Max, c.First, c.Last = c.Sum[:0], c.Min[:0], c.Max[:0], c.First[:0], c.Last[:0]
	c.Digest = c.Digest[:0]
}

// full says that the closed windows should be visited before more is added.
func (w *windower) full() bool { return len(w.chunk.Times) >= windowsInChunkMax }

// add takes samples in time order.
func (w *windower) add(times []int64, values []float64) {
	values = values[:len(times)]
	for i := 0; i < len(times); {
		if !w.open || times[i] >= w.endMs {
			w.flush()
			w.start(times[i])
		}
		end := i + countBefore(times[i:], w.endMs)
		if w.spec.Aggregates&scan.AggregateDigest != 0 {
			w.digest += scan.DigestSamples(times[i:end], values[i:end])
			w.count += int64(end - i)
		} else {
			w.accumulate(values[i:end])
		}
		i = end
	}
}

func (w *windower) start(timeMs int64) {
	offset := (timeMs - w.spec.OriginMs) % w.spec.WidthMs
	if offset < 0 {
		offset += w.spec.WidthMs
	}
	w.startMs = timeMs - offset
	w.endMs = w.startMs + w.spec.WidthMs
	w.open, w.count, w.sum, w.digest = true, 0, 0, 0
	w.min, w.max = math.Inf(1), math.Inf(-1)
}

// countBefore gives the number of leading times before endMs, by steps that
// double and then halve: windows are short beside blocks.
func countBefore(times []int64, endMs int64) int {
	step := 8
	for step < len(times) && times[step] < endMs {
		step *= 2
	}
	low, high := step/2, min(step, len(times))
	if step == 8 {
		low = 0
	}
	for low < high {
		if middle := int(uint(low+high) / 2); times[middle] < endMs {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func (w *windower) accumulate(values []float64) {
	if w.spec.Aggregates&^(scan.AggregateSum|scan.AggregateCount) != 0 {
		w.accumulateAll(values)
		return
	}
	sum, count := w.sum, w.count
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			count++
		}
	}
	w.sum, w.count = sum, count
}

func (w *windower) accumulateAll(values []float64) {
	sum, low, high, count := w.sum, w.min, w.max, w.count
	for _, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if count == 0 {
			w.first = v
		}
		w.last = v
		count++
		sum += v
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
	}
	w.sum, w.min, w.max, w.count = sum, low, high, count
}

// flush closes the open window.
func (w *windower) flush() {
	if !w.open || w.count == 0 {
		w.open = false
		return
	}
	w.open = false
	c := &w.chunk
	c.Times = append(c.Times, w.startMs)
	want := w.spec.Aggregates
	if want&scan.AggregateCount != 0 {
		c.Count = append(c.Count, w.count)
	}
	if want&scan.AggregateSum != 0 {
		c.Sum = append(c.Sum, w.sum)
	}
	if want&scan.AggregateMin != 0 {
		c.Min = append(c.Min, w.min)
	}
	if want&scan.AggregateMax != 0 {
		c.Max = append(c.Max, w.max)
	}
	if want&scan.AggregateFirst != 0 {
		c.First = append(c.First, w.first)
	}
	if want&scan.AggregateLast != 0 {
		c.Last = append(c.Last, w.last)
	}
	if want&scan.AggregateDigest != 0 {
		c.Digest = append(c.Digest, w.digest)
	}
}
