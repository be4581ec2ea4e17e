package promql

import (
	"slices"
	"sync"

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
	columns []column
	at      int // 1 + the current one
}

func newColumnSet(columns []column) storage.SeriesSet { return &columnSet{columns: columns} }

// Next implements storage.SeriesSet.
func (s *columnSet) Next() bool {
	s.at++
	return s.at <= len(s.columns)
}

// At implements storage.SeriesSet.
func (s *columnSet) At() storage.Series { return &s.columns[s.at-1] }

// Err implements storage.SeriesSet.
func (s *columnSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *columnSet) Warnings() annotations.Annotations { return nil }

func compareColumns(a, b column) int { return labels.Compare(a.labels, b.labels) }

// joinColumns makes one list of those of several workers. Ordered: in the order of labels,
// sorted and merged by all processors.
func joinColumns(runs [][]column, ordered bool) []column {
	runs = slices.DeleteFunc(runs, func(run []column) bool { return len(run) == 0 })
	switch {
	case len(runs) == 0:
		return nil
	case !ordered && len(runs) == 1:
		return runs[0]
	case !ordered:
		return slices.Concat(runs...)
	}
	var group sync.WaitGroup
	for _, run := range runs {
		group.Go(func() { slices.SortFunc(run, compareColumns) })
	}
	group.Wait()
	for len(runs) > 1 {
		half := (len(runs) + 1) / 2
		for i := 0; i+half < len(runs); i++ {
			group.Go(func() { runs[i] = mergeColumns(runs[i], runs[i+half]) })
		}
		group.Wait()
		runs = runs[:half]
	}
	return runs[0]
}

// mergeColumns merges two lists that are in order.
func mergeColumns(a, b []column) []column {
	merged := make([]column, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareColumns(a[0], b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}
