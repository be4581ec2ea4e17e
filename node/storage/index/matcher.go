package index

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
)

// matcher is a scan.Matcher made ready. It has a predicate on values and may
// negate it; a tag that a series lacks has the empty value.
type matcher struct {
	name     string
	negate   bool
	presence bool // the predicate is that the series has the tag

	// One of the two: the sorted values that the predicate holds for, or a
	// function, of which all true values start with prefix.
	literals []string
	test     func(value []byte) bool
	prefix   string

	holdsEmpty bool // the predicate holds for the empty value
}

// matchesMissing says whether series without the tag match.
func (m *matcher) matchesMissing() bool { return m.holdsEmpty != m.negate }

// holds evaluates the predicate.
func (m *matcher) holds(value []byte) bool {
	if m.test != nil {
		return m.test(value)
	}
	_, ok := slices.BinarySearchFunc(m.literals, value, func(a string, b []byte) int { return -compareText(b, a) })
	return ok
}

// matches says whether a series matches, given its tag's value, if it has it.
func (m *matcher) matches(value []byte, has bool) bool {
	switch {
	case m.presence:
		return has != m.negate
	case !has:
		return m.matchesMissing()
	}
	return m.holds(value) != m.negate
}

func compileMatchers(list []scan.Matcher) ([]matcher, error) {
	compiled := make([]matcher, len(list))
	for i := range list {
		m, err := compileMatcher(&list[i])
		if err != nil {
			return nil, fmt.Errorf("filter of tag %q: %w", list[i].Name, err)
		}
		compiled[i] = m
	}
	return compiled, nil
}

func compileMatcher(s *scan.Matcher) (matcher, error) {
	m := matcher{name: s.Name}
	var err error
	switch s.Kind {
	case scan.MatchEqual, scan.MatchNotEqual, scan.MatchRegexp, scan.MatchNotRegexp:
		if len(s.Values) != 1 {
			return m, fmt.Errorf("%w: %d values where it takes one", ErrMatcher, len(s.Values))
		}
	default:
	}
	switch s.Kind {
	case scan.MatchEqual, scan.MatchNotEqual, scan.MatchIn, scan.MatchNotIn:
		m.setLiterals(s.Values)
	case scan.MatchEqualFold, scan.MatchNotEqualFold:
		m.setFold(s.Values)
	case scan.MatchRegexp, scan.MatchNotRegexp:
		err = m.setRegexp(s.Values[0])
	case scan.MatchPresent, scan.MatchAbsent:
		m.presence = true
	default:
		err = fmt.Errorf("%w: kind %d", ErrMatcher, s.Kind)
	}
	switch s.Kind {
	case scan.MatchNotEqual, scan.MatchNotIn, scan.MatchNotEqualFold, scan.MatchNotRegexp, scan.MatchAbsent:
		m.negate = true
	default:
	}
	return m, err
}

func (m *matcher) setLiterals(values []string) {
	m.literals = slices.Clone(values)
	slices.Sort(m.literals)
	m.literals = slices.Compact(m.literals)
	m.holdsEmpty = slices.Contains(m.literals, "")
}

func (m *matcher) setFold(values []string) {
	folded := make([][]byte, len(values))
	for i, v := range values {
		folded[i] = []byte(v)
		m.holdsEmpty = m.holdsEmpty || v == ""
	}
	m.test = func(value []byte) bool {
		for _, f := range folded {
			if bytes.EqualFold(f, value) {
				return true
			}
		}
		return false
	}
}

func (m *matcher) setRegexp(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("%w: %w", ErrRegexp, err)
	}
	anchored, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRegexp, err)
	}
	shape := shapeOf(text)
	m.prefix = shape.prefix
	switch {
	case shape.literals != nil:
		m.setLiterals(shape.literals)
		return nil
	case shape.rest != restOther:
		prefix, some := []byte(shape.prefix), shape.rest == restSome
		m.test = func(value []byte) bool {
			rest, ok := bytes.CutPrefix(value, prefix)
			return ok && (!some || len(rest) > 0) && bytes.IndexByte(rest, '\n') < 0
		}
	default:
		m.test = anchored.Match
	}
	m.holdsEmpty = m.test(nil)
	return nil
}
