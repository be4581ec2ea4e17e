package promdiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Expressions makes expressions at random over the series of Data.
type Expressions struct {
	RNG *rand.Rand
	// Portable leaves out what versions of Prometheus since 2.42 do differently: ties of
	// topk, and functions that have come or changed.
	Portable bool
	// AtMs is a time within the data, for the modifier @.
	AtMs int64
}

func (g *Expressions) pick(list ...string) string { return list[g.RNG.IntN(len(list))] }

// Vector returns an expression of an instant vector.
func (g *Expressions) Vector(depth int) string {
	if depth <= 0 {
		return g.selector() + g.shift()
	}
	switch g.RNG.IntN(12) {
	case 0, 1:
		return g.aggregation(depth)
	case 2, 3, 4:
		return g.overTime()
	case 5:
		return g.ofEach(depth)
	case 6:
		return g.withScalar(depth)
	case 7:
		return g.pair(depth)
	case 8:
		return fmt.Sprintf("histogram_quantile(%s, sum by (le, job) (rate(latency_seconds_bucket%s[%s])))",
			g.pick("0.5", "0.9", "0.99", "0"), g.pick("", `{job=~"job[01]"}`), g.pick("2m", "5m"))
	case 9:
		return g.subquery(depth)
	case 10:
		return g.pick("absent(nothing)", `absent(up{job="job1"})`, `absent_over_time(nothing{a="b"}[5m])`, `absent_over_time(temperature_celsius{room="r1"}[1m])`)
	}
	return g.selector() + g.shift()
}

// selector returns a selector of one metric, or of some by a regular expression.
func (g *Expressions) selector() string {
	switch g.RNG.IntN(14) {
	case 0:
		return g.pick(`{__name__=~"up|memory.*"}`, `{__name__="up",job!="job1"}`, `{job="job1",__name__!~"http.*|up"}`)
	case 1:
		return "temperature_celsius" + g.pick("", `{room!="r1"}`, `{room=~"r[0-2]"}`, `{missing=""}`)
	case 2:
		return "up" + g.pick("", `{job=~"job[01]"}`, `{instance=~".*:9100"}`, `{job!~"job1|job2"}`)
	case 3, 4, 5:
		return "memory_bytes" + g.pick("", `{job="job2"}`, `{kind="used"}`, `{kind!=""}`, `{instance=~"10.0.0.[1-4]:.*"}`)
	}
	return "http_requests_total" + g.pick("", `{code="500"}`, `{code=~"2..|4.."}`, `{code!="200",job="job0"}`, `{job=~"job.+",code!~"5.."}`)
}

// shift returns modifiers.
func (g *Expressions) shift() string {
	switch g.RNG.IntN(10) {
	case 0:
		return " offset " + g.pick("1m", "7m", "-3m", "90s")
	case 1:
		return " @ " + g.pick("start()", "end()", fmt.Sprint(g.AtMs/1000))
	}
	return ""
}

func (g *Expressions) grouping() string {
	return g.pick("", "", " by (job)", " by (job, code)", " without (instance)", " by (nothing)", " without (job, instance, kind)")
}

func (g *Expressions) aggregation(depth int) string {
	of := g.Vector(depth - 1)
	switch g.RNG.IntN(12) {
	case 0:
		return fmt.Sprintf("quantile%s(%s, %s)", g.grouping(), g.pick("0.5", "0.9", "0", "1"), of)
	case 1:
		if !g.Portable {
			// Of values that hardly ever are the same: among equal ones each engine picks as it likes.
			return fmt.Sprintf("%s%s(%d, memory_bytes%s)", g.pick("topk", "bottomk"), g.grouping(), 1+g.RNG.IntN(4), g.shift())
		}
	case 2:
		return fmt.Sprintf(`count_values%s("value", up)`, g.grouping())
	}
	names := []string{"sum", "avg", "min", "max", "count", "group"}
	if !g.Portable { // of one infinite value they are no number since 3.0
		names = append(names, "stddev", "stdvar")
	}
	return fmt.Sprintf("%s%s(%s)", g.pick(names...), g.grouping(), of)
}

// overTime returns a function of a range.
func (g *Expressions) overTime() string {
	ranged := fmt.Sprintf("%s[%s]%s", g.selector(), g.pick("1m", "2m", "5m", "17m"), g.shift())
	switch g.RNG.IntN(12) {
	case 0:
		return fmt.Sprintf("quantile_over_time(%s, %s)", g.pick("0.5", "0.95"), ranged)
	case 1:
		if !g.Portable { // with @ it looked from elsewhere
			return fmt.Sprintf("predict_linear(%s, 600)", ranged)
		}
	case 2, 3, 4:
		return fmt.Sprintf("%s(http_requests_total%s[%s]%s)", g.pick("rate", "increase", "irate"), g.pick("", `{code="200"}`), g.pick("1m", "3m", "5m"), g.shift())
	}
	names := []string{"sum_over_time", "avg_over_time", "min_over_time", "max_over_time", "count_over_time", "last_over_time", "present_over_time",
		"stddev_over_time", "stdvar_over_time", "changes", "resets", "delta", "idelta", "deriv"}
	if !g.Portable {
		names = append(names, "mad_over_time", "first_over_time", "time() - ts_of_max_over_time", "time() - ts_of_last_over_time")
	}
	return fmt.Sprintf("(%s(%s))", g.pick(names...), ranged)
}

// ofEach returns a function of each sample.
func (g *Expressions) ofEach(depth int) string {
	of := g.Vector(depth - 1)
	switch g.RNG.IntN(8) {
	case 0:
		return fmt.Sprintf("round(%s, %s)", of, g.pick("5", "0.5"))
	case 1:
		return fmt.Sprintf("clamp(%s, 10, 1000)", of)
	case 2:
		return fmt.Sprintf(`label_replace(%s, "shard", "s$1", "instance", "10.0.0.([0-9]+):.*")`, of)
	case 3:
		return fmt.Sprintf(`label_join(%s, "both", "-", "job", "instance")`, of)
	case 4:
		return "(time() - timestamp(" + g.selector() + "))"
	case 5:
		return "-(" + of + ")"
	}
	return fmt.Sprintf("%s(%s)", g.pick("abs", "ceil", "floor", "sqrt", "sgn", "ln", "log2", "minute", "hour", "day_of_week", "sort"), of)
}

// withScalar returns an operation with a number.
func (g *Expressions) withScalar(depth int) string {
	of := g.Vector(depth - 1)
	ops := []string{"+", "-", "*", "/", "^", ">", "<", "==", "!=", ">= bool", "< bool"}
	if !g.Portable { // atan2 kept the name; the remainder of a mean jumps where its last bit changes
		ops = append(ops, "atan2", "%")
	}
	op := g.pick(ops...)
	number := g.pick("1", "2", "0.5", "100", "time()", "scalar(sum(up))")
	if g.RNG.IntN(3) == 0 {
		return fmt.Sprintf("%s %s (%s)", number, op, of)
	}
	return fmt.Sprintf("(%s) %s %s", of, op, number)
}

// pair returns an operation of two vectors.
func (g *Expressions) pair(depth int) string {
	a, b := g.Vector(depth-1), g.Vector(depth-2)
	switch g.RNG.IntN(5) {
	case 0:
		return fmt.Sprintf("(%s) %s %s(%s)", a, g.pick("and", "or", "unless"), g.pick("", "on (job) ", "ignoring (code, kind) "), b)
	case 1:
		return fmt.Sprintf("%s %s on (job, instance) group_left (%s) memory_bytes", g.selector(), g.pick("*", "/", ">"), g.pick("", "kind"))
	case 2:
		return fmt.Sprintf("sum by (job) (%s) %s sum by (job) (%s)", a, g.pick("+", "/", "-", ">", "== bool"), b)
	}
	of := g.selector()
	return fmt.Sprintf("%s %s %s", of, g.pick("+", "-", "/", "==", "<="), of)
}

// subquery returns a function of a range of an expression, none of which has another in it:
// steps of the inner one would lie at the edge of ranges.
func (g *Expressions) subquery(depth int) string {
	of := g.Vector(depth - 1)
	for range 20 {
		if !strings.Contains(of, ":]") && !strings.Contains(of, "m:") && !strings.Contains(of, "s:") {
			break
		}
		of = g.selector()
	}
	return fmt.Sprintf("%s((%s)[%s:%s]%s)", g.pick("max_over_time", "min_over_time", "count_over_time", "sum_over_time", "last_over_time", "avg_over_time"), of,
		g.pick("5m", "10m"), g.pick("1m", "30s", ""), g.pick("", "", " offset 2m"))
}
