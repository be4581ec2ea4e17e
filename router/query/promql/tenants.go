package promql

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// tenantLabel names, as in Mimir, the database of a series in answers to questions to several.
const tenantLabel = "__tenant_id__"

// tenants are several databases as one, in which each series has a tag with the name of its database, in the place of a
// tag of that name that it may have. Databases of selectors are those of the series, as selectorsOf chooses them; those
// of lists of names do not count. It takes no requests for folds, as groups could lack the tag.
type tenants struct {
	scan.Source
	databases []string // canonical
}

// Between implements scan.Dated, where what is below does.
func (s *tenants) Between(fromMs, toMs int64) scan.Source {
	return &tenants{scan.Between(s.Source, fromMs, toMs), s.databases}
}

// choose returns the databases whose names all matchers of the tag match, and the other matchers.
func (s *tenants) choose(matchers []*labels.Matcher) (databases []string, others []*labels.Matcher) {
	var names []*labels.Matcher
	for _, m := range matchers {
		if m.Name == tenantLabel {
			names = append(names, m)
		} else {
			others = append(others, m)
		}
	}
	for _, database := range s.databases {
		if matchAll(names, access.Display(database)) {
			databases = append(databases, database)
		}
	}
	return databases, others
}

// below returns a selector for what is below, where no series need have the tag.
func below(selector *scan.Selector) scan.Selector {
	s := *selector
	s.Matchers = slices.DeleteFunc(slices.Clone(s.Matchers), func(m scan.Matcher) bool { return m.Name == tenantLabel })
	return s
}

// tenanting adds the tag to keys. It is for one goroutine.
type tenanting struct {
	tags []series.Tag
	key  series.Key
	own  series.Key // of which next made key
	was  series.Key // what key was before it
}

// keyOf returns a key with the tag, in memory that is used again.
func (t *tenanting) keyOf(key series.Key) (series.Key, error) {
	database, metric, tags, err := key.Parts(t.tags[:0])
	t.tags = tags
	if err != nil {
		return nil, err
	}
	tags = slices.DeleteFunc(tags, func(tag series.Tag) bool { return string(tag.Name) == tenantLabel })
	tags = append(tags, series.Tag{Name: []byte(tenantLabel), Value: []byte(access.Display(string(database)))})
	t.tags, t.key = tags, series.AppendKey(t.key[:0], database, metric, tags)
	return t.key, nil
}

// next is keyOf the next chunk of a scan. Errors: errSameLabels where only the tag that gives way tells its series from the one before, as
// the samples of both would look like those of one.
func (t *tenanting) next(key series.Key) (series.Key, error) {
	if bytes.Equal(key, t.own) {
		return t.key, nil
	}
	t.key, t.was = t.was, t.key
	tagged, err := t.keyOf(key)
	if err == nil && bytes.Equal(tagged, t.was) {
		err = errSameLabels
	}
	t.own = append(t.own[:0], key...)
	return tagged, err
}

// Scan implements scan.Source. Errors: errSameLabels, too.
func (s *tenants) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	of := *request
	of.Selector = below(&request.Selector)
	keys := make([]tenanting, max(1, request.Parallel))
	return s.Source.Scan(ctx, &of, func(worker int, chunk *scan.Chunk) error {
		key, err := keys[worker].next(chunk.Key)
		if err != nil {
			return err
		}
		tagged := *chunk
		tagged.Key = key
		return visit(worker, &tagged)
	})
}

// Last implements scan.Source.
func (s *tenants) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	of, keys := below(selector), tenanting{}
	return s.Source.Last(ctx, &of, fromMs, limits, func(p scan.Point) (err error) {
		if p.Key, err = keys.keyOf(p.Key); err != nil {
			return err
		}
		return visit(p)
	})
}

// Series implements scan.Source.
func (s *tenants) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	of, keys := below(selector), tenanting{}
	return s.Source.Series(ctx, &of, limit, func(key series.Key) error {
		tagged, err := keys.keyOf(key)
		if err != nil {
			return err
		}
		return visit(tagged)
	})
}

// has reports whether a database has series of a metric; empty: of any.
func (s *tenants) has(ctx context.Context, database, metric string) (bool, error) {
	total, err := s.Source.Series(ctx, &scan.Selector{Database: database, Metric: metric, MetricAny: metric == ""}, 1, func(series.Key) error { return nil })
	return total > 0, err
}

// TagNames implements scan.Source.
func (s *tenants) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	names, err := s.Source.TagNames(ctx, database, metric, prefix, limit)
	if err != nil || !strings.HasPrefix(tenantLabel, prefix) {
		return names, err
	}
	if has, err := s.has(ctx, database, metric); err != nil || !has {
		return names, err
	}
	names = append(slices.Clone(names), tenantLabel)
	slices.Sort(names)
	names = slices.Compact(names)
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	return names, nil
}

// TagValues implements scan.Source.
func (s *tenants) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	if name != tenantLabel {
		return s.Source.TagValues(ctx, database, metric, name, prefix, limit)
	}
	if has, err := s.has(ctx, database, metric); err != nil || !has || !strings.HasPrefix(access.Display(database), prefix) {
		return nil, err
	}
	return []string{access.Display(database)}, nil
}
