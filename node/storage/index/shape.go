package index

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// literalsMax bounds the values that a regular expression is spelled out to.
const literalsMax = 256

// regexpShape is what is known of the values that a regular expression matches,
// so that not all values of a tag have to be tried.
type regexpShape struct {
	literals []string // all of them, if few
	prefix   string   // else: what they all begin with
	rest     restKind // what follows the prefix
	suffix   string   // what they all end with; it may overlap the prefix in no value
	inside   string   // what is in them all, behind the prefix and before the suffix
}

type restKind uint8

const (
	restOther restKind = iota
	restAny            // anything without a line end: .*
	restSome           // the same, but not nothing: .+
)

// shapeOf analyses a valid expression. To know nothing is always right.
func shapeOf(text string) regexpShape {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return regexpShape{}
	}
	parts := partsOf(re.Simplify())
	if literals, ok := spellOutAll(parts); ok {
		return regexpShape{literals: literals}
	}
	var shape regexpShape
	for len(parts) > 0 {
		literal, ok := literalOf(parts[0])
		if !ok {
			break
		}
		shape.prefix += literal
		parts = parts[1:]
	}
	shape.findRest(parts)
	return shape
}

// partsOf returns what follows each other in an expression. It matches whole values, so
// a begin of text at its begin and an end at its end mean nothing.
func partsOf(re *syntax.Regexp) []*syntax.Regexp {
	parts := []*syntax.Regexp{unwrap(re)}
	if parts[0].Op == syntax.OpConcat {
		parts = parts[0].Sub
	}
	for len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		parts = parts[1:]
	}
	for len(parts) > 0 && parts[len(parts)-1].Op == syntax.OpEndText {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// literalOf returns the one string that an expression matches.
func literalOf(re *syntax.Regexp) (string, bool) {
	literals, ok := spellOut(re)
	if !ok || len(literals) != 1 {
		return "", false
	}
	return literals[0], true
}

// findRest looks at what follows the prefix.
func (shape *regexpShape) findRest(parts []*syntax.Regexp) {
	if len(parts) == 1 {
		switch last := unwrap(parts[0]); {
		case last.Op == syntax.OpStar && last.Sub[0].Op == syntax.OpAnyCharNotNL:
			shape.rest = restAny
		case last.Op == syntax.OpPlus && last.Sub[0].Op == syntax.OpAnyCharNotNL:
			shape.rest = restSome
		}
	}
	for len(parts) > 0 {
		literal, ok := literalOf(parts[len(parts)-1])
		if !ok {
			break
		}
		shape.suffix = literal + shape.suffix
		parts = parts[:len(parts)-1]
	}
	for _, part := range parts {
		if literal, ok := literalOf(part); ok && len(literal) > len(shape.inside) {
			shape.inside = literal
		}
	}
}

func unwrap(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	return re
}

// spellOut returns all strings that an expression matches, if it is made of
// literals, small classes, alternatives and sequences only and these are few.
func spellOut(re *syntax.Regexp) ([]string, bool) {
	switch re = unwrap(re); re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		text := string(re.Rune)
		// The replacement character also matches any byte that is not UTF-8.
		if re.Flags&syntax.FoldCase != 0 || strings.ContainsRune(text, utf8.RuneError) {
			return nil, false
		}
		return []string{text}, true
	case syntax.OpCharClass:
		return spellOutClass(re.Rune)
	case syntax.OpAlternate, syntax.OpQuest:
		return spellOutAny(re)
	case syntax.OpConcat:
		return spellOutAll(re.Sub)
	default:
		return nil, false
	}
}

func spellOutClass(ranges []rune) (all []string, ok bool) {
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if len(all) == literalsMax || !utf8.ValidRune(r) || r == utf8.RuneError {
				return nil, false
			}
			all = append(all, string(r))
		}
	}
	return all, len(all) > 0
}

func spellOutAny(re *syntax.Regexp) (all []string, ok bool) {
	if re.Op == syntax.OpQuest {
		all = append(all, "")
	}
	for _, sub := range re.Sub {
		literals, ok := spellOut(sub)
		if !ok || len(all)+len(literals) > literalsMax {
			return nil, false
		}
		all = append(all, literals...)
	}
	return all, true
}

func spellOutAll(subs []*syntax.Regexp) ([]string, bool) {
	all := []string{""}
	for _, sub := range subs {
		literals, ok := spellOut(sub)
		if !ok || len(all)*len(literals) > literalsMax {
			return nil, false
		}
		product := make([]string, 0, len(all)*len(literals))
		for _, head := range all {
			for _, tail := range literals {
				product = append(product, head+tail)
			}
		}
		all = product
	}
	return all, true
}
