package scantest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// compile returns the test that a selector stands for.
func compile(selector *scan.Selector) (func(series.Key) bool, error) {
	tests := make([]func(tags map[string]string) bool, 0, len(selector.Matchers))
	for _, m := range selector.Matchers {
		test, err := compileMatcher(m)
		if err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return func(key series.Key) bool {
		database, metric, list, err := key.Parts(nil)
		if err != nil || string(database) != selector.Database {
			return false
		}
		if !selector.MetricAny && string(metric) != selector.Metric {
			return false
		}
		tags := map[string]string{}
		for _, tag := range list {
			tags[string(tag.Name)] = string(tag.Value)
		}
		for _, test := range tests {
			if !test(tags) {
				return false
			}
		}
		return !selector.Exact || onlyNamed(tags, selector.Matchers)
	}, nil
}

func onlyNamed(tags map[string]string, matchers []scan.Matcher) bool {
	for name := range tags {
		if !slices.ContainsFunc(matchers, func(m scan.Matcher) bool { return m.Name == name }) {
			return false
		}
	}
	return true
}

func compileMatcher(m scan.Matcher) (func(map[string]string) bool, error) {
	one := ""
	if len(m.Values) > 0 {
		one = m.Values[0]
	}
	fold := func(v string) bool {
		return slices.ContainsFunc(m.Values, func(x string) bool { return strings.EqualFold(x, v) })
	}
	var re *regexp.Regexp
	if m.Kind == scan.MatchRegexp || m.Kind == scan.MatchNotRegexp {
		var err error
		if re, err = regexp.Compile("^(?:" + one + ")$"); err != nil {
			return nil, err
		}
	}
	if m.Kind > scan.MatchAbsent {
		return nil, fmt.Errorf("no such kind of matcher: %d", m.Kind)
	}
	return func(tags map[string]string) bool {
		value, present := tags[m.Name]
		switch m.Kind {
		case scan.MatchEqual:
			return value == one
		case scan.MatchNotEqual:
			return value != one
		case scan.MatchIn:
			return slices.Contains(m.Values, value)
		case scan.MatchNotIn:
			return !slices.Contains(m.Values, value)
		case scan.MatchEqualFold:
			return fold(value)
		case scan.MatchNotEqualFold:
			return !fold(value)
		case scan.MatchRegexp:
			return re.MatchString(value)
		case scan.MatchNotRegexp:
			return !re.MatchString(value)
		case scan.MatchPresent:
			return present
		default:
			return !present
		}
	}, nil
}
