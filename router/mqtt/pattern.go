package mqtt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// topicBytesMax bounds topics and filters, as MQTT does.
const topicBytesMax = 65535

// metricLevel is the name of the levels of a topic that make the metric; those with other names are tags.
const metricLevel = "metric"

var errPattern = errors.New("not a pattern of topics")

// levelKind is what a level of a pattern matches.
type levelKind uint8

const (
	levelText levelKind = iota // its text
	levelAny                   // any one level
	levelRest                  // all further levels, none too
)

type level struct {
	kind levelKind
	text string // of levelText
	name string // under which what it matches is known; empty: it is not kept
}

// pattern is a filter of topics whose levels may have names:
//
//	sensors/{room}/+/{metric}
//	plant/{line}/{metric#}
//
// {name} matches one level, as + does, {name#} all further ones, as # does.
type pattern struct {
	text   string
	levels []level
}

// parsePattern reads a pattern. Errors: errPattern.
func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	switch {
	case text == "" || len(text) > topicBytesMax || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return pattern{}, fmt.Errorf("%w: expected 1 to %d bytes of UTF-8", errPattern, topicBytesMax)
	case strings.HasPrefix(text, "$share/"):
		return pattern{}, fmt.Errorf("%w: %q: take $share/GROUP/ away and name the group by the key share of the connection", errPattern, text)
	}
	parts := strings.Split(text, "/")
	for i, part := range parts {
		l, err := parseLevel(part)
		if err != nil {
			return pattern{}, fmt.Errorf("%w: %q: %w", errPattern, text, err)
		}
		if l.kind == levelRest && i != len(parts)-1 {
			return pattern{}, fmt.Errorf("%w: %q: %s stands for all further levels, so it has to be the last one", errPattern, text, part)
		}
		if l.name != "" && l.name != metricLevel && p.has(l.name) {
			return pattern{}, fmt.Errorf("%w: %q: two levels have the name %s", errPattern, text, l.name)
		}
		p.levels = append(p.levels, l)
	}
	return p, nil
}

func parseLevel(part string) (level, error) {
	switch part {
	case "+":
		return level{kind: levelAny}, nil
	case "#":
		return level{kind: levelRest}, nil
	}
	inner, opens := strings.CutPrefix(part, "{")
	inner, closes := strings.CutSuffix(inner, "}")
	if !opens || !closes {
		if strings.ContainsAny(part, "+#{}") {
			return level{}, fmt.Errorf("%s: +, #, {name} and {name#} have to be a level of their own", part)
		}
		return level{text: part}, nil
	}
	name, rest := strings.CutSuffix(inner, "#")
	if err := checkName(name); err != nil {
		return level{}, err
	}
	if rest {
		return level{kind: levelRest, name: name}, nil
	}
	return level{kind: levelAny, name: name}, nil
}

// has reports whether a level has the name.
func (p *pattern) has(name string) bool {
	return slices.ContainsFunc(p.levels, func(l level) bool { return l.name == name })
}

// filter returns the filter of MQTT that the pattern is.
func (p *pattern) filter() string {
	parts := make([]string, len(p.levels))
	for i, l := range p.levels {
		switch l.kind {
		case levelAny:
			parts[i] = "+"
		case levelRest:
			parts[i] = "#"
		default:
			parts[i] = l.text
		}
	}
	return strings.Join(parts, "/")
}

// named is what a level with a name has matched.
type named struct{ name, value string }

// match reports whether the pattern matches a topic, by MQTT's rules, and returns what its named levels are.
func (p *pattern) match(topic string) (values []named, ok bool) {
	if strings.HasPrefix(topic, "$") && p.levels[0].kind != levelText {
		return nil, false // topics of the broker's own are matched by their name only
	}
	rest, more := topic, true
	for _, l := range p.levels {
		if l.kind == levelRest {
			if l.name != "" {
				values = append(values, named{l.name, rest})
			}
			return values, true
		}
		if !more {
			return nil, false
		}
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if l.kind == levelText && l.text != part {
			return nil, false
		}
		if l.name != "" {
			values = append(values, named{l.name, part})
		}
	}
	if more {
		return nil, false
	}
	return values, true
}

// metricOf returns the metric that named levels make: those of that name, joined.
func metricOf(values []named) string {
	var parts []string
	for _, v := range values {
		if v.name == metricLevel && v.value != "" {
			parts = append(parts, strings.ReplaceAll(v.value, "/", "_"))
		}
	}
	return strings.Join(parts, "_")
}
