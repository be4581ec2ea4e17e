package bench

import (
	"fmt"
	"slices"
	"strconv"
)

// Measure is one figure of one target.
type Measure struct {
	Workload string
	Case     string // for instance "HTTP line"
	Name     string // for instance "ingest"
	Unit     string
	// Lower reports that a lower value is better.
	Lower  bool
	Target string
	Values []float64 // one for each run
}

// Results collects measures in the order in which they first appear.
type Results struct {
	Measures []*Measure
	Notes    []string
	// Failures are checks that a target did not pass and runs that broke.
	Failures []string
}

// add appends a run's value to its measure.
func (r *Results) add(measure Measure, value float64) {
	for _, have := range r.Measures {
		if have.Workload == measure.Workload && have.Case == measure.Case && have.Name == measure.Name && have.Target == measure.Target {
			have.Values = append(have.Values, value)
			return
		}
	}
	measure.Values = []float64{value}
	r.Measures = append(r.Measures, &measure)
}

// row is one figure across targets.
type row struct {
	Case, Name, Unit string
	Lower            bool
	ByTarget         map[string]*Measure
}

// rows groups the measures of a workload.
func (r *Results) rows(workload string) []row {
	var rows []row
	for _, measure := range r.Measures {
		if measure.Workload != workload {
			continue
		}
		at := slices.IndexFunc(rows, func(have row) bool { return have.Case == measure.Case && have.Name == measure.Name })
		if at < 0 {
			at = len(rows)
			rows = append(rows, row{
				Case: measure.Case, Name: measure.Name, Unit: measure.Unit, Lower: measure.Lower,
				ByTarget: map[string]*Measure{},
			})
		}
		rows[at].ByTarget[measure.Target] = measure
	}
	return rows
}

// ratio returns how many times better the target is than the other, by medians; ok
// is false when one of them was not measured or is zero.
func (r row) ratio(target, other string) (float64, bool) {
	a, b := r.ByTarget[target], r.ByTarget[other]
	if a == nil || b == nil {
		return 0, false
	}
	mine, theirs := median(a.Values), median(b.Values)
	if r.Lower {
		mine, theirs = theirs, mine
	}
	if theirs == 0 || mine == 0 {
		return 0, false
	}
	return mine / theirs, true
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// text writes the median, and the range when there was more than one run.
func (m *Measure) text() string {
	if m == nil {
		return "–"
	}
	if len(m.Values) == 1 {
		return short(m.Values[0])
	}
	return fmt.Sprintf("%s (%s–%s)", short(median(m.Values)), short(slices.Min(m.Values)), short(slices.Max(m.Values)))
}

// short writes three digits or all before the point.
func short(value float64) string {
	decimals := 3
	for limit := value; limit >= 1 && decimals > 0; limit /= 10 {
		decimals--
	}
	if value < 0 {
		decimals = 1
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}
