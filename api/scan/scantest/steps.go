package scantest

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
)

// stepChunk makes the values at steps of all samples of a series, step by step. That the
// functions are those of Prometheus is for the tests of router/query/promql.
func stepChunk(samples []series.Sample, request *scan.Steps) *scan.Chunk {
	c := &scan.Chunk{}
	given := false
	samples = deduplicated(samples, request.DeduplicateMs)
	for at := request.FirstMs; at <= request.LastMs; at += request.StepMs {
		var times []int64
		var values []float64
		for _, s := range samples {
			if s.TimeMs > at-request.RangeMs && s.TimeMs <= at && (request.Function == scan.StepNewest || !stale(s.Value)) {
				times, values = append(times, s.TimeMs), append(values, s.Value)
			}
		}
		n := len(times)
		if request.Function == scan.StepNewest {
			if n > 0 && !slices.Contains(c.Times, times[n-1]) {
				c.Times, c.Values = append(c.Times, times[n-1]), append(c.Values, values[n-1])
			}
			continue
		}
		var value float64
		ok := n > 0
		if ok {
			value, ok = steps.Value(request, times, values, at)
		}
		if ok && stale(value) {
			value = math.NaN()
		}
		if !ok {
			value = math.Float64frombits(scan.StaleBits)
		}
		if ok || given {
			c.Times, c.Values = append(c.Times, at), append(c.Values, value)
		}
		given = ok
	}
	return c
}

func stale(v float64) bool { return math.Float64bits(v) == scan.StaleBits }

// folded is the values of the series of one group.
type folded struct {
	key    series.Key
	series int64
	values map[int64][]float64 // by step
}

// foldChunks makes the rows of all groups, in the order of their keys, and returns those series
// that are visited by themselves as they are.
func foldChunks(chunks []*scan.Chunk, request *scan.Steps) []*scan.Chunk {
	groups := map[string]*folded{}
	var out []*scan.Chunk
	for _, c := range chunks {
		key, alone := groupOf(c.Key, request)
		switch {
		case len(c.Times) == 0:
			continue
		case alone:
			out = append(out, c)
			continue
		case request.Function == scan.StepNewest:
			c = instant(c, request)
		}
		if len(c.Times) == 0 {
			continue
		}
		g := groups[string(key)]
		if g == nil {
			g = &folded{key: key, values: map[int64][]float64{}}
			groups[string(key)] = g
		}
		g.series++
		for i, at := range c.Times {
			if !stale(c.Values[i]) {
				g.values[at] = append(g.values[at], c.Values[i])
			}
		}
	}
	for _, g := range groups {
		out = append(out, g.row(request.Fold.Kind))
	}
	sort.Slice(out, func(i, j int) bool { return string(out[i].Key) < string(out[j].Key) })
	return out
}

// instant returns what an instant selector has at the steps.
func instant(c *scan.Chunk, request *scan.Steps) *scan.Chunk {
	out := &scan.Chunk{}
	for at := request.FirstMs; at <= request.LastMs; at += request.StepMs {
		newest := -1
		for i, t := range c.Times {
			if t > at-request.RangeMs && t <= at {
				newest = i
			}
		}
		if newest >= 0 && !stale(c.Values[newest]) {
			out.Times, out.Values = append(out.Times, at), append(out.Values, c.Values[newest])
		}
	}
	return out
}

func (g *folded) row(kind scan.FoldKind) *scan.Chunk {
	c := &scan.Chunk{Key: g.key, Series: g.series}
	for at := range g.values {
		c.Times = append(c.Times, at)
	}
	slices.Sort(c.Times)
	for _, at := range c.Times {
		values := g.values[at]
		// NaN last, and the negative zero first.
		slices.SortFunc(values, func(a, b float64) int {
			switch {
			case math.IsNaN(a) != math.IsNaN(b):
				return map[bool]int{true: 1, false: -1}[math.IsNaN(a)]
			case a == 0 && b == 0 && math.Signbit(a) != math.Signbit(b):
				return map[bool]int{true: -1, false: 1}[math.Signbit(a)]
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		})
		numbers := len(values)
		for numbers > 1 && math.IsNaN(values[numbers-1]) {
			numbers--
		}
		switch kind {
		case scan.FoldCount:
			c.Count = append(c.Count, int64(len(values)))
		case scan.FoldMin:
			c.Values = append(c.Values, values[0])
		case scan.FoldMax:
			c.Values = append(c.Values, values[numbers-1])
		case scan.FoldSum: // in an order of its own
			c.Count = append(c.Count, int64(len(values)))
			c.Sums = append(c.Sums, exactly(values))
		case scan.FoldGroup:
		}
	}
	return c
}

func exactly(values []float64) (sum exactsum.Sum) {
	for _, v := range values {
		sum.Add(v)
	}
	return sum
}

// groupOf returns the key of a series' group, and whether it is visited by itself instead.
func groupOf(key series.Key, request *scan.Steps) (group series.Key, alone bool) {
	database, metric, tags, err := key.Parts(nil)
	if err != nil {
		panic(err) // it was put
	}
	fold := request.Fold
	if fold.Without || !slices.Contains(fold.Names, scan.NameTag) {
		metric = nil
	}
	var kept []series.Tag
	for _, t := range tags {
		name := string(t.Name)
		alone = alone || len(t.Value) == 0 || strings.HasPrefix(name, "__")
		if len(t.Value) > 0 && name != scan.NameTag && slices.Contains(fold.Names, name) != fold.Without {
			kept = append(kept, t)
		}
	}
	return series.AppendKey(nil, database, metric, kept), alone && request.Function != scan.StepNewest
}

// deduplicated returns the samples without those that a newer one follows in the same interval, by whether a multiple
// of its length lies between them.
func deduplicated(samples []series.Sample, intervalMs int64) []series.Sample {
	if intervalMs == 0 {
		return samples
	}
	before := func(t int64) int64 { // how many multiples of the length are before t, from an arbitrary one on
		n := t / intervalMs
		if n*intervalMs >= t {
			n--
		}
		return n
	}
	var kept []series.Sample
	for i, s := range samples {
		if i+1 == len(samples) || before(samples[i+1].TimeMs) != before(s.TimeMs) {
			kept = append(kept, s)
		}
	}
	return kept
}
