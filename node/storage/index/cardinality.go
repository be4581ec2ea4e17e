package index

import (
	"cmp"
	"context"
	"slices"
)

// MetricCardinality is the number of active series of a metric.
type MetricCardinality struct {
	Metric string
	Series int64
}

// MetricCardinalities returns the metrics of a database with the most active
// series, at most limit (0: all), the largest first.
func (x *Index) MetricCardinalities(ctx context.Context, database string, limit int) ([]MetricCardinality, error) {
	series := map[string]int64{}
	err := x.parts.read(func(parts []*part) error {
		clear(series)
		active := x.activity.view(AllDays())
		for _, p := range parts {
			p.eachMetric(database, "", func(m *metricEntry) bool {
				if count := active.count(p.lo, m.series); count > 0 {
					series[string(m.metric)] += count
				}
				return ctx.Err() == nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := make([]MetricCardinality, 0, len(series))
	for metric, count := range series {
		list = append(list, MetricCardinality{metric, count})
	}
	slices.SortFunc(list, func(a, b MetricCardinality) int {
		return cmp.Or(cmp.Compare(b.Series, a.Series), cmp.Compare(a.Metric, b.Metric))
	})
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, ctx.Err()
}

// TagCardinality describes how many values of active series a tag has.
type TagCardinality struct {
	Name   string
	Values int64
	Series int64 // that have the tag
}

// TagCardinalities returns the tags of a metric, sorted by name.
func (x *Index) TagCardinalities(ctx context.Context, database, metric string) ([]TagCardinality, error) {
	tags, err := x.NamesOf(nil).TagNames(ctx, database, metric, "", 0)
	if err != nil {
		return nil, err
	}
	list := make([]TagCardinality, len(tags))
	for i, name := range tags {
		values, err := x.NamesOf(nil).TagValues(ctx, database, metric, name, "", 0)
		if err != nil {
			return nil, err
		}
		list[i] = TagCardinality{Name: name, Values: int64(len(values))}
	}
	err = x.parts.read(func(parts []*part) error {
		active := x.activity.view(AllDays())
		for i := range list {
			list[i].Series = 0
		}
		for _, p := range parts {
			p.eachMetric(database, metric, func(m *metricEntry) bool {
				m.eachTag(func(t tagEntry) bool {
					i, ok := slices.BinarySearchFunc(list, t.name, func(c TagCardinality, name []byte) int {
						return -compareText(name, c.Name)
					})
					if ok {
						list[i].Series += active.count(p.lo, t.series)
					}
					return true
				})
				return ctx.Err() == nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, ctx.Err()
}
