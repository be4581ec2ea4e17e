package promql

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	selectors, err := selectorsOf(ctx, q.source, q.database, matchers)
	if err != nil || len(selectors) == 0 {
		return nil, nil, err
	}
	var names []string
	if listed(selectors) {
		for i := range selectors {
			found, err := q.source.TagNames(ctx, selectors[i].Database, selectors[i].Metric, "", 0)
			if err != nil {
				return nil, nil, fromSource(err)
			}
			names = append(names, found...)
		}
		if len(names) > 0 {
			names = append(names, nameLabel)
		} else if names, err = q.nameIfAny(ctx, selectors); err != nil {
			return nil, nil, err
		}
	} else {
		found := q.newDistinct(ctx)
		err := q.keys(ctx, selectors, func(_ []byte, tags []series.Tag) error {
			for _, tag := range tags {
				if len(tag.Value) > 0 {
					if err := found.add(tag.Name); err != nil {
						return err
					}
				}
			}
			return found.add([]byte(nameLabel))
		})
		if err != nil {
			return nil, nil, err
		}
		names = found.list
	}
	return bounded(names, hints), nil, nil
}

// nameIfAny returns __name__ when there is a series at all: it is the one label that series
// without tags have.
func (q *querier) nameIfAny(ctx context.Context, selectors []scan.Selector) (names []string, err error) {
	for i := range selectors {
		total, err := q.source.Series(ctx, &selectors[i], 1, func(series.Key) error { return nil })
		if err != nil {
			return nil, fromSource(err)
		}
		if total > 0 {
			return []string{nameLabel}, nil
		}
	}
	return nil, nil
}

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	limit := 0
	if hints != nil {
		limit = hints.Limit
	}
	selectors, err := selectorsOf(ctx, q.source, q.database, matchers)
	if err != nil || len(selectors) == 0 {
		return nil, nil, err
	}
	if listed(selectors) {
		values, err := q.listValues(ctx, selectors, name, limit)
		return bounded(values, hints), nil, err
	}
	if name != nameLabel {
		for i := range selectors {
			selectors[i].Matchers = append(slices.Clip(selectors[i].Matchers), scan.Matcher{Name: name, Kind: scan.MatchPresent})
		}
	}
	found := q.newDistinct(ctx)
	err = q.keys(ctx, selectors, func(metric []byte, tags []series.Tag) error {
		if name == nameLabel {
			return found.add(metric)
		}
		for _, tag := range tags {
			if string(tag.Name) == name && len(tag.Value) > 0 {
				return found.add(tag.Value)
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return bounded(found.list, hints), nil, nil
}

// listed reports whether selectors restrict the metric only, so that the storage's lists of
// names answer.
func listed(selectors []scan.Selector) bool { return len(selectors[0].Matchers) == 0 }

// listValues lists values by the storage's lists of names.
func (q *querier) listValues(ctx context.Context, selectors []scan.Selector, name string, limit int) ([]string, error) {
	var values []string
	for i := range selectors {
		metric := selectors[i].Metric
		var found []string
		var err error
		switch {
		case name != nameLabel:
			if limit > 0 {
				limit++ // the empty value may be among them
			}
			found, err = q.source.TagValues(ctx, selectors[i].Database, metric, name, "", limit)
		case selectors[i].MetricAny:
			found, err = q.source.Metrics(ctx, selectors[i].Database, "", limit)
		default:
			found, err = q.existing(ctx, &selectors[i])
		}
		if err != nil {
			return nil, fromSource(err)
		}
		values = append(values, found...)
	}
	return slices.DeleteFunc(values, func(value string) bool { return value == "" }), nil
}

// existing returns the metric of a selector when it has series.
func (q *querier) existing(ctx context.Context, selector *scan.Selector) ([]string, error) {
	total, err := q.source.Series(ctx, selector, 1, func(series.Key) error { return nil })
	if err != nil || total == 0 {
		return nil, err
	}
	return []string{selector.Metric}, nil
}

// bounded puts names into order and cuts them to the limit.
func bounded(names []string, hints *storage.LabelHints) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	if hints != nil && hints.Limit > 0 && len(names) > hints.Limit {
		names = names[:hints.Limit]
	}
	return names
}

// keys visits the metric and tags of all series that match.
func (q *querier) keys(ctx context.Context, selectors []scan.Selector, visit func(metric []byte, tags []series.Tag) error) error {
	var tags []series.Tag
	for i := range selectors {
		_, err := q.source.Series(ctx, &selectors[i], 0, func(key series.Key) error {
			_, metric, found, err := key.Parts(tags[:0])
			if err != nil {
				return err
			}
			tags = found
			return visit(metric, found)
		})
		if err != nil {
			return fromSource(err)
		}
	}
	return nil
}

// distinct collects names, each once.
type distinct struct {
	entry *admission.Entry
	known map[string]struct{}
	list  []string
}

func (q *querier) newDistinct(ctx context.Context) *distinct {
	return &distinct{entry: admission.Of(ctx), known: map[string]struct{}{}}
}

// distinctBytes is what a name takes beside its text: in the list and in the map.
const distinctBytes = 64

func (d *distinct) add(name []byte) error {
	if _, ok := d.known[string(name)]; ok {
		return nil
	}
	text := string(name)
	d.known[text] = struct{}{}
	d.list = append(d.list, text)
	return d.entry.Take(int64(len(text)) + distinctBytes)
}

// series returns the labels of all series that any of the sets of matchers picks, in order,
// each once, at most limit (0: all).
func (q *querier) series(ctx context.Context, sets [][]*labels.Matcher, limit int) ([]labels.Labels, error) {
	entry := admission.Of(ctx)
	var found []labels.Labels
	var names naming
	for _, matchers := range sets {
		selectors, err := selectorsOf(ctx, q.source, q.database, matchers)
		if err != nil {
			return nil, err
		}
		for i := range selectors {
			_, err := q.source.Series(ctx, &selectors[i], limit, func(key series.Key) error {
				named, err := names.labels(key)
				if err != nil {
					return err
				}
				found = append(found, named)
				return entry.Take(int64(named.ByteSize()) + columnBytes)
			})
			if err != nil {
				return nil, fromSource(err)
			}
			if limit > 0 && len(sets) == 1 && len(found) >= limit {
				return found[:limit], nil
			}
		}
	}
	slices.SortFunc(found, labels.Compare)
	found = slices.CompactFunc(found, labels.Equal)
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}
