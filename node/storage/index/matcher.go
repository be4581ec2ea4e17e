package index

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/scan"
)

// matcher is a scan.Matcher made ready, for one goroutine. It has a predicate on values and may
// negate it; a tag that a series lacks has the empty value.
type matcher struct {
	name     string
	regexp   string // the expression that test stands for; "": test is no expression
	negate   bool
	presence bool // the predicate is that the series has the tag

	// One of the two: the sorted values that the predicate holds for, or a
	// function, of which all true values start with prefix.
	literals []string
	test     func(value []byte) bool
	prefix   string

	holdsEmpty bool // the predicate holds for the empty value
}

// matchesMissing reports whether series without the tag match.
func (m *matcher) matchesMissing() bool { return m.holdsEmpty != m.negate }

// holds evaluates the predicate.
func (m *matcher) holds(value []byte) bool {
	if m.test != nil {
		return m.test(value)
	}
	_, ok := slices.BinarySearchFunc(m.literals, value, func(a string, b []byte) int { return -compareText(b, a) })
	return ok
}

// matches reports whether a series matches, given its tag's value, if it has it.
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

// setFold takes values that count without their case. Each value of a tag is folded
// and looked up once, however many there are to compare with.
func (m *matcher) setFold(values []string) {
	folded := make(map[string]struct{}, len(values))
	for _, v := range values {
		folded[string(appendFolded(nil, []byte(v)))] = struct{}{}
	}
	var scratch []byte // a matcher is for one goroutine
	m.test = func(value []byte) bool {
		scratch = appendFolded(scratch[:0], value)
		_, ok := folded[string(scratch)]
		return ok
	}
	m.holdsEmpty = m.test(nil)
}

// appendFolded appends what is the same for all values that bytes.EqualFold holds
// for equal: the least of the runes that each rune folds to.
func appendFolded(dst, value []byte) []byte {
	for len(value) > 0 {
		if c := value[0]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst, value = append(dst, c), value[1:]
			continue
		}
		r, size := utf8.DecodeRune(value)
		value = value[size:]
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		dst = utf8.AppendRune(dst, least)
	}
	return dst
}

func (m *matcher) setRegexp(text string) error {
	if err := guard.Regexp(text); err != nil {
		return fmt.Errorf("%w: %w", ErrRegexp, err)
	}
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("%w: %w", ErrRegexp, err)
	}
	anchored, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil { // it ends within a quotation that takes the rest for its own
		anchored, err = regexp.Compile(`\A(?:` + text + `\E)\z`)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRegexp, err)
	}
	shape := shapeOf(text)
	m.prefix, m.regexp = shape.prefix, text
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
		// Looking for what must be there is far cheaper than the expression.
		prefix, suffix, inside := []byte(shape.prefix), []byte(shape.suffix), []byte(shape.inside)
		m.test = func(value []byte) bool {
			return bytes.HasPrefix(value, prefix) && bytes.HasSuffix(value, suffix) && bytes.Contains(value, inside) && anchored.Match(value)
		}
	}
	m.holdsEmpty = m.test(nil)
	return nil
}
