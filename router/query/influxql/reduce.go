package influxql

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// reduce appends what a function returns for the values of one window, which are in the
// order of the answer and may be put into another one.
func (s *selection) reduce(c *call, in []sample, points []point) []point {
	if len(in) == 0 {
		return points
	}
	one := func(v float64) []point { return append(points, point{time: in[0].time, number: v}) }
	pick := func(a sample) []point {
		return append(points, point{time: a.time, number: a.number, table: a.table, row: a.row})
	}
	switch c.name {
	case "count":
		return one(float64(len(in)))
	case "sum":
		return one(sumOf(in))
	case "mean":
		return one(sumOf(in) / float64(len(in)))
	case "spread":
		return one(slices.MaxFunc(in, byNumber).number - slices.MinFunc(in, byNumber).number)
	case "min":
		return pick(slices.MinFunc(in, func(a, b sample) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.time, b.time)) }))
	case "max":
		return pick(slices.MinFunc(in, func(a, b sample) int { return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.time, b.time)) }))
	case "first":
		return pick(slices.MinFunc(in, func(a, b sample) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(b.number, a.number)) }))
	case "last":
		return pick(slices.MinFunc(in, func(a, b sample) int { return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(b.number, a.number)) }))
	case "median":
		return one(median(in))
	case "mode":
		p := mode(c, in)
		return pick(p)
	case "stddev":
		return one(deviation(in))
	case "percentile":
		i := int(math.Floor(float64(len(in))*c.percentile/100+0.5)) - 1
		if i < 0 || i >= len(in) {
			return points
		}
		slices.SortFunc(in, func(a, b sample) int { return cmp.Or(byNumber(a, b), cmp.Compare(a.time, b.time)) })
		return pick(in[i])
	case "distinct":
		return append(points, s.picked(distinct(c, in))...)
	case "sample":
		return append(points, s.picked(reservoir(c.n, in))...)
	case "top", "bottom":
		return append(points, s.picked(best(c, in))...)
	}
	return points
}

func byNumber(a, b sample) int { return cmp.Compare(a.number, b.number) }

func sumOf(in []sample) (total float64) {
	for i := range in {
		total += in[i].number
	}
	return total
}

// picked returns samples as points in the order of the answer.
func (s *selection) picked(in []sample) []point {
	slices.SortStableFunc(in, func(a, b sample) int {
		if !s.ascending {
			a, b = b, a
		}
		return cmp.Compare(a.time, b.time)
	})
	points := make([]point, len(in))
	for i, a := range in {
		points[i] = point{time: a.time, number: a.number, table: a.table, row: a.row}
	}
	return points
}

func median(in []sample) float64 {
	slices.SortFunc(in, byNumber)
	n := len(in)
	if n%2 == 1 {
		return in[n/2].number
	}
	low, high := in[n/2-1].number, in[n/2].number
	return low + (high-low)/2
}

// deviation returns the sample standard deviation; NaN for a single value.
func deviation(in []sample) float64 {
	if len(in) < 2 {
		return math.NaN()
	}
	var mean, squares float64
	for i, a := range in {
		mean += (a.number - mean) / float64(i+1)
	}
	for _, a := range in {
		squares += (a.number - mean) * (a.number - mean)
	}
	return math.Sqrt(squares / float64(len(in)-1))
}

// contents returns the value of a sample that is told apart from others: a number or a text.
func contents(c *call, a *sample) answer.Value {
	if a.number == a.number {
		return answer.Float(a.number)
	}
	return a.table.Columns[c.input].At(int(a.row))
}

// mode returns the value that is there most often. Of several, those of larger values win
// whose first time is not after the last time of the one that was best before; where each
// value is there once, the least one. That is what InfluxDB comes to.
func mode(c *call, in []sample) sample {
	slices.SortStableFunc(in, func(a, b sample) int {
		if a.number == a.number && b.number == b.number {
			return byNumber(a, b)
		}
		return strings.Compare(contents(c, &a).Text, contents(c, &b).Text)
	})
	var best []sample
	for len(in) > 0 {
		n := 1
		for n < len(in) && contents(c, &in[n]) == contents(c, &in[0]) {
			n++
		}
		if len(best) == 0 || n > len(best) || n > 1 && n == len(best) && in[0].time <= best[n-1].time {
			best = in[:n]
		}
		in = in[n:]
	}
	return best[0]
}

// distinct returns the first sample of each value, by time and value.
func distinct(c *call, in []sample) []sample {
	seen := make(map[answer.Value]struct{})
	var kept []sample
	for i := range in {
		v := contents(c, &in[i])
		if _, known := seen[v]; !known {
			seen[v] = struct{}{}
			kept = append(kept, in[i])
		}
	}
	slices.SortStableFunc(kept, func(a, b sample) int { return cmp.Or(cmp.Compare(a.time, b.time), byNumber(a, b)) })
	return kept
}

// reservoir picks n samples at random, all with the same chance (Vitter, Random sampling
// with a reservoir, 1985).
func reservoir(n int, in []sample) []sample {
	kept := slices.Clone(in[:min(n, len(in))])
	for i := n; i < len(in); i++ {
		if at := rand.IntN(i + 1); at < n {
			kept[at] = in[i]
		}
	}
	return kept
}

// best returns the n largest or least samples; of equal ones the oldest. With tags, one
// sample at most counts for each of their values.
func best(c *call, in []sample) []sample {
	better := func(a, b sample) int { return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.time, b.time)) }
	if c.name == "bottom" {
		better = func(a, b sample) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.time, b.time)) }
	}
	in = slices.Clone(in)
	slices.SortStableFunc(in, better)
	if len(c.tags) > 0 {
		seen := map[string]struct{}{}
		in = slices.DeleteFunc(in, func(a sample) bool {
			var tags []answer.Tag
			for _, name := range c.tags {
				tags = append(tags, answer.Tag{Key: name, Value: a.table.TagValue(name)})
			}
			id := load.IDOf(tags)
			_, known := seen[id]
			seen[id] = struct{}{}
			return known
		})
	}
	return in[:min(c.n, len(in))]
}
