package promql

import (
	"errors"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/tickmesh/tickmesh/api/scan"
)

// errBeforeRaw is the warning of answers that were made of hours of which the last sample is left. It is the same for all
// that a query reads, so that each answer has it once.
var errBeforeRaw = errors.New("a part of the time lies before the raw of the databases file, where the last sample of each hour is left: " +
	"rates, averages and other values there are made of these; windows of whole hours by OpenTSDB's API or InfluxQL tell of all samples")

// rawNotes returns the warning for what was read, if one is due.
func (q *queryable) rawNotes(r *reading, runs [][]column) (notes annotations.Annotations) {
	for _, run := range runs {
		if len(run) > 0 && q.readsBeforeRaw(r, runs) {
			return notes.Add(errBeforeRaw)
		}
	}
	return nil
}

// readsBeforeRaw reports whether a reading that found something goes back before all samples of it are kept. The names of what a
// selector of all metrics found are taken from runs, if there are any.
func (q *queryable) readsBeforeRaw(r *reading, runs [][]column) bool {
	if q.rawFrom == nil {
		return false
	}
	for i := range r.selectors {
		s := &r.selectors[i]
		if !s.MetricAny {
			if r.fromMs < q.rawFrom(s.Database, s.Metric) {
				return true
			}
			continue
		}
		if q.foundBeforeRaw(r, s, runs) {
			return true
		}
	}
	return false
}

func (q *queryable) foundBeforeRaw(r *reading, s *scan.Selector, runs [][]column) bool {
	seen := ""
	for _, run := range runs {
		for i := range run {
			metric := run[i].labels.Get(nameLabel)
			if metric == seen {
				continue
			}
			if seen = metric; r.fromMs < q.rawFrom(s.Database, metric) {
				return true
			}
		}
	}
	return len(runs) == 0 && r.fromMs < q.rawFrom(s.Database, "")
}
