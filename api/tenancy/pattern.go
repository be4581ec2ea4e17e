package tenancy

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/tickmesh/tickmesh/api/guard"
)

// Bounds of a pattern.
const (
	patternBytesMax = 1 << 10
	patternStepsMax = 4 << 10 // instructions that it is compiled to
)

// pattern picks names, by an expression that a glob may have been written as.
type pattern struct{ expression *regexp.Regexp }

// everything is the pattern that picks all names.
func everything() pattern { return pattern{regexp.MustCompile(anchored(".*"))} }

func anchored(expression string) string { return `^(?s:` + expression + `)$` }

// exactly returns the pattern that picks one name.
func exactly(name string) pattern {
	return pattern{regexp.MustCompile(anchored(regexp.QuoteMeta(name)))}
}

// parsePattern reads a pattern: /RE2/, which must match the whole name, or a glob, in which
// * stands for any characters and ? for one.
func parsePattern(text string) (pattern, error) {
	var expression string
	switch {
	case text == "":
		return pattern{}, errors.New(`expected a name, a glob such as cpu.*, or /an expression/; "*" matches everything`)
	case len(text) > patternBytesMax:
		return pattern{}, fmt.Errorf("it has %d bytes, at most %d are taken", len(text), patternBytesMax)
	case text[0] != '/':
		expression = globExpression(text)
	case len(text) < 2 || text[len(text)-1] != '/':
		return pattern{}, fmt.Errorf("%s: an expression ends with a slash, too", text)
	default:
		expression = text[1 : len(text)-1]
	}
	// By itself first: "a)|(?:b" is none, but would become one within the anchors.
	if err := checkExpression(expression); err != nil {
		return pattern{}, fmt.Errorf("%s: %w", text, err)
	}
	compiled, err := regexp.Compile(anchored(expression))
	if err != nil {
		return pattern{}, fmt.Errorf("%s: %w", text, err)
	}
	return pattern{compiled}, nil
}

// checkExpression refuses what is no expression, and one that a repetition makes so large
// that matching is slow, and takes much memory on every node.
func checkExpression(expression string) error {
	if err := guard.Regexp(expression); err != nil { // before patternStepsMax can be known
		return err
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	if n := len(program.Inst); n > patternStepsMax {
		return fmt.Errorf("it takes %d steps, at most %d are taken: have it repeat less", n, patternStepsMax)
	}
	return nil
}

func (p pattern) matches(name string) bool { return p.expression.MatchString(name) }

// globExpression writes a glob as an expression.
func globExpression(glob string) string {
	return strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(glob))
}
