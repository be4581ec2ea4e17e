package opentsdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// The oracle evaluates a query the slow and obvious way, from OpenTSDB's
// documentation (query/aggregators, query/downsampling, query/dates,
// query/filters), with maps and full loops, and shares no code with the package.

type oracleSeries struct {
	tags   map[string]string
	points map[int64]float64 // by milliseconds
}

type oracleQuery struct {
	start, end int64 // milliseconds, whole seconds
	aggregator string
	rate       bool
	counter    bool
	drop       bool
	max, reset float64
	interval   int64 // milliseconds; 0: none; -1: all
	downsample string
	fill       string
	groupBy    []string
}

// text writes the query as a parameter m.
func (q *oracleQuery) text() string {
	parts := []string{q.aggregator}
	if q.rate {
		rate := "rate"
		if q.counter {
			kind := "counter"
			if q.drop {
				kind = "dropcounter"
			}
			rate += fmt.Sprintf("{%s,%g,%g}", kind, q.max, q.reset)
		}
		parts = append(parts, rate)
	}
	if q.interval != 0 {
		interval := "0all"
		if q.interval > 0 {
			interval = fmt.Sprintf("%dms", q.interval)
		}
		text := interval + "-" + q.downsample
		if q.fill != "" {
			text += "-" + q.fill
		}
		parts = append(parts, text)
	}
	metric := "m"
	if len(q.groupBy) > 0 {
		metric += "{" + strings.Join(q.groupBy, "=*,") + "=*}"
	}
	return strings.Join(append(parts, metric), ":")
}

// evaluate returns the points of each group, by the values of its tags.
func (q *oracleQuery) evaluate(all []oracleSeries) map[string]map[int64]float64 {
	groups := map[string][]map[int64]float64{}
	for _, s := range all {
		name := ""
		missing := false
		for _, tag := range q.groupBy {
			value, ok := s.tags[tag]
			missing = missing || !ok
			name += tag + "=" + value + ","
		}
		if missing {
			continue
		}
		if q.aggregator == "none" {
			name = s.tags["id"]
		}
		if points := q.prepare(s.points); len(points) > 0 {
			groups[name] = append(groups[name], points)
		}
	}
	results := map[string]map[int64]float64{}
	for name, members := range groups {
		points := map[int64]float64{}
		for t := range q.times(members) {
			if t >= q.start && t <= q.end {
				points[t] = q.at(members, t)
			}
		}
		if len(points) > 0 {
			results[name] = points
		}
	}
	return results
}

func (q *oracleQuery) times(members []map[int64]float64) map[int64]bool {
	times := map[int64]bool{}
	for _, m := range members {
		for t := range m {
			times[t] = true
		}
	}
	return times
}

// rowMs is the length of OpenTSDB's rows, which are read as a whole.
const rowMs = 3_600_000

// prepare downsamples one series and takes its rate.
func (q *oracleQuery) prepare(points map[int64]float64) map[int64]float64 {
	filled := q.fill != "" && q.fill != "none"
	seen := map[int64]float64{}
	low, high := q.start/rowMs*rowMs, (q.end/rowMs+1)*rowMs // the rows of start and end
	switch {
	case q.interval == -1:
		var values []float64
		for _, t := range sortedTimes(points) {
			if t >= q.start && t < q.end && !math.IsNaN(points[t]) {
				values = append(values, points[t])
			}
		}
		if len(values) > 0 {
			seen[q.start] = naive(q.downsample, values)
		}
	case q.interval > 0:
		low = q.start / q.interval * q.interval / rowMs * rowMs // the row of the first window
		high = ((q.end/q.interval+1)*q.interval - 1) / rowMs * rowMs
		high += rowMs
		windows := map[int64][]float64{}
		for _, t := range sortedTimes(points) {
			if w := t / q.interval * q.interval; w >= low && w < high && !math.IsNaN(points[t]) {
				windows[w] = append(windows[w], points[t])
			}
		}
		for w, values := range windows {
			seen[w] = naive(q.downsample, values)
		}
		inRows := false
		for t, v := range points {
			inRows = inRows || t >= low && t < high && !math.IsNaN(v)
		}
		if filled && inRows {
			first := (low + q.interval - 1) / q.interval * q.interval
			for w := first; w <= q.end; w += q.interval {
				if _, ok := seen[w]; !ok {
					seen[w] = map[string]float64{"nan": math.NaN(), "null": math.NaN(), "zero": 0, "scalar(7.5)": 7.5}[q.fill]
				}
			}
			for w := range seen {
				if w > q.end {
					delete(seen, w)
				}
			}
		}
	default:
		for t, v := range points {
			if t >= low && t < high {
				seen[t] = v
			}
		}
	}
	if q.rate {
		seen = q.rates(seen)
	}
	return seen
}

func sortedTimes(points map[int64]float64) []int64 { return slices.Sorted(maps.Keys(points)) }

func (q *oracleQuery) rates(points map[int64]float64) map[int64]float64 {
	rates := map[int64]float64{}
	times := sortedTimes(points)
	for i := 1; i < len(times); i++ {
		v0, v1 := points[times[i-1]], points[times[i]]
		seconds := float64(times[i]-times[i-1]) / 1000
		if v1-v0 < 0 && q.counter {
			if q.drop {
				continue
			}
			rate := (q.max - v0 + v1) / seconds
			if q.reset > 0 && rate > q.reset {
				rate = 0
			}
			rates[times[i]] = rate
			continue
		}
		rates[times[i]] = (v1 - v0) / seconds
	}
	return rates
}

// at merges all members at one time.
func (q *oracleQuery) at(members []map[int64]float64, t int64) float64 {
	var values []float64
	for _, m := range members {
		if v, ok := m[t]; ok {
			values = append(values, v)
			continue
		}
		before, after, hasBefore, hasAfter := int64(0), int64(0), false, false
		for x := range m {
			if x < t && (!hasBefore || x > before) {
				before, hasBefore = x, true
			}
			if x > t && (!hasAfter || x < after) {
				after, hasAfter = x, true
			}
		}
		if !hasBefore || !hasAfter {
			continue
		}
		switch {
		case q.rate, q.aggregator == "pfsum":
			values = append(values, m[before])
		case slices.Contains([]string{"count", "first", "last"}, q.aggregator):
			values = append(values, 0)
		case slices.Contains([]string{"mimmin", "mimmax", "zimsum", "squareSum"}, q.aggregator): // nothing that changes the result
		default:
			values = append(values, m[before]+float64(t-before)*(m[after]-m[before])/float64(after-before))
		}
	}
	if q.aggregator == "none" {
		return values[0]
	}
	return naive(q.aggregator, values)
}

// naive computes a function from its definition. Values come in their order.
func naive(name string, values []float64) float64 {
	var numbers []float64
	for _, v := range values {
		if !math.IsNaN(v) {
			numbers = append(numbers, v)
		}
	}
	total, squares, least, most := 0.0, 0.0, math.Inf(1), math.Inf(-1)
	for _, v := range numbers {
		total += v
		squares += v * v
		least, most = min(least, v), max(most, v)
	}
	n := len(numbers)
	switch name { // those that do not skip what is no number
	case "count":
		return float64(n)
	case "first":
		return values[0]
	case "last":
		return values[len(values)-1]
	case "mult":
		p := 1.0
		for _, v := range values {
			p *= v
		}
		return p
	}
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(numbers)
	sort.Float64s(sorted)
	switch name {
	case "sum", "zimsum", "pfsum":
		return total
	case "avg":
		return total / float64(n)
	case "min", "mimmin":
		return least
	case "max", "mimmax":
		return most
	case "squareSum":
		return squares
	case "median":
		return sorted[n/2]
	case "dev":
		mean, sum := total/float64(n), 0.0
		for _, v := range numbers {
			sum += (v - mean) * (v - mean)
		}
		return math.Sqrt(sum / float64(n))
	case "diff":
		at := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) })
		if at == len(values)-1 {
			return 0
		}
		return values[len(values)-1] - values[at]
	case "p50", "p75", "p90", "p95", "p98", "p99", "p999":
		p := map[string]float64{"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p98": 98, "p99": 99, "p999": 99.9}[name]
		position := p / 100 * float64(n+1) // Apache Commons Math, LEGACY
		return between(sorted, position)
	case "ep50r7", "ep90r7", "ep999r7":
		p := map[string]float64{"ep50r7": 50, "ep90r7": 90, "ep999r7": 99.9}[name]
		return between(sorted, 1+float64(n-1)*(p/100))
	case "ep50r3", "ep90r3", "ep999r3":
		p := map[string]float64{"ep50r3": 50, "ep90r3": 90, "ep999r3": 99.9}[name]
		return between(sorted, math.RoundToEven(float64(n)*(p/100)))
	}
	panic("no oracle for " + name)
}

// between reads a sorted list at a position that is counted from 1.
func between(sorted []float64, position float64) float64 {
	if position < 1 {
		return sorted[0]
	}
	if position >= float64(len(sorted)) {
		return sorted[len(sorted)-1]
	}
	whole := int(position)
	return sorted[whole-1] + (position-float64(whole))*(sorted[whole]-sorted[whole-1])
}

var oracleFunctions = []string{
	"sum", "avg", "min", "max", "count", "zimsum", "pfsum", "mimmin", "mimmax", "squareSum", "median", "mult", "dev", "diff", "first", "last",
	"p50", "p75", "p90", "p95", "p98", "p99", "p999", "ep50r3", "ep90r3", "ep999r3", "ep50r7", "ep90r7", "ep999r7",
}

// base is the middle of an hour, so that ranges start and end inside of rows.
const base = int64(1_600_000_200_000)

func drawSeries(t *rapid.T) []oracleSeries {
	var all []oracleSeries
	for i := range rapid.IntRange(1, 6).Draw(t, "series") {
		s := oracleSeries{tags: map[string]string{"id": fmt.Sprint(i), "dc": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "dc")}, points: map[int64]float64{}}
		if rapid.Bool().Draw(t, "tagged") {
			s.tags["rack"] = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "rack")
		}
		step := rapid.SampledFrom([]int64{1000, 10_000, 60_000, 61_000, 600_000, 1_700_000}).Draw(t, "step")
		at := base + rapid.Int64Range(-90, 90).Draw(t, "phase")*1000
		at -= rapid.SampledFrom([]int64{0, 20, 60}).Draw(t, "early") * step
		for range rapid.IntRange(3, 60).Draw(t, "points") {
			if rapid.IntRange(0, 5).Draw(t, "gap") > 0 {
				v := float64(rapid.IntRange(-400, 400).Draw(t, "value")) / 4
				if rapid.IntRange(0, 30).Draw(t, "nan") == 0 {
					v = math.NaN()
				}
				s.points[at] = v
			}
			at += step
		}
		all = append(all, s)
	}
	return all
}

func drawQuery(t *rapid.T) *oracleQuery {
	q := &oracleQuery{aggregator: rapid.SampledFrom(append([]string{"none"}, oracleFunctions...)).Draw(t, "aggregator")}
	q.start = base + rapid.SampledFrom([]int64{-3600, -200, 0, 5, 33, 60}).Draw(t, "start")*1000
	q.end = q.start + rapid.SampledFrom([]int64{0, 30, 200, 300, 3600, 8000}).Draw(t, "length")*1000
	if rapid.Bool().Draw(t, "downsampled") {
		q.interval = rapid.SampledFrom([]int64{-1, 1000, 7000, 60_000, 300_000, 3_600_000, 5_400_000}).Draw(t, "interval")
		q.downsample = rapid.SampledFrom(oracleFunctions).Draw(t, "function")
		q.fill = rapid.SampledFrom([]string{"", "", "none", "nan", "null", "zero", "scalar(7.5)"}).Draw(t, "fill")
	}
	if q.rate = rapid.IntRange(0, 2).Draw(t, "rate") == 0; q.rate {
		q.counter, q.drop = rapid.Bool().Draw(t, "counter"), rapid.Bool().Draw(t, "drop")
		q.max, q.reset = 1000, rapid.SampledFrom([]float64{0, 10}).Draw(t, "reset")
	}
	q.groupBy = rapid.SampledFrom([][]string{nil, {"dc"}, {"rack"}, {"dc", "rack"}}).Draw(t, "group by")
	return q
}

// TestAgainstOracle compares random queries over random series.
func TestAgainstOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all, q := drawSeries(rt), drawQuery(rt)
		s := newServer(t)
		for _, one := range all {
			var tags []string
			for name, value := range one.tags {
				tags = append(tags, name, value)
			}
			key := scantest.Key("", "m", tags...)
			for timeMs, value := range one.points {
				if err := s.memory.Put(key, series.Sample{TimeMs: timeMs, Value: value}); err != nil {
					rt.Fatal(err)
				}
			}
		}
		// Members of a group are merged in the order of their keys, where dc comes
		// first, by functions that depend on it, such as first, last and diff.
		slices.SortStableFunc(all, func(a, b oracleSeries) int { return strings.Compare(a.tags["dc"], b.tags["dc"]) })
		target := fmt.Sprintf("/api/query?start=%dms&end=%dms&ms&m=%s", q.start, q.end, q.text())
		status, body := s.do("GET", target, "")
		if status != 200 {
			if strings.Contains(body, "No such name") {
				return // no series has a point
			}
			rt.Fatalf("%s: %d %s", target, status, body)
		}
		compareResults(rt, q, target, body, q.evaluate(all))
	})
}

type result struct {
	Metric        string              `json:"metric"`
	Tags          map[string]string   `json:"tags"`
	AggregateTags []string            `json:"aggregateTags"`
	DPS           map[string]*float64 `json:"dps"`
}

func compareResults(t *rapid.T, q *oracleQuery, target, body string, want map[string]map[int64]float64) {
	var results []result
	if err := json.Unmarshal([]byte(body), &results); err != nil {
		t.Fatalf("%s: %v: %s", target, err, body)
	}
	got := map[string]map[int64]float64{}
	for _, r := range results {
		name := ""
		for _, tag := range q.groupBy {
			name += tag + "=" + r.Tags[tag] + ","
		}
		if q.aggregator == "none" {
			name = r.Tags["id"]
		}
		if got[name] != nil {
			t.Fatalf("%s: two results for %q: %s", target, name, body)
		}
		got[name] = map[int64]float64{}
		for text, v := range r.DPS {
			timeMs, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if got[name][timeMs] = math.NaN(); v != nil {
				got[name][timeMs] = *v
			}
		}
	}
	same := func(a, b float64) bool {
		return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) || math.IsNaN(a) && (math.IsNaN(b) || math.IsInf(b, 0))
	}
	if !maps.EqualFunc(got, want, func(a, b map[int64]float64) bool { return maps.EqualFunc(a, b, same) }) {
		t.Fatalf("%s\ngot  %v\nwant %v", target, got, want)
	}
}
