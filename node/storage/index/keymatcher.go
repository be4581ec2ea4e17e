package index

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// KeyMatcher reports which keys a selector picks, one by one, for callers that have few of them. It is for one goroutine.
type KeyMatcher struct {
	selector *scan.Selector
	matchers []matcher
	tags     []series.Tag
}

// NewKeyMatcher returns the matcher of a selector, whose shards do not count. Errors: ErrRegexp, ErrMatcher.
func NewKeyMatcher(selector *scan.Selector) (*KeyMatcher, error) {
	matchers, err := compileMatchers(selector.Matchers)
	return &KeyMatcher{selector: selector, matchers: matchers}, err
}

// Matches reports whether the selector picks a key. It picks none that is damaged.
func (k *KeyMatcher) Matches(key series.Key) bool {
	database, metric, tags, err := key.Parts(k.tags[:0])
	k.tags = tags
	if err != nil || string(database) != k.selector.Database || !k.selector.MetricAny && string(metric) != k.selector.Metric {
		return false
	}
	for i := range k.matchers {
		m := &k.matchers[i]
		at := slices.IndexFunc(tags, func(t series.Tag) bool { return string(t.Name) == m.name })
		var value []byte
		if at >= 0 {
			value = tags[at].Value
		}
		if !m.matches(value, at >= 0) {
			return false
		}
	}
	return !k.selector.Exact || !slices.ContainsFunc(tags, func(t series.Tag) bool {
		return !slices.ContainsFunc(k.matchers, func(m matcher) bool { return m.name == string(t.Name) })
	})
}
