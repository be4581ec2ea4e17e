package tenancy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// patternBytesMax bounds a pattern.
const patternBytesMax = 1 << 10

// pattern picks names: by a glob, or by a regular expression.
type pattern struct {
	glob       string
	expression *regexp.Regexp // instead of glob; nil: none
}

// parsePattern reads a pattern: /RE2/, which must match the whole name, or a glob, in which
// * stands for any characters and ? for one byte.
func parsePattern(text string) (pattern, error) {
	switch {
	case text == "":
		return pattern{}, errors.New(`expected a name, a glob such as cpu.*, or /an expression/; "*" matches everything`)
	case len(text) > patternBytesMax:
		return pattern{}, fmt.Errorf("it has %d bytes, at most %d are taken", len(text), patternBytesMax)
	case text[0] != '/':
		return pattern{glob: text}, nil
	case len(text) < 2 || text[len(text)-1] != '/':
		return pattern{}, fmt.Errorf("%s: an expression ends with a slash, too", text)
	}
	expression, err := regexp.Compile(`^(?s:` + text[1:len(text)-1] + `)$`)
	if err != nil {
		return pattern{}, fmt.Errorf("%s: %w", text, err)
	}
	return pattern{expression: expression}, nil
}

func (p *pattern) matches(name string) bool {
	if p.expression != nil {
		return p.expression.MatchString(name)
	}
	return matchGlob(p.glob, name)
}

// matchGlob says whether a glob matches the whole name. It takes time in proportion to the
// product of their lengths at most.
func matchGlob(glob, name string) bool {
	if !strings.ContainsAny(glob, "*?") {
		return glob == name
	}
	star, resume := -1, 0 // of the last * : where it stands, and the byte of name after what it covers
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, resume = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0: // the star covers one more
			resume++
			g, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
