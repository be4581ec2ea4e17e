package metricsql

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// transform is a function of the rows of one expression.
type transform struct {
	arg       string // PromQL
	dropsName bool
	apply     func(rows []Row, steps Steps) ([]Row, error)
}

func (t *transform) evaluate(ctx context.Context, e *evaluation) ([]Row, error) {
	rows, _, err := e.engine.Rows(ctx, t.arg, e.computed)
	if err != nil {
		return nil, err
	}
	if rows, err = t.apply(rows, e.steps); err != nil || !t.dropsName {
		return rows, err
	}
	for i := range rows {
		rows[i].Metric = withoutName(rows[i].Metric)
	}
	return rows, nil
}

// each makes a transform of a function that changes the values of each row.
func each(f func(values []float64)) func([]Row, Steps) ([]Row, error) {
	return func(rows []Row, _ Steps) ([]Row, error) {
		for _, row := range rows {
			f(row.Values)
		}
		return rows, nil
	}
}

// whole makes a transform that sets all steps to one value of all values that there are.
func whole(f func(present []float64) float64) func([]Row, Steps) ([]Row, error) {
	return each(func(values []float64) {
		present := presentOf(values)
		if len(present) == 0 {
			return
		}
		v := f(present)
		for i := range values {
			values[i] = v
		}
	})
}

// running makes a transform that folds the values from the first on.
func running(f func(total, v float64, number int) float64) func([]Row, Steps) ([]Row, error) {
	return each(func(values []float64) {
		total, number := nan(), 0
		for i, v := range values {
			if !isNaN(v) {
				if number++; number == 1 {
					total = v
				} else {
					total = f(total, v, number)
				}
			}
			values[i] = total
		}
	})
}

func presentOf(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), isNaN)
}

// transformOf is a transform of one expression, by its name.
type transformOf struct {
	dropsName bool
	apply     func([]Row, Steps) ([]Row, error)
}

//nolint:gochecknoglobals // a constant table
var transforms = map[string]transformOf{
	"keep_last_value": {false, each(keepLast)}, "keep_next_value": {false, each(keepNext)}, "interpolate": {false, each(interpolate)},

	"range_avg": {true, whole(mean)}, "range_min": {true, whole(least)}, "range_max": {true, whole(greatest)}, "range_sum": {true, whole(sum)},
	"range_first": {false, whole(func(values []float64) float64 { return values[0] })}, "range_last": {false, whole(newest)},
	"range_stddev": {false, whole(func(values []float64) float64 { return math.Sqrt(variance(values)) })}, "range_stdvar": {false, whole(variance)},
	"range_mad": {false, whole(deviation)}, "range_normalize": {false, each(normalize)}, "range_zscore": {false, each(zscore)},
	"range_linear_regression": {false, regressionLine},

	"running_sum": {true, running(func(total, v float64, _ int) float64 { return total + v })},
	"running_min": {true, running(func(total, v float64, _ int) float64 { return min(total, v) })},
	"running_max": {true, running(func(total, v float64, _ int) float64 { return max(total, v) })},
	"running_avg": {true, running(func(total, v float64, number int) float64 { return total + (v-total)/float64(number) })},
}

// numbered are transforms of a number and an expression.
//
//nolint:gochecknoglobals // a constant table
var numbered = map[string]func(number float64) transformOf{
	"range_quantile": func(phi float64) transformOf {
		return transformOf{false, whole(func(values []float64) float64 { return quantile(phi, values) })}
	},
	"range_trim_spikes": func(phi float64) transformOf {
		return transformOf{false, each(func(values []float64) {
			present := presentOf(values)
			low, high := quantile(phi/2, present), quantile(1-phi/2, present)
			drop(values, func(v float64) bool { return v < low || v > high })
		})}
	},
	"range_trim_outliers": func(k float64) transformOf {
		return transformOf{false, each(func(values []float64) {
			if present := presentOf(values); len(present) > 0 {
				middle, far := quantile(0.5, present), k*deviation(present)
				drop(values, func(v float64) bool { return math.Abs(v-middle) > far })
			}
		})}
	},
	"range_trim_zscore": func(z float64) transformOf {
		return transformOf{false, each(func(values []float64) {
			if present := presentOf(values); len(present) > 0 {
				average, spread := mean(present), math.Sqrt(variance(present))
				drop(values, func(v float64) bool { return math.Abs(v-average)/spread > math.Abs(z) })
			}
		})}
	},
}

// drop takes out the values of which f holds.
func drop(values []float64, f func(v float64) bool) {
	for i, v := range values {
		if f(v) {
			values[i] = nan()
		}
	}
}

func keepLast(values []float64) {
	last := nan()
	for i, v := range values {
		if isNaN(v) {
			values[i] = last
		} else {
			last = v
		}
	}
}

func keepNext(values []float64) {
	next := nan()
	for i := len(values) - 1; i >= 0; i-- {
		if isNaN(values[i]) {
			values[i] = next
		} else {
			next = values[i]
		}
	}
}

// interpolate draws straight lines over gaps between values.
func interpolate(values []float64) {
	last := -1
	for i, v := range values {
		if isNaN(v) {
			continue
		}
		if last >= 0 {
			for j := last + 1; j < i; j++ {
				values[j] = values[last] + (v-values[last])*float64(j-last)/float64(i-last)
			}
		}
		last = i
	}
}

// deviation returns the median of the distances from the median.
func deviation(values []float64) float64 {
	middle := quantile(0.5, values)
	far := make([]float64, len(values))
	for i, v := range values {
		far[i] = math.Abs(v - middle)
	}
	return quantile(0.5, far)
}

func normalize(values []float64) {
	present := presentOf(values)
	if len(present) == 0 {
		return
	}
	low, span := least(present), greatest(present)-least(present)
	for i, v := range values {
		values[i] = (v - low) / span
	}
}

func zscore(values []float64) {
	present := presentOf(values)
	if len(present) == 0 {
		return
	}
	average, spread := mean(present), math.Sqrt(variance(present))
	for i, v := range values {
		values[i] = (v - average) / spread
	}
}

func regressionLine(rows []Row, steps Steps) ([]Row, error) {
	for _, row := range rows {
		var times []int64
		var present []float64
		for i, v := range row.Values {
			if !isNaN(v) {
				times, present = append(times, steps.FirstMs+int64(i)*steps.StepMs), append(present, v)
			}
		}
		if len(present) == 0 {
			continue
		}
		v, k := line(present, times, steps.FirstMs)
		for i := range row.Values {
			row.Values[i] = v + k*float64(int64(i)*steps.StepMs)/msPerSecond
		}
	}
	return rows, nil
}

// relabelled makes a transform that changes the labels of each row.
func relabelled(change func(b *labels.Builder, old labels.Labels)) func([]Row, Steps) ([]Row, error) {
	return func(rows []Row, _ Steps) ([]Row, error) {
		for i := range rows {
			b := labels.NewBuilder(rows[i].Metric)
			change(b, rows[i].Metric)
			rows[i].Metric = b.Labels()
		}
		return rows, nil
	}
}

// labelChanges are functions of an expression and of texts, by name.
//
//nolint:gochecknoglobals // a constant table
var labelChanges = map[string]func(texts []string) func(*labels.Builder, labels.Labels){
	"label_set":  pairs(func(b *labels.Builder, _ labels.Labels, name, value string) { b.Set(name, value) }),
	"label_copy": pairs(func(b *labels.Builder, _ labels.Labels, from, to string) { copyLabel(b, from, to) }),
	"label_move": pairs(func(b *labels.Builder, _ labels.Labels, from, to string) {
		if from != to && copyLabel(b, from, to) {
			b.Del(from)
		}
	}),
	"label_del": func(texts []string) func(*labels.Builder, labels.Labels) {
		return func(b *labels.Builder, _ labels.Labels) { b.Del(texts...) }
	},
	"label_keep": func(texts []string) func(*labels.Builder, labels.Labels) {
		return func(b *labels.Builder, _ labels.Labels) { b.Keep(texts...) }
	},
}

// copyLabel sets one label to the value of another, unless that is not there.
func copyLabel(b *labels.Builder, from, to string) bool {
	value := b.Get(from)
	if value != "" {
		b.Set(to, value)
	}
	return value != ""
}

func pairs(change func(b *labels.Builder, old labels.Labels, first, second string)) func([]string) func(*labels.Builder, labels.Labels) {
	return func(texts []string) func(*labels.Builder, labels.Labels) {
		return func(b *labels.Builder, old labels.Labels) {
			for i := 0; i+1 < len(texts); i += 2 {
				change(b, old, texts[i], texts[i+1])
			}
		}
	}
}

// grouping is how series are told apart: by labels, or by all but some.
type grouping struct {
	by    bool
	names []string
}

func (g *grouping) key(l labels.Labels) string {
	if g.by {
		return string(l.BytesWithLabels(nil, g.names...))
	}
	return string(withoutName(l).BytesWithoutLabels(nil, g.names...))
}

// pair is an operator that PromQL has not: default, if or ifnot.
type pair struct {
	operator    string
	left, right string // PromQL
	on          grouping
}

func (p *pair) evaluate(ctx context.Context, e *evaluation) ([]Row, error) {
	left, _, err := e.engine.Rows(ctx, p.left, e.computed)
	if err != nil {
		return nil, err
	}
	right, scalar, err := e.engine.Rows(ctx, p.right, e.computed)
	if err != nil {
		return nil, err
	}
	groups := map[string][]Row{}
	for _, row := range right {
		key := p.on.key(row.Metric)
		groups[key] = append(groups[key], row)
	}
	if p.operator == "default" && len(left) == 0 {
		return right, nil
	}
	for _, row := range left {
		others := groups[p.on.key(row.Metric)]
		if others == nil && scalar {
			others = right
		}
		for i, v := range row.Values {
			row.Values[i] = combine(p.operator, v, others, i)
		}
	}
	return left, nil
}

// combine returns the value of an operator at a step.
func combine(operator string, left float64, others []Row, step int) float64 {
	right := nan()
	for _, other := range others {
		if right = other.Values[step]; !isNaN(right) {
			break
		}
	}
	switch {
	case operator == "default" && isNaN(left):
		return right
	case operator == "if" && isNaN(right), operator == "ifnot" && !isNaN(right):
		return nan()
	}
	return left
}

// union is the series of several expressions; of those with the same labels, the first.
type union struct{ args []string }

func (u *union) evaluate(ctx context.Context, e *evaluation) (all []Row, err error) {
	known := map[string]bool{}
	for _, arg := range u.args {
		rows, _, err := e.engine.Rows(ctx, arg, e.computed)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if key := string(row.Metric.Bytes(nil)); !known[key] {
				known[key] = true
				all = append(all, row)
			}
		}
	}
	return all, nil
}

// ranking keeps whole series: in each group the k with the greatest or the least of a value of the whole range.
type ranking struct {
	arg     string // PromQL
	k       int
	of      func(present []float64) float64
	bottom  bool
	grouped grouping
}

//nolint:gochecknoglobals // a constant table
var rankings = map[string]func(present []float64) float64{
	"max": greatest, "min": least, "avg": mean, "last": newest, "median": func(values []float64) float64 { return quantile(0.5, values) },
}

func (r *ranking) evaluate(ctx context.Context, e *evaluation) ([]Row, error) {
	rows, _, err := e.engine.Rows(ctx, r.arg, e.computed)
	if err != nil {
		return nil, err
	}
	type ranked struct {
		row   Row
		value float64
	}
	groups := map[string][]ranked{}
	for _, row := range rows {
		if present := presentOf(row.Values); len(present) > 0 {
			key := r.grouped.key(row.Metric)
			groups[key] = append(groups[key], ranked{row, r.of(present)})
		}
	}
	kept := rows[:0:0]
	for _, group := range groups {
		slices.SortFunc(group, func(a, b ranked) int {
			order := cmp.Compare(b.value, a.value)
			if r.bottom {
				order = -order
			}
			return cmp.Or(order, labels.Compare(a.row.Metric, b.row.Metric))
		})
		for _, one := range group[:min(len(group), max(r.k, 0))] {
			kept = append(kept, one.row)
		}
	}
	slices.SortFunc(kept, func(a, b Row) int { return labels.Compare(a.Metric, b.Metric) })
	return kept, nil
}

// checkLabelName refuses a name that the engine keeps for itself.
func checkLabelName(name string) error {
	if name == PlaceholderLabel {
		return fmt.Errorf("the label %s is the server's own", PlaceholderLabel)
	}
	return nil
}
