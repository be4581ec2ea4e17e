package api

import (
	"fmt"
	"regexp"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// selectorOf gives the selector of a message, whose expressions can be compiled.
// Errors: wire.ErrInvalid.
func selectorOf(m *tickmeshv1.Selector) (scan.Selector, error) {
	s, err := wire.ToSelector(m)
	if err != nil {
		return s, err
	}
	for i := range s.Matchers {
		matcher := &s.Matchers[i]
		if matcher.Name == "" {
			return s, fmt.Errorf("%w: matcher %d names no tag", wire.ErrInvalid, i)
		}
		if matcher.Kind != scan.MatchRegexp && matcher.Kind != scan.MatchNotRegexp {
			continue
		}
		if _, err := regexp.Compile(matcher.Values[0]); err != nil {
			return s, fmt.Errorf("%w: matcher %d, of tag %q: %w", wire.ErrInvalid, i, matcher.Name, err)
		}
	}
	return s, nil
}
