package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/scan"
)

// errSelector marks text that is no selector.
var errSelector = errors.New(`expected metric{name=value,…}, where = may be !=, =~ or !~ with an expression, a name alone means that the tag is there, !name that it is not, and "…" quotes anything`)

// parseSelector reads a selector: cpu{host=a,rack!="b c",zone=~"eu-.*",dc,!test}. An
// empty metric means all.
func parseSelector(text, database string) (scan.Selector, error) {
	p := &selectorParser{rest: text}
	s := scan.Selector{Database: database}
	metric, err := p.word()
	if err != nil {
		return s, err
	}
	s.Metric, s.MetricAny = metric, metric == ""
	if p.take("{") {
		for !p.take("}") {
			if len(s.Matchers) > 0 && !p.take(",") {
				return s, p.fail()
			}
			m, err := p.matcher()
			if err != nil {
				return s, err
			}
			s.Matchers = append(s.Matchers, m)
		}
	}
	if p.space(); p.rest != "" {
		return s, p.fail()
	}
	return s, nil
}

type selectorParser struct{ rest string }

func (p *selectorParser) fail() error {
	if p.rest == "" {
		return fmt.Errorf("%w; the text ends early", errSelector)
	}
	return fmt.Errorf("%w; cannot read %q", errSelector, p.rest)
}

func (p *selectorParser) space() { p.rest = strings.TrimLeft(p.rest, " ") }

func (p *selectorParser) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	p.rest = rest
	return ok
}

// word reads a name or a value, which may be empty.
func (p *selectorParser) word() (string, error) {
	p.space()
	if strings.HasPrefix(p.rest, `"`) {
		quoted, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			return "", p.fail()
		}
		p.rest = p.rest[len(quoted):]
		return strconv.Unquote(quoted)
	}
	end := strings.IndexAny(p.rest, `{},=!~"`)
	if end < 0 {
		end = len(p.rest)
	}
	word := strings.TrimRight(p.rest[:end], " ")
	p.rest = p.rest[end:]
	return word, nil
}

func (p *selectorParser) matcher() (m scan.Matcher, err error) {
	absent := p.take("!")
	if m.Name, err = p.word(); err != nil {
		return m, err
	}
	if m.Name == "" {
		return m, p.fail()
	}
	operators := []struct {
		text string
		kind scan.MatchKind
	}{{"=~", scan.MatchRegexp}, {"!~", scan.MatchNotRegexp}, {"!=", scan.MatchNotEqual}, {"=", scan.MatchEqual}}
	for _, o := range operators {
		if absent || !p.take(o.text) {
			continue
		}
		value, err := p.word()
		m.Kind, m.Values = o.kind, []string{value}
		return m, err
	}
	m.Kind = scan.MatchPresent
	if absent {
		m.Kind = scan.MatchAbsent
	}
	return m, nil
}
