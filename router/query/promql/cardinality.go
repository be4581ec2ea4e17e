package promql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of what /api/v1/status/tsdb looks at: it asks the storage for counts, never for
// all series.
const (
	cardinalityLimitMax   = 10_000  // entries of one list of an answer, as in Prometheus
	cardinalityMetricsMax = 20_000  // metrics whose series are counted
	cardinalityNamesMax   = 1_000   // labels whose values are counted
	cardinalityValuesMax  = 100_000 // values of a label that are counted; there may be more
	cardinalityPairsMax   = 512     // pairs of label and value whose series are counted
	cardinalityKept       = 32      // databases whose figures are kept
	cardinalityFreshFor   = 30 * time.Second
)

// figure is one line of a list.
type figure struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// cardinality is how many series and names a database has.
type cardinality struct {
	takenAt  time.Time
	series   int64
	pairs    int // distinct pairs of label and value
	metrics  []figure
	values   []figure
	bytes    []figure
	byPair   []figure
	warnings []string
}

// cardinalities keeps the figures of some databases for a while.
type cardinalities struct {
	mu   sync.Mutex
	kept map[string]*cardinality
}

// cardinality serves /api/v1/status/tsdb. The figures may be half a minute old.
func (h *handler) cardinality(x *exchange) error {
	limit := 10
	if text := x.form.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return badData(errors.New("limit must be a positive number"))
		}
		if limit = n; limit > cardinalityLimitMax {
			return badData(fmt.Errorf("limit must not exceed %d", cardinalityLimitMax))
		}
	}
	c, err := h.cardinalityOf(x)
	if err != nil {
		return err
	}
	top := func(list []figure) []figure { return append([]figure{}, list[:min(limit, len(list))]...) }
	return x.out.value(map[string]any{
		"headStats":               map[string]int64{"numSeries": c.series, "numLabelPairs": int64(c.pairs), "chunkCount": 0, "minTime": 0, "maxTime": c.takenAt.UnixMilli()},
		"seriesCountByMetricName": top(c.metrics), "labelValueCountByLabelName": top(c.values),
		"memoryInBytesByLabelName": top(c.bytes), "seriesCountByLabelValuePair": top(c.byPair),
	}, append(h.tellMissing(x), c.warnings...)...)
}

// cardinalityOf returns kept figures, or takes new ones.
func (h *handler) cardinalityOf(x *exchange) (*cardinality, error) {
	now := h.shell.Clock()
	h.cardinalities.mu.Lock()
	c := h.cardinalities.kept[x.database]
	h.cardinalities.mu.Unlock()
	if c != nil && now.Sub(c.takenAt) < cardinalityFreshFor && !now.Before(c.takenAt) {
		return c, nil
	}
	count := counting{source: x.reader.Source, database: x.database, parallel: h.options.Parallel, result: &cardinality{takenAt: now}}
	if err := count.run(x.ctx); err != nil {
		return nil, fromSource(err)
	}
	h.cardinalities.mu.Lock()
	defer h.cardinalities.mu.Unlock()
	for database, old := range h.cardinalities.kept {
		if len(h.cardinalities.kept) >= cardinalityKept || now.Sub(old.takenAt) >= cardinalityFreshFor {
			delete(h.cardinalities.kept, database)
		}
	}
	if len(x.reader.Missing()) == 0 {
		h.cardinalities.kept[x.database] = count.result
	}
	return count.result, nil
}

// counting takes the figures of one database.
type counting struct {
	source   scan.Source
	database string
	parallel int
	result   *cardinality
}

func (c *counting) run(ctx context.Context) (err error) {
	if c.result.series, err = c.count(ctx, scan.Selector{MetricAny: true}); err != nil {
		return err
	}
	if err := c.metrics(ctx); err != nil {
		return err
	}
	return c.labels(ctx)
}

// count returns the number of series of a selector.
func (c *counting) count(ctx context.Context, selector scan.Selector) (int64, error) {
	selector.Database = c.database
	return c.source.Series(ctx, &selector, 1, func(series.Key) error { return nil })
}

// warn notes that there is more than is looked at.
func (c *counting) warn(what string, bound int) {
	c.result.warnings = append(c.result.warnings, fmt.Sprintf("only the first %d %s were looked at", bound, what))
}

func (c *counting) metrics(ctx context.Context) error {
	metrics, err := c.source.Metrics(ctx, c.database, "", cardinalityMetricsMax+1)
	if err != nil {
		return err
	}
	if len(metrics) > cardinalityMetricsMax {
		metrics = metrics[:cardinalityMetricsMax]
		c.warn("metrics", cardinalityMetricsMax)
	}
	list := make([]figure, len(metrics))
	err = inParallel(ctx, c.parallel, len(metrics), func(ctx context.Context, i int) error {
		n, err := c.count(ctx, scan.Selector{Metric: metrics[i]})
		list[i] = figure{metrics[i], uint64(n)}
		return err
	})
	c.result.metrics = byValue(list)
	return err
}

// labels counts the values of each label, and the series of the pairs that there may be
// many series of: those of labels with the fewest values.
func (c *counting) labels(ctx context.Context) error {
	names, err := c.source.TagNames(ctx, c.database, "", "", cardinalityNamesMax+1)
	if err != nil {
		return err
	}
	if len(names) > cardinalityNamesMax {
		names = names[:cardinalityNamesMax]
		c.warn("labels", cardinalityNamesMax)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == nameLabel })
	values, bytes := make([]figure, len(names)), make([]figure, len(names))
	few := make([][]string, len(names))
	err = inParallel(ctx, c.parallel, len(names), func(ctx context.Context, i int) error {
		found, err := c.source.TagValues(ctx, c.database, "", names[i], "", cardinalityValuesMax)
		found = slices.DeleteFunc(found, func(value string) bool { return value == "" })
		size := 0
		for _, value := range found {
			size += len(value)
		}
		values[i], bytes[i] = figure{names[i], uint64(len(found))}, figure{names[i], uint64(size)}
		if len(found) <= cardinalityPairsMax {
			few[i] = found
		}
		return err
	})
	if err != nil {
		return err
	}
	c.result.pairs = len(c.result.metrics)
	for i := range values {
		c.result.pairs += int(values[i].Value)
		if values[i].Value == cardinalityValuesMax {
			c.warn(fmt.Sprintf("values of the label %q", names[i]), cardinalityValuesMax)
		}
	}
	c.result.values = byValue(append(values, figure{nameLabel, uint64(len(c.result.metrics))}))
	c.result.bytes = byValue(bytes)
	return c.countPairs(ctx, names, few)
}

// countPairs counts the series of pairs, of the labels with the fewest values first.
func (c *counting) countPairs(ctx context.Context, names []string, few [][]string) error {
	type pair struct{ name, value string }
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(few[a]), len(few[b])) })
	var pairs []pair
	for _, i := range order {
		if len(pairs)+len(few[i]) > cardinalityPairsMax {
			break
		}
		for _, value := range few[i] {
			pairs = append(pairs, pair{names[i], value})
		}
	}
	list := make([]figure, len(pairs))
	err := inParallel(ctx, c.parallel, len(pairs), func(ctx context.Context, i int) error {
		p := pairs[i]
		n, err := c.count(ctx, scan.Selector{MetricAny: true, Matchers: []scan.Matcher{{Name: p.name, Kind: scan.MatchEqual, Values: []string{p.value}}}})
		list[i] = figure{p.name + "=" + p.value, uint64(n)}
		return err
	})
	for _, metric := range c.result.metrics[:min(cardinalityPairsMax, len(c.result.metrics))] {
		list = append(list, figure{nameLabel + "=" + metric.Name, metric.Value})
	}
	c.result.byPair = byValue(list)
	return err
}

// byValue puts the largest figures first.
func byValue(list []figure) []figure {
	slices.SortFunc(list, func(a, b figure) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name)) })
	return list[:min(cardinalityLimitMax, len(list))]
}
