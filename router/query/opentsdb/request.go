package opentsdb

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/scan"
)

// dataQuery is a parsed and checked request of /api/query (net.opentsdb.core.TSQuery).
type dataQuery struct {
	fromMs, toMs int64 // both inclusive
	subs         []subQuery

	msResolution bool
	arrays       bool // dps as [[time, value]]
	showQuery    bool
	showSummary  bool
	showTSUIDs   bool
	delete       bool
	explain      bool // what would be read is wanted, not what is there
	nanAsText    bool // what JSON has no number for is OpenTSDB's text, not null
}

// subQuery is one query of a request (net.opentsdb.core.TSSubQuery). The fields
// up to index are the request's own text, for show_query.
type subQuery struct {
	aggregatorName string
	metric         string
	tsuids         []string
	downsampleText string
	rate           bool
	rateOptions    *rateOptions
	filters        []filter
	explicitTags   bool
	index          int

	aggregator aggregator
	downsample *downsample // nil: none
	selectors  []scan.Selector
	groupBy    []string // names of tags, sorted
}

// normalize checks a sub-query and fills in what follows from its text. Meter measures the filters
// of all sub-queries of the request.
func (q *subQuery) normalize(meter *guard.Meter, database string, useCalendar bool, location *time.Location, fromMs int64) error {
	if q.aggregatorName == "" {
		return invalid("Missing the aggregation function")
	}
	var ok bool
	if q.aggregator, ok = findAggregator(q.aggregatorName); !ok {
		return invalid("No such aggregation function: %s", q.aggregatorName)
	}
	if q.metric == "" && len(q.tsuids) == 0 {
		return invalid("Missing the metric or tsuids, provide at least one")
	}
	if q.downsampleText != "" {
		var err error
		if q.downsample, err = parseDownsample(q.downsampleText, useCalendar, location, fromMs); err != nil {
			return err
		}
	}
	if q.rate && q.rateOptions == nil {
		q.rateOptions = &rateOptions{counterMax: counterMaxDefault}
	}
	for _, f := range q.filters {
		if err := meter.Token(); err != nil {
			return invalid("%v", err)
		}
		if f.groupBy {
			q.groupBy = append(q.groupBy, f.tag)
		}
	}
	slices.Sort(q.groupBy)
	q.groupBy = slices.Compact(q.groupBy)
	return q.normalizeSelectors(meter, database)
}

func (q *subQuery) normalizeSelectors(meter *guard.Meter, database string) error {
	for _, tsuid := range q.tsuids {
		selector, err := selectorOfTSUID(tsuid, database)
		if err != nil {
			return err
		}
		q.selectors = append(q.selectors, selector)
	}
	if len(q.tsuids) > 0 {
		return nil // they take precedence over the metric
	}
	selector := scan.Selector{Database: database, Metric: q.metric, Exact: q.explicitTags && len(q.filters) > 0}
	for i := range q.filters {
		matchers, err := q.filters[i].matchers(meter)
		if err != nil {
			return err
		}
		selector.Matchers = append(selector.Matchers, matchers...)
	}
	q.selectors = []scan.Selector{selector}
	return nil
}

// span returns the time that the sub-query has to look at.
func (q *subQuery) span(fromMs, toMs int64) span {
	crossing := q.aggregator.margins
	if q.downsample != nil && q.downsample.fill != fillNone {
		crossing = false // every series has every window
	}
	if q.rate && q.aggregator.selection == selectMerged && (q.downsample == nil || q.downsample.fill == fillNone) {
		crossing = true // a rate holds until the next one
	}
	return planSpan(fromMs, toMs, q.downsample, crossing || q.rate, crossing)
}

// parseExpression reads the parameter m,
//
//	aggregator:[rate[{counter|dropcounter[,max[,reset]]}]:][interval-function[-fill]:][explicit_tags:]metric[{tags to group by}[{other tags}]]
//
// or, with tsuids set, the parameter tsuid, where a list of tsuids stands in
// place of the metric. What pre-agg and rollup_… ask for is always so.
func parseExpression(text string, tsuids bool) (subQuery, error) {
	var q subQuery
	parts, err := splitOutside(text, ':')
	if err != nil {
		return q, err
	}
	if len(parts) < 2 {
		return q, invalid("Invalid parameter m=%s (not enough :-separated parts)", text)
	}
	q.aggregatorName = parts[0]
	at := 1
	for at < len(parts)-1 {
		known, err := q.parseModifier(parts[at])
		if err != nil {
			return q, err
		}
		if !known {
			break // a metric that has colons
		}
		at++
	}
	last := strings.Join(parts[at:], ":")
	if tsuids {
		q.tsuids = strings.Split(last, ",")
		return q, nil
	}
	q.metric, q.filters, err = parseMetricAndFilters(last)
	return q, err
}

// parseModifier reads one part between aggregator and metric, if it is one.
func (q *subQuery) parseModifier(part string) (known bool, err error) {
	lower := strings.ToLower(part)
	switch {
	case lower == "rate":
		q.rate = true
	case strings.HasPrefix(lower, "rate{") && strings.HasSuffix(lower, "}"):
		q.rate = true
		q.rateOptions, err = parseRateOptions(part[len("rate{") : len(part)-1])
	case part != "" && part[0] >= '0' && part[0] <= '9', strings.HasPrefix(lower, "all-"):
		q.downsampleText = part
	case lower == "explicit_tags":
		q.explicitTags = true
	case lower == "pre-agg", strings.HasPrefix(lower, "rollup_"):
	case strings.HasPrefix(lower, "percentiles["), strings.HasPrefix(lower, "show-histogram-buckets"):
		err = errHistograms()
	default:
		return false, nil
	}
	return true, err
}

func errHistograms() error {
	return invalid("Histograms are not stored, so percentiles of their buckets cannot be queried: use the aggregators p50 to p999")
}

// parseRateOptions reads counter|dropcounter[,max[,reset]].
func parseRateOptions(text string) (*rateOptions, error) {
	parts := strings.Split(text, ",")
	if len(parts) > 3 {
		return nil, invalid("Incorrect number of values in rate options specification, must be "+
			"counter[,counter max value,reset value], received: %d parts", len(parts))
	}
	o := &rateOptions{counter: strings.HasSuffix(parts[0], "counter"), dropResets: parts[0] == "dropcounter", counterMax: counterMaxDefault}
	for i, field := range []struct {
		name string
		to   *float64
	}{{"Max", &o.counterMax}, {"Reset", &o.resetValue}} {
		if i+1 >= len(parts) || parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(parts[i+1], 64)
		if err != nil || math.IsNaN(n) {
			return nil, invalid("%s value of counter was not a number, received '%s'", field.name, parts[i+1])
		}
		*field.to = n
	}
	return o, nil
}

// parseMetricAndFilters reads metric{tags to group by}{other tags}; both lists
// may be left out.
func parseMetricAndFilters(text string) (metric string, filters []filter, err error) {
	open := strings.IndexByte(text, '{')
	if open < 0 {
		return text, nil, nil
	}
	metric = text[:open]
	if metric == "" {
		return "", nil, invalid("Metric cannot be null or empty: %s", text)
	}
	rest := text[open:]
	for groupBy := true; rest != ""; groupBy = false {
		end := closing(rest)
		if end < 0 || rest[0] != '{' || !groupBy && end != len(rest)-1 {
			return "", nil, invalid("Missing '}' at the end of: %s", text)
		}
		list, err := parseTagFilters(rest[1:end], groupBy)
		if err != nil {
			return "", nil, err
		}
		filters = append(filters, list...)
		rest = rest[end+1:]
	}
	return metric, filters, nil
}

func parseTagFilters(text string, groupBy bool) ([]filter, error) {
	if text == "" {
		return nil, nil
	}
	parts, err := splitOutside(text, ',')
	if err != nil {
		return nil, err
	}
	var filters []filter
	seen := map[filter]bool{}
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if !ok || name == "" {
			return nil, invalid("When parsing tag '%s': invalid tag: %s", part, part)
		}
		f, err := parseTagFilter(name, value, groupBy)
		if err != nil {
			return nil, invalid("When parsing tag '%s': %v", part, err)
		}
		if !seen[f] {
			seen[f] = true
			filters = append(filters, f)
		}
	}
	return filters, nil
}

// closing returns the index of the brace that closes the one at 0, or -1.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{', '(':
			depth++
		case '}', ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// splitOutside splits at a separator outside of braces and parentheses, so that
// regular expressions may hold it.
func splitOutside(text string, separator byte) ([]string, error) {
	var parts []string
	depth, from := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '{' || c == '(':
			depth++
		case c == '}' || c == ')':
			depth--
		case c == separator && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
		if depth < 0 {
			return nil, invalid("A bracket is closed that was not opened: %s", text)
		}
	}
	if depth != 0 {
		return nil, invalid("Missing '}' at the end of: %s", text)
	}
	return append(parts, text[from:]), nil
}
