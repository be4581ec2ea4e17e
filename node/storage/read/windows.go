package read

import (
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// windower turns the samples of one series, given in time order, into the
// aggregates of fixed windows. The sum of a window is that of its days, and these
// are those of their hours, in UTC and in order of time, so that it has the same bits
// whether an hour or a day was added up here or in a segment's rollups.
type windower struct {
	spec  *scan.Windows
	chunk scan.Chunk

	open      bool
	startMs   int64 // of the open window
	endMs     int64
	hourEndMs int64 // of the open hour; without sums: the end of time
	dayEndMs  int64
	first     float64
	last      float64
	sum       float64 // of the days that are over
	daySum    float64 // of the hours of the open day that are over
	hourSum   float64
	min       float64
	max       float64
	count     int64
	digest    uint64
	hidden    int64
}

// windowsInChunkMax bounds the windows that are gathered before they are visited.
const windowsInChunkMax = 4096

func (w *windower) reset(spec *scan.Windows) {
	w.spec = spec
	w.open = false
	w.endMs, w.hourEndMs, w.dayEndMs = math.MinInt64, math.MinInt64, math.MinInt64
	if spec.Aggregates&scan.AggregateSum == 0 {
		w.hourEndMs = math.MaxInt64
	}
	w.clear()
}

// clear forgets the closed windows, once they have been visited.
func (w *windower) clear() {
	c := &w.chunk
	c.Times, c.Count = c.Times[:0], c.Count[:0]
	c.Sum, c.Min, c.Max, c.First, c.Last = c.Sum[:0], c.Min[:0], c.Max[:0], c.First[:0], c.Last[:0]
	c.Digest, c.Hidden = c.Digest[:0], c.Hidden[:0]
}

// full reports whether the closed windows should be visited before more is added.
func (w *windower) full() bool { return len(w.chunk.Times) >= windowsInChunkMax }

// add takes samples in time order.
func (w *windower) add(times []int64, values []float64) {
	values = values[:len(times)]
	for i := 0; i < len(times); {
		if !w.open || times[i] >= w.endMs {
			w.flush()
			w.start(times[i])
		}
		if times[i] >= w.hourEndMs {
			w.nextHour(times[i])
		}
		end := i + countBefore(times[i:], min(w.endMs, w.hourEndMs))
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
	if next := w.endMs; timeMs >= next && next != math.MinInt64 && timeMs-next < w.spec.WidthMs {
		w.startMs = next // mostly, and without a division
	} else {
		w.startMs = w.spec.OriginMs + floorTo(timeMs-w.spec.OriginMs, w.spec.WidthMs)
	}
	w.endMs = w.startMs + w.spec.WidthMs
	w.open, w.count, w.digest, w.hidden = true, 0, 0, 0
	w.sum, w.daySum, w.hourSum = 0, 0, 0
	w.min, w.max = math.Inf(1), math.Inf(-1)
}

// nextHour ends the open hour, and its day if it is over. A window that begins within
// them goes on with sums of 0.
func (w *windower) nextHour(timeMs int64) {
	w.daySum += w.hourSum
	w.hourSum = 0
	w.hourEndMs = floorTo(timeMs, segment.HourMs) + segment.HourMs
	if timeMs >= w.dayEndMs {
		w.sum += w.daySum
		w.daySum = 0
		w.dayEndMs = floorTo(timeMs, segment.DayMs) + segment.DayMs
	}
}

// addRollup takes the aggregate, or the digest, of a whole hour or day, no part of which is given in
// another way, and in which no window begins or ends. First and last are those of its ends, if it has any.
func (w *windower) addRollup(r *segment.Rollup) {
	if !w.open || r.StartMs >= w.endMs {
		w.flush()
		w.start(r.StartMs)
	}
	if r.StartMs >= w.hourEndMs {
		w.nextHour(r.StartMs)
	}
	if w.count == 0 {
		w.first = r.First
	}
	w.last = r.Last
	w.count += r.Count
	w.digest += r.Digest
	w.hidden += r.Hidden
	w.hourSum += r.Sum
	if r.Min < w.min {
		w.min = r.Min
	}
	if r.Max > w.max {
		w.max = r.Max
	}
}

// floorTo rounds down to a multiple of width, also below zero.
func floorTo(timeMs, width int64) int64 {
	rest := timeMs % width
	if rest < 0 {
		rest += width
	}
	return timeMs - rest
}

// countBefore returns the number of leading times before endMs, by steps that
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
	sum, count := w.hourSum, w.count
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			count++
		}
	}
	w.hourSum, w.count = sum, count
}

func (w *windower) accumulateAll(values []float64) {
	sum, low, high, count := w.hourSum, w.min, w.max, w.count
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
	w.hourSum, w.min, w.max, w.count = sum, low, high, count
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
		c.Sum = append(c.Sum, w.sum+(w.daySum+w.hourSum))
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
	if want&scan.AggregateHidden != 0 {
		c.Hidden = append(c.Hidden, w.hidden)
	}
}
