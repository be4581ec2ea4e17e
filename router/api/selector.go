package api

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// selectorOf returns the selector of a message, whose expressions can be compiled.
// Errors: wire.ErrInvalid.
func selectorOf(m *tickmeshv1.Selector) (scan.Selector, error) {
	s, err := wire.ToSelector(m)
	if err != nil {
		return s, err
	}
	s.Database = access.Canonical(s.Database)
	var meter guard.Meter
	for i := range s.Matchers {
		matcher := &s.Matchers[i]
		if err := meter.Token(); err != nil {
			return s, fmt.Errorf("%w: %w", wire.ErrInvalid, err)
		}
		if matcher.Name == "" {
			return s, fmt.Errorf("%w: matcher %d names no tag", wire.ErrInvalid, i)
		}
		if matcher.Kind != scan.MatchRegexp && matcher.Kind != scan.MatchNotRegexp {
			continue
		}
		if err := meter.Regexp(matcher.Values[0]); err != nil {
			return s, fmt.Errorf("%w: matcher %d, of tag %q: %w", wire.ErrInvalid, i, matcher.Name, err)
		}
		if _, err := regexp.Compile(matcher.Values[0]); err != nil {
			return s, fmt.Errorf("%w: matcher %d, of tag %q: %w", wire.ErrInvalid, i, matcher.Name, err)
		}
	}
	return s, nil
}

// queryOf describes a query for admission control.
func queryOf(method string, m *tickmeshv1.Selector) admission.Query {
	metric := string(m.GetMetric())
	if m.GetMetricAny() {
		metric = "*"
	}
	text := append([]byte(method), ' ')
	text = append(append(text, metric...), '{')
	for i, matcher := range m.GetMatchers() {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%s %s %q", matcher.GetName(), strings.TrimPrefix(matcher.GetKind().String(), "MATCH_KIND_"), matcher.GetValues())
	}
	return admission.Query{Database: string(m.GetDatabase()), Text: string(append(text, '}'))}
}
