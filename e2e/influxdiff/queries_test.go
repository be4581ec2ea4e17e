package influxdiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// maker makes random queries.
type maker struct{ *rand.Rand }

func (m maker) one(of ...string) string { return of[m.IntN(len(of))] }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

// moment returns a time within the points', as a literal of some form.
func (m maker) moment() string {
	ms := startMs + m.Int64N(hourMs)
	return m.one(fmt.Sprintf("%dms", ms), fmt.Sprintf("%d000000", ms), "'2023-01-01T00:20:00Z'", "'2023-01-01 00:31:10.5'")
}

// times returns a condition on time, with both ends when bounded.
func (m maker) times(bounded bool) string {
	if bounded || m.chance(50) {
		from := m.Int64N(hourMs / 2)
		to := from + 1 + m.Int64N(hourMs-from)
		return fmt.Sprintf("time %s %dms AND time %s %dms", m.one(">", ">="), startMs+from, m.one("<", "<="), startMs+to)
	}
	return "time " + m.one(">", ">=", "<", "<=") + " " + m.moment()
}

// comparison returns a condition on a tag or a field.
func (m maker) comparison() string {
	switch m.IntN(8) {
	case 0:
		return fmt.Sprintf("host %s '%s'", m.one("=", "!="), m.one("a", "b", "zz", ""))
	case 1:
		return fmt.Sprintf("dc %s '%s'", m.one("=", "!="), m.one("x", "y", ""))
	case 2:
		return fmt.Sprintf("host %s /%s/", m.one("=~", "!~"), m.one("^a$", "a|b", "^(a|c)$", ".*", "^$", "[bc]"))
	case 3:
		return fmt.Sprintf("dc %s /%s/", m.one("=~", "!~"), m.one("^x$", ".+", ".*", "^$", "^(x|y)$"))
	case 4:
		return fmt.Sprintf("%s %s %s", m.one("f", "g", "value"), m.one("+", "-", "*"), "g") + m.one(" > 2", " <= 3", " = 1")
	case 5:
		return m.one("nosuch = ''", "nosuch = 'x'", "nosuch != ''")
	}
	return fmt.Sprintf("%s %s %s", m.one("f", "g", "value"), m.one("=", "!=", "<", "<=", ">", ">="), m.one("1", "2", "1.5", "0", "-0.5"))
}

func (m maker) condition() string {
	c := m.comparison()
	for m.chance(35) {
		other := m.comparison()
		if m.chance(30) {
			other = "(" + other + m.one(" AND ", " OR ") + m.comparison() + ")"
		}
		c += m.one(" AND ", " OR ") + other
	}
	return "(" + c + ")"
}

// where returns a WHERE clause, or nothing.
func (m maker) where(bounded bool) string {
	var all []string
	if bounded || m.chance(60) {
		all = append(all, m.times(bounded))
	}
	if m.chance(40) {
		all = append(all, m.condition())
	}
	if len(all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(all, " AND ")
}

func (m maker) field() string { return m.one("f", "g", "value") }

func (m maker) order() string { return m.one("", "", " ORDER BY time ASC", " ORDER BY time DESC") }

// limits returns LIMIT and OFFSET.
func (m maker) limits() string {
	s := ""
	if m.chance(25) {
		s += fmt.Sprintf(" LIMIT %d", 1+m.IntN(6))
		if m.chance(50) { // OFFSET alone returns as many rows there, by mistake
			s += fmt.Sprintf(" OFFSET %d", m.IntN(5))
		}
	}
	return s
}

// tags returns what to group by beside time.
func (m maker) tags() []string {
	switch m.IntN(6) {
	case 0:
		return []string{"host"}
	case 1:
		return []string{"dc"}
	case 2:
		return []string{"host", "dc"}
	case 3:
		return []string{"*"}
	case 4:
		return []string{m.one("/^h/", "/./", "nosuch", "dc,nosuch")}
	}
	return nil
}

func groupBy(of ...string) string {
	if len(of) == 0 {
		return ""
	}
	return " GROUP BY " + strings.Join(of, ", ")
}

// raw returns a query of fields and tags as they are.
func (m maker) raw() string {
	fields := m.one("*", "f", "f, g", "value, host", "f, dc, g", "f + g", "f * 2 - g / 3", "(f + g) * value", "f AS a, g AS a",
		"abs(f)", "sqrt(f), ln(g)", "pow(f, 2)", "floor(value), ceil(value), round(value)", "/f|g/", "*::tag, f", "*::field", "host", "nosuch", "f, nosuch",
		"-f", "f % 2", "f / g", "log(f, 2)", "atan2(f, g)", "time, f", "f::float", "f::integer, g", "value, value")
	s := "SELECT " + fields + " FROM " + m.one("apart", "apart", "apart", "apart, apart2", "/^apart/", "apart2", "nosuch") + m.where(false) + groupBy(m.tags()...)
	if m.chance(15) {
		s += m.one(" fill(7)", " fill(previous)", " fill(null)")
	}
	return s + m.order() + m.limits()
}

// aggregate returns the call of a function of windows.
func (m maker) aggregate() string {
	f := m.field()
	switch m.IntN(13) {
	case 0:
		return fmt.Sprintf("percentile(%s, %s)", f, m.one("50", "90.5", "100"))
	case 1:
		return fmt.Sprintf("count(distinct(%s))", f)
	}
	return m.one("count", "sum", "mean", "median", "spread", "stddev", "min", "max", "first", "last") + "(" + f + ")"
}

// picker returns the call of a function that picks a point.
func (m maker) picker() string {
	return m.one("min", "max", "first", "last") + "(" + m.field() + ")"
}

// transform returns the call of a function of neighbouring points.
func (m maker) transform(inner string) string {
	switch m.IntN(9) {
	case 0:
		return "derivative(" + inner + m.one("", ", 1m", ", 10s") + ")"
	case 1:
		return "non_negative_derivative(" + inner + m.one("", ", 1m") + ")"
	case 2:
		return "difference(" + inner + ")"
	case 3:
		return "non_negative_difference(" + inner + ")"
	case 4:
		return fmt.Sprintf("moving_average(%s, %d)", inner, 2+m.IntN(3))
	case 5:
		return "cumulative_sum(" + inner + ")"
	}
	return m.one("elapsed("+inner+")", "elapsed("+inner+", 1s)", "elapsed("+inner+", 7m)")
}

func (m maker) interval() string {
	return "time(" + m.one("1m", "5m", "10m", "7m", "13m", "1h", "90s", "1d") + m.one("", "", ", 2m", ", -30s", ", 11s") + ")"
}

func (m maker) fill() string {
	return m.one("", "", " fill(none)", " fill(null)", " fill(previous)", " fill(linear)", " fill(0)", " fill(-3.5)", " fill(100)")
}

// windowed returns a query of functions by windows of time.
func (m maker) windowed() string {
	n := 1 + m.IntN(3)
	calls := make([]string, n)
	for i := range calls {
		switch m.IntN(6) {
		case 0:
			calls[i] = m.aggregate() + m.one(" * 2", " + 1", " / 3", " - "+m.aggregate(), " * ("+m.aggregate()+" + 1)")
		case 1:
			calls[i] = m.transform(m.aggregate())
		default:
			calls[i] = m.aggregate()
		}
	}
	fields := strings.Join(calls, ", ")
	if m.chance(10) {
		fields = m.one("mean(*)", "count(*)", "max(/f|g/)", "first(*)", "derivative(mean(*))")
	}
	s := "SELECT " + fields + " FROM " + m.one("apart", "apart", "together", "apart, together", "/apart/") + m.where(true) +
		groupBy(append([]string{m.interval()}, m.tags()...)...) + m.fill() + m.order() + m.limits()
	if m.chance(12) {
		s += m.one(" tz('Europe/Berlin')", " tz('America/St_Johns')", " tz('UTC')")
	}
	return s
}

// single returns a query of a function whose answer depends there on more than it should:
// which of equal values a sort without an order leaves first (mode), the order of a Go map
// (integral), or whose rows 1.6 does not order by time DESC (distinct).
func (m maker) single() string {
	switch m.IntN(4) {
	case 0:
		return "SELECT mode(" + m.field() + ") FROM apart" + m.where(true) + groupBy("time(5m)", "*") + m.fill()
	case 1:
		return "SELECT integral(" + m.field() + m.one("", ", 1m") + ") FROM " + m.one("apart", "apart2") + m.where(true) + m.order()
	case 2:
		return "SELECT integral(" + m.field() + m.one("", ", 1m") + ") FROM " + m.one("apart", "apart2") + m.where(true) + groupBy(m.interval()) + m.order()
	}
	return "SELECT distinct(" + m.field() + ") FROM " + m.one("apart", "apart2") + m.where(m.chance(50)) + groupBy(m.tags()...)
}

// forecast returns a query of what goes on into the future.
func (m maker) forecast() string {
	return fmt.Sprintf("SELECT %s(%s(%s), %d, %d) FROM %s%s%s", m.one("holt_winters", "holt_winters_with_fit"), m.one("mean", "max", "sum", "count", "first"), m.field(),
		1+m.IntN(5), m.IntN(6), m.one("apart", "together"), m.where(true), groupBy(append([]string{"time(" + m.one("1m", "5m", "7m", "4m, 1m") + ")"}, m.tags()...)...)) + m.fill()
}

// whole returns a query of functions over all of the time.
func (m maker) whole() string {
	fields := m.one(
		"median("+m.field()+")", "mean(f), "+m.aggregate(), m.picker(), m.picker()+", host", m.picker()+", f, g", m.picker()+", *",
		"mean(*)", "count(*), max(g)", "max(f) - min(f)", "spread(f) / 2 AS half",
		"count(f) / 2", "count(f) % 3", "sum(f) / count(f)", "first(host)", "max(*)", "count(nosuch)", "max(nosuch), max(f)")
	return "SELECT " + fields + " FROM " + m.one("apart", "apart", "apart2", "apart, apart2") + m.where(m.chance(50)) + groupBy(m.tags()...) + m.order() + m.limits()
}

// limited returns a query of a part of the groups. All of them have points.
func (m maker) limited() string {
	return "SELECT " + m.one("f", "mean(f)", "max(g), host", "count(value), sum(f)") + " FROM " + m.one("apart", "apart, apart2", "/apart/") +
		groupBy(m.one("host", "dc", "host, dc", "*")) + m.order() + m.one(" SLIMIT 1", " SLIMIT 2 SOFFSET 1", " SLIMIT 3", " LIMIT 2 SLIMIT 2", " LIMIT 2 OFFSET 1 SLIMIT 1 SOFFSET 2")
}

// clocks returns a query of windows of local time, where clocks are changed.
func (m maker) clocks() string {
	from, to := int64(springMs), int64(springMs+3*dayMs)
	if m.chance(50) {
		from, to = autumnMs, autumnMs+3*dayMs
	}
	return "SELECT " + m.one("count(f)", "sum(f)", "mean(f), first(f)", "difference(sum(f))") + " FROM clocks WHERE " +
		fmt.Sprintf("time >= %dms AND time < %dms", from+m.Int64N(dayMs), to-m.Int64N(dayMs)) +
		groupBy("time("+m.one("1d", "1h", "6h", "12h", "2d", "30m", "1w")+m.one("", "", ", 1h", ", -90m")+")") + m.fill() + m.order() +
		m.one(" tz('Europe/Berlin')", " tz('America/New_York')", " tz('Australia/Lord_Howe')", "")
}

// wrong returns a statement that is refused, or means nothing.
func (m maker) wrong() string {
	return m.one("SELECT", "SELECT * FROM", "SELECT f FROM apart WHERE", "SELECT f FROM apart GROUP BY time", "SELECT f FROM apart GROUP BY time(5m)",
		"SELECT mean(f) FROM apart GROUP BY time(5)", "SELECT mean(f), g FROM apart", "SELECT max(f), min(f), g FROM apart", "SELECT time FROM apart",
		"SELECT nosuch(f) FROM apart", "SELECT mean(f, g) FROM apart", "SELECT mean() FROM apart", "SELECT mean(2) FROM apart", "SELECT percentile(f) FROM apart",
		"SELECT percentile(f, 'x') FROM apart", "SELECT derivative(mean(f)) FROM apart", "SELECT derivative(f) FROM apart GROUP BY time(1m)",
		"SELECT derivative(f, 0s) FROM apart", "SELECT derivative(f, 3) FROM apart", "SELECT moving_average(f) FROM apart", "SELECT moving_average(f, 1) FROM apart",
		"SELECT moving_average(f, 1.5) FROM apart", "SELECT top(f) FROM apart", "SELECT top(f, 0) FROM apart", "SELECT top(f, 2), max(g) FROM apart",
		"SELECT top(f, 5) FROM apart LIMIT 2", "SELECT distinct(f), g FROM apart", "SELECT distinct(f, g) FROM apart",
		"SELECT distinct(f), max(g) FROM apart", "SELECT f FROM apart fill(none)", "SELECT f FROM apart fill(linear)", "SELECT mean(f) FROM apart WHERE max(f) > 2",
		"SELECT mean(f) FROM apart WHERE time > 'yesterday'", "SELECT f FROM apart WHERE time > 0 OR time < 5", "SELECT f FROM apart GROUP BY f(2)",
		"SELECT mean(f) FROM apart GROUP BY time(1m), time(2m)", "SELECT mean(f) FROM apart GROUP BY time(1m, 2m, 3m)", "SELECT mean(f) FROM apart GROUP BY time(1m, 'x')",
		"SELECT f FROM (SELECT f FROM apart ORDER BY time DESC)", "SELECT f FROM apart ORDER BY host", "SELECT 1 + 2 FROM apart", "SELECT 'x' FROM apart",
		"SELECT * + 1 FROM apart", "SELECT /f/ + 1 FROM apart", "SELECT mean(*) + 1 FROM apart", "SELECT pow(f) FROM apart", "SELECT abs(f, 2) FROM apart",
		"SELECT integral(f, g) FROM apart", "SELECT elapsed(f, 2) FROM apart", "SELECT difference(f, 1m) FROM apart", "SELECT count(distinct(*)) FROM apart",
		"SELECT sample(f, 0) FROM apart", "SELECT f FROM nosuchdb..apart", "SHOW TAG VALUES FROM apart", "SHOW SERIES ON nosuchdb", "SHOW TAG KEYS ON nosuchdb",
		"SHOW FIELD KEYS ON nosuchdb", "SHOW MEASUREMENTS WHERE time > 0", "DROP SERIES FROM apart WHERE time > 0", "SELECT f FROM apart; SELECT; SELECT g FROM apart",
		"SHOW DATABASES; SELECT nosuch(f) FROM apart", "SHOW RETENTION POLICIES ON nosuchdb", "CREATE DATABASE", "SELECT mean(f) FROM apart GROUP BY host.dc",
		"SELECT bottom(f, host) FROM apart", "SELECT f FROM apart LIMIT -1", "SELECT f FROM apart LIMIT 1.5", "SELECT sum(host) + 1 FROM apart", "SELECT f & 1 FROM apart",
		"SELECT f > 1 FROM apart", "SELECT -f FROM apart", "SELECT mean(mean(f)) FROM apart", "SELECT cumulative_sum(mean(f)) FROM apart", "SELECT f FROM _series")
}

// best returns a query of top or bottom.
func (m maker) best() string {
	call := fmt.Sprintf("%s(%s, %s%d)", m.one("top", "bottom"), m.field(), m.one("", "", "host, ", "host, dc, "), 1+m.IntN(4))
	s := "SELECT " + call + m.one("", "", ", host", ", f") + " FROM apart" + m.where(true)
	tags := m.tags()
	if m.chance(40) {
		tags = append(tags, m.one("time(10m)", "time(20m)"))
	}
	return s + groupBy(tags...) // 1.6 does not order by time DESC within a window
}

// transformed returns a query of a function of neighbouring points, of one series or several.
func (m maker) transformed() string {
	fields := m.transform(m.field())
	if m.chance(25) {
		fields += ", " + m.transform(m.field())
	}
	if m.chance(10) {
		fields = m.one("derivative(*)", "difference(/f|g/)", "cumulative_sum(*)")
	}
	return "SELECT " + fields + " FROM apart" + m.where(false) + groupBy(m.tags()...) + m.order() + m.limits()
}

// nested returns a query of a subquery.
func (m maker) nested() string {
	inner := m.one(
		"SELECT mean(f) AS x FROM apart"+m.where(true)+" GROUP BY "+m.interval()+", host, dc",
		"SELECT sum(f) AS x FROM apart"+m.where(true)+" GROUP BY host, dc",
		"SELECT f AS x, g AS y FROM apart"+m.where(false),
		"SELECT f + g AS x, value AS y FROM apart"+m.where(false)+" GROUP BY host, dc",
		"SELECT derivative(f, 1m) AS x FROM apart"+m.where(false)+" GROUP BY host, dc",
	)
	outer := m.one("mean(x)", "max(x)", "sum(x)", "count(x)", "min(y)", "x", "x, y", "x * 2", "max(x) - min(x)", "count(x) / 2", "*", "max(x), y")
	s := "SELECT " + outer + " FROM (" + inner + ")"
	var by []string
	if m.chance(30) {
		s += " WHERE " + m.one("x > 1", "x > 0 AND host = 'a'", "host != 'b'", "x + y > 3", "x < 4 OR dc = 'x'")
	}
	if m.chance(50) {
		by = append(by, m.one("host", "dc", "host, dc"))
	}
	return s + groupBy(by...)
}

// show returns a statement that shows what there is.
func (m maker) show() string {
	tagConditions := m.one("", " WHERE host = 'a'", " WHERE dc =~ /x|y/", " WHERE host != 'b' AND dc = ''", " WHERE rack = 'r1'", " WHERE host = 'a' OR dc = 'y'")
	from := m.one("", " FROM apart", " FROM /apart/", " FROM apart, together", " FROM nosuch")
	switch m.IntN(9) {
	case 0: // != is there of measurements, not of their series
		return "SHOW MEASUREMENTS" + m.one("", " WITH MEASUREMENT =~ /apa/", " WITH MEASUREMENT = apart2") + m.one("", " WHERE host = 'a'", " WHERE dc =~ /x|y/", " WHERE rack = 'r1'") + m.limits()
	case 1:
		return "SHOW TAG KEYS" + from + tagConditions + m.limits()
	case 2:
		return "SHOW TAG VALUES" + from + m.one(` WITH KEY = "host"`, ` WITH KEY IN ("host", "dc")`, ` WITH KEY =~ /./`, ` WITH KEY != "host"`, ` WITH KEY !~ /h/`) + tagConditions + m.limits()
	case 3:
		return "SHOW FIELD KEYS" + from + m.limits()
	case 4:
		return "SHOW SERIES" + from + tagConditions + m.limits()
	case 5:
		return "SHOW " + m.one("SERIES EXACT CARDINALITY FROM apart", "MEASUREMENT EXACT CARDINALITY", "TAG KEY CARDINALITY", "FIELD KEY CARDINALITY")
	case 6:
		return `SHOW TAG VALUES CARDINALITY` + from + ` WITH KEY = "host"`
	case 7:
		return "SHOW DATABASES"
	}
	return "SHOW RETENTION POLICIES"
}
