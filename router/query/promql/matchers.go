package promql

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/scan"
)

// nameLabel is the label that holds a series' metric.
const nameLabel = model.MetricNameLabel

// selectorsOf returns selectors that together pick the series that all matchers match, none
// of them twice. Matchers of the metric other than one equality are decided here, by the
// list of metrics, so that the storage picks series of these metrics only. No selector:
// nothing can match. Of tenants, the database does not count.
func selectorsOf(ctx context.Context, source scan.Source, database string, matchers []*labels.Matcher) ([]scan.Selector, error) {
	several, ok := source.(*tenants)
	if !ok {
		return selectorsIn(ctx, source, database, matchers)
	}
	var all []scan.Selector
	databases, others := several.choose(matchers)
	for _, database := range databases {
		selectors, err := selectorsIn(ctx, source, database, others)
		if err != nil {
			return nil, err
		}
		all = append(all, selectors...)
	}
	return all, nil
}

// selectorsIn is selectorsOf one database.
func selectorsIn(ctx context.Context, source scan.Source, database string, matchers []*labels.Matcher) ([]scan.Selector, error) {
	selector := scan.Selector{Database: database}
	var names []*labels.Matcher
	equal := (*labels.Matcher)(nil)
	for _, m := range matchers {
		switch {
		case m.Name != nameLabel:
			selector.Matchers = append(selector.Matchers, tagMatcher(m))
		case m.Type == labels.MatchEqual && equal == nil:
			equal = m
		default:
			names = append(names, m)
		}
	}
	if equal != nil {
		if equal.Value == "" || !matchAll(names, equal.Value) {
			return nil, nil // every series has a metric
		}
		selector.Metric = equal.Value
		return []scan.Selector{selector}, nil
	}
	if len(names) == 0 {
		selector.MetricAny = true
		return []scan.Selector{selector}, nil
	}
	metrics, err := metricsOf(ctx, source, database, names)
	if err != nil {
		return nil, err
	}
	if metrics == nil {
		selector.MetricAny = true
		return []scan.Selector{selector}, nil
	}
	selectors := make([]scan.Selector, len(metrics))
	for i, metric := range metrics {
		selectors[i] = selector
		selectors[i].Metric = metric
	}
	return selectors, nil
}

// metricsOf returns the metrics that all matchers match; nil: all that there are.
func metricsOf(ctx context.Context, source scan.Source, database string, matchers []*labels.Matcher) ([]string, error) {
	for _, m := range matchers {
		if set := m.SetMatches(); m.Type == labels.MatchRegexp && len(set) > 0 {
			set = slices.Clone(set)
			slices.Sort(set)
			return slices.DeleteFunc(slices.Compact(set), func(metric string) bool { return metric == "" || !matchAll(matchers, metric) }), nil
		}
	}
	prefix := ""
	for _, m := range matchers {
		if p := m.Prefix(); m.Type == labels.MatchRegexp && len(p) > len(prefix) {
			prefix = p
		}
	}
	metrics, err := source.Metrics(ctx, database, prefix, 0)
	if err != nil {
		return nil, fromSource(err)
	}
	all := len(metrics)
	metrics = slices.DeleteFunc(metrics, func(metric string) bool { return !matchAll(matchers, metric) })
	if prefix == "" && len(metrics) == all && all > 0 {
		return nil, nil
	}
	return slices.Clip(append([]string{}, metrics...)), nil
}

func matchAll(matchers []*labels.Matcher, value string) bool {
	for _, m := range matchers {
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

// tagMatcher returns the storage's form of a matcher. Both take a missing tag for an empty
// value. A regular expression that only names alternatives becomes their list.
func tagMatcher(m *labels.Matcher) scan.Matcher {
	s := scan.Matcher{Name: m.Name, Values: []string{m.Value}}
	switch m.Type {
	case labels.MatchEqual:
		s.Kind = scan.MatchEqual
	case labels.MatchNotEqual:
		s.Kind = scan.MatchNotEqual
	case labels.MatchRegexp, labels.MatchNotRegexp:
		s.Kind = scan.MatchRegexp
		if m.Type == labels.MatchNotRegexp {
			s.Kind = scan.MatchNotRegexp
		}
		if set := m.SetMatches(); len(set) > 0 {
			s.Kind, s.Values = scan.MatchIn, set
			if m.Type == labels.MatchNotRegexp {
				s.Kind = scan.MatchNotIn
			}
			break
		}
		s.Values[0] = "(?s:" + m.Value + ")" // as in Prometheus a point stands for a line's end too
	}
	return s
}
