package opentsdb

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
)

// graphFunction is a function of /api/query/gexp. It joins its inputs by an operator, or
// is prepared with its parameters and then given each line, or all lines together.
type graphFunction struct {
	join    string // operator between the inputs; empty: none
	needs   string // the parameter that has to be there; empty: none
	prepare func(parameters []string) (graphStep, error)
}

// graphStep computes lines of lines, which it leaves as they are.
type graphStep func(lines []line) []line

const (
	joinedMin = 2
	joinedMax = 26
)

// graphFunctions are those of ExpressionFactory.java.
//
//nolint:gochecknoglobals // a constant table
var graphFunctions = map[string]*graphFunction{
	"absolute":       {prepare: func([]string) (graphStep, error) { return eachValue(math.Abs), nil }},
	"alias":          {needs: "the alias", prepare: prepareAlias},
	"scale":          {needs: "the scaling factor", prepare: prepareScale},
	"movingAverage":  {needs: "the window", prepare: prepareMovingAverage},
	"highestCurrent": {needs: "the number of series", prepare: prepareHighest(lastNumber)},
	"highestMax":     {needs: "the number of series", prepare: prepareHighest(maximum)},
	"shift":          {needs: "the amount of time", prepare: prepareTimeShift},
	"timeShift":      {needs: "the amount of time", prepare: prepareTimeShift},
	"firstDiff":      {prepare: func([]string) (graphStep, error) { return eachLine(firstDifferences), nil }},
	"sumSeries":      {join: "+"}, "sum": {join: "+"},
	"diffSeries": {join: "-"}, "difference": {join: "-"},
	"multiplySeries": {join: "*"}, "multiply": {join: "*"},
	"divideSeries": {join: "/"}, "divide": {join: "/"},
}

// eachLine computes new values for each line.
func eachLine(compute func(times []int64, values, to []float64)) graphStep {
	return func(lines []line) []line {
		lines = slices.Clone(lines)
		for i := range lines {
			to := make([]float64, len(lines[i].values))
			compute(lines[i].times, lines[i].values, to)
			lines[i].values = to
		}
		return lines
	}
}

func eachValue(compute func(float64) float64) graphStep {
	return eachLine(func(_ []int64, values, to []float64) {
		for i, v := range values {
			to[i] = compute(v)
		}
	})
}

// firstDifferences gives what each point adds to the one before; the first one gives 0.
func firstDifferences(_ []int64, values, to []float64) {
	for i := 1; i < len(values); i++ {
		to[i] = values[i] - values[i-1]
	}
}

func prepareScale(parameters []string) (graphStep, error) {
	factor, err := strconv.ParseFloat(parameters[0], 64)
	if err != nil || strings.Trim(parameters[0], "-.0123456789") != "" {
		return nil, invalid("Unparseable scale factor value: %s", parameters[0])
	}
	return eachValue(func(v float64) float64 { return factor * v }), nil
}

// prepareAlias names lines; @tag in the name is the value of that tag. An aliased line has
// no tags any more. (OpenTSDB makes values absolute here, by mistake.)
func prepareAlias(parameters []string) (graphStep, error) {
	template := strings.Join(parameters, ",")
	return func(lines []line) []line {
		lines = slices.Clone(lines)
		for i := range lines {
			l := &lines[i]
			l.alias = template
			byLength := slices.Clone(l.tags) // @hostname before @host
			slices.SortStableFunc(byLength, func(a, b series.Tag) int { return len(b.Name) - len(a.Name) })
			for _, tag := range byLength {
				l.alias = strings.ReplaceAll(l.alias, "@"+string(tag.Name), string(tag.Value))
			}
			l.tags, l.aggregated = nil, nil
		}
		return lines
	}, nil
}

// prepareHighest keeps the lines with the highest rank, the highest first. A line of NaN
// alone comes last.
func prepareHighest(rank func(values []float64) float64) func([]string) (graphStep, error) {
	return func(parameters []string) (graphStep, error) {
		n, err := strconv.ParseUint(parameters[0], 10, 31)
		if err != nil {
			return nil, invalid("Unparseable top n value: %s", parameters[0])
		}
		if n < 1 {
			return nil, invalid("Top n value must be greater than zero: %d", n)
		}
		return func(lines []line) []line {
			type ranked struct {
				line
				rank float64
			}
			order := make([]ranked, len(lines))
			for i := range lines {
				order[i] = ranked{lines[i], rank(lines[i].values)}
			}
			slices.SortStableFunc(order, func(a, b ranked) int { return compareNumbers(b.rank, a.rank) })
			kept := make([]line, min(int(n), len(order)))
			for i := range kept {
				kept[i] = order[i].line
			}
			return kept
		}, nil
	}
}

// lastNumber gives the last value that is a number.
func lastNumber(values []float64) float64 {
	for _, v := range slices.Backward(values) {
		if v == v {
			return v
		}
	}
	return math.NaN()
}

// prepareTimeShift moves points to a later time, like '10min'.
func prepareTimeShift(parameters []string) (graphStep, error) {
	ms, err := parseQuoted(parameters[0], map[string]int64{
		"sec": secondMs, "min": 60 * secondMs, "hr": hourMs, "day": dayMs, "days": dayMs, "week": 7 * dayMs, "weeks": 7 * dayMs,
	})
	if err != nil {
		return nil, err
	}
	return func(lines []line) []line {
		lines = slices.Clone(lines)
		for i := range lines {
			times := make([]int64, len(lines[i].times))
			for at, t := range lines[i].times {
				times[at] = t + ms
			}
			lines[i].times = times
		}
		return lines
	}, nil
}

// parseQuoted reads a number and a unit between quotes, in milliseconds.
func parseQuoted(text string, units map[string]int64) (int64, error) {
	if len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' {
		return 0, invalid("Invalid amount of time: %s. It has to be quoted, like '10min'", text)
	}
	inner := text[1 : len(text)-1]
	unit := strings.TrimLeft(inner, "0123456789")
	unitMs, ok := units[strings.TrimSpace(unit)]
	n, err := strconv.ParseInt(inner[:len(inner)-len(unit)], 10, 32)
	switch {
	case !ok:
		return 0, invalid("Unknown time unit of %s", text)
	case err != nil || n <= 0 || n > durationMsMax/unitMs:
		return 0, invalid("Invalid amount of time: %s", text)
	}
	return n * unitMs, nil
}

// prepareMovingAverage takes a number of points or an amount of time, like '10min'.
func prepareMovingAverage(parameters []string) (graphStep, error) {
	if strings.Trim(parameters[0], "0123456789") != "" {
		ms, err := parseQuoted(parameters[0], map[string]int64{
			"day": dayMs, "d": dayMs, "hr": hourMs, "hour": hourMs, "h": hourMs, "min": 60 * secondMs, "m": 60 * secondMs, "sec": secondMs, "s": secondMs,
		})
		if err != nil {
			return nil, err
		}
		return eachLine(func(times []int64, values, to []float64) { movingAverageOfTime(times, values, to, ms) }), nil
	}
	n, err := strconv.ParseInt(parameters[0], 10, 32)
	if err != nil || n < 1 {
		return nil, invalid("Moving average window must be an integer greater than zero")
	}
	return eachLine(func(_ []int64, values, to []float64) { movingAverageOfPoints(values, to, int(n)) }), nil
}

// movingAverageOfPoints gives at each point the mean of the last n numbers, and 0 before
// there are n (MovingAverage.java).
func movingAverageOfPoints(values, to []float64, n int) {
	var w slidingSum
	for i, v := range values {
		if v == v {
			if w.count == n {
				w.drop()
			}
			w.add(v)
		}
		if w.count == n {
			to[i] = w.total() / float64(n)
		}
	}
}

// movingAverageOfTime gives at each point the mean of the numbers of the last ms, itself
// included, and 0 as long as no point is older than that.
func movingAverageOfTime(times []int64, values, to []float64, ms int64) {
	var w slidingSum
	oldest := 0
	for i, v := range values {
		if v == v {
			w.add(v)
		}
		for times[i]-times[oldest] >= ms {
			if values[oldest] == values[oldest] {
				w.drop()
			}
			oldest++
		}
		if oldest > 0 && w.count > 0 {
			to[i] = w.total() / float64(w.count)
		}
	}
}

// slidingSum sums numbers that come at one end and go at the other, without subtracting,
// which would keep the rounding errors of all that have gone: it keeps sums of the older
// ones up to each, and one sum of the newer ones.
type slidingSum struct {
	older []float64 // sums of the i+1 newest of the older numbers
	newer []float64
	sum   float64 // of newer
	count int
}

func (s *slidingSum) add(v float64) {
	s.newer = append(s.newer, v)
	s.sum += v
	s.count++
}

// drop takes the oldest number away.
func (s *slidingSum) drop() {
	if len(s.older) == 0 {
		sum := 0.0
		for _, v := range slices.Backward(s.newer) {
			sum += v
			s.older = append(s.older, sum)
		}
		s.newer, s.sum = s.newer[:0], 0
	}
	s.older = s.older[:len(s.older)-1]
	s.count--
}

func (s *slidingSum) total() float64 {
	if n := len(s.older); n > 0 {
		return s.older[n-1] + s.sum
	}
	return s.sum
}
