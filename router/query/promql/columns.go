package promql

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// column is one series with the samples that were read. It is a storage.Series.
type column struct {
	labels labels.Labels
	times  []int64 // strictly growing; may be shared with other columns
	values []float64
}

// Labels implements storage.Series.
func (c *column) Labels() labels.Labels { return c.labels }

// Iterator implements storage.Series.
func (c *column) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*iterator)
	if !ok {
		it = &iterator{}
	}
	it.times, it.values, it.at = c.times, c.values[:len(c.times)], -1
	return it
}

// iterator walks the samples of a column.
type iterator struct {
	times  []int64
	values []float64
	at     int // -1 before the first
}

// Next implements chunkenc.Iterator.
func (it *iterator) Next() chunkenc.ValueType {
	if it.at+1 >= len(it.times) {
		it.at = len(it.times)
		return chunkenc.ValNone
	}
	it.at++
	return chunkenc.ValFloat
}

// milliseconds is a time. Its name keeps go vet from taking Seek for that of io.Seeker.
type milliseconds = int64

// Seek implements chunkenc.Iterator: steps that double, then halves.
func (it *iterator) Seek(t milliseconds) chunkenc.ValueType {
	from := max(it.at, 0)
	step := 1
	to := from
	for to < len(it.times) && it.times[to] < t {
		from = to + 1
		to += step
		step *= 2
	}
	to = min(to, len(it.times))
	for from < to {
		middle := int(uint(from+to) >> 1)
		if it.times[middle] < t {
			from = middle + 1
		} else {
			to = middle
		}
	}
	it.at = from
	if from >= len(it.times) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (int64, float64) { return it.times[it.at], it.values[it.at] }

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.times[it.at] }

// AtST implements chunkenc.Iterator: start times are not stored.
func (it *iterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator; it is not called, as there are none.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return it.AtT(), nil
}

// AtFloatHistogram implements chunkenc.Iterator; it is not called, as there are none.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return it.AtT(), nil
}

// Err implements chunkenc.Iterator.
func (it *iterator) Err() error { return nil }

// columnSet is columns as a storage.SeriesSet.
type columnSet struct {
	runs  [][]column
	at    int // in the first run, 1 + the current one
	notes annotations.Annotations
}

// Next implements storage.SeriesSet.
func (s *columnSet) Next() bool {
	s.at++
	for len(s.runs) > 0 && s.at > len(s.runs[0]) {
		s.runs, s.at = s.runs[1:], 1
	}
	return len(s.runs) > 0
}

// At implements storage.SeriesSet.
func (s *columnSet) At() storage.Series { return &s.runs[0][s.at-1] }

// Err implements storage.SeriesSet.
func (s *columnSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *columnSet) Warnings() annotations.Annotations { return s.notes }

// rankedSet is columns in an order of their own.
type rankedSet struct {
	ranked []ranked
	at     int // 1 + the current one
	notes  annotations.Annotations
}

// Next implements storage.SeriesSet.
func (s *rankedSet) Next() bool {
	s.at++
	return s.at <= len(s.ranked)
}

// At implements storage.SeriesSet.
func (s *rankedSet) At() storage.Series { return s.ranked[s.at-1].column }

// Err implements storage.SeriesSet.
func (s *rankedSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *rankedSet) Warnings() annotations.Annotations { return s.notes }
